import { PassThrough, Writable } from "node:stream";
import { describe, expect, it } from "vitest";

import { runCli } from "../../src/cli/main.js";
import { createOutput } from "../../src/cli/terminal.js";

/** A reader that takes nothing. */
const stalled = (): Writable => new Writable({ highWaterMark: 1, write: () => undefined });

describe("Ctrl-C", () => {
  it.each([
    ["a write", (output: ReturnType<typeof createOutput>) => output.write("row")],
    ["a flush", (output: ReturnType<typeof createOutput>) => output.flush()],
  ])("ends %s that waits for a reader", async (_name, wait) => {
    const interrupted = new AbortController();
    const waiting = wait(createOutput({ stdout: stalled(), interrupted: interrupted.signal }));
    interrupted.abort();
    await expect(waiting).rejects.toThrow(/abort/u);
  });

  it("ends a command that waits for a statement", async () => {
    const interrupted = new AbortController();
    const stderr = new PassThrough();
    const running = runCli({
      argv: ["query", "-"],
      env: { SVC_ANALYTICS_API_KEY: "svk_some" },
      homeDirectory: "/nowhere",
      workingDirectory: "/nowhere",
      version: "test",
      terminal: {
        stdin: new PassThrough(),
        stdout: new PassThrough(),
        stderr,
        interrupted: interrupted.signal,
        now: Date.now,
      },
    });
    interrupted.abort();
    expect(await running).toBe(130);
    expect(stderr.read()).toBeNull();
  });
});
