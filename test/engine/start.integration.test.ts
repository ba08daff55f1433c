/** Engines that cannot be started. */
import { execFile } from "node:child_process";
import { readdirSync, readlinkSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import { expect, it } from "vitest";

import { EngineClient } from "../../src/engine/engine-client.js";

const program = fileURLToPath(new URL("../helpers/query/engine-without-files.js", import.meta.url));

it("an engine that gets no file descriptors is an error of whoever starts it, and of nobody else", async () => {
  const command = `ulimit -n 64; exec "$0" "$1"`;
  const { stdout } = await promisify(execFile)("/bin/sh", ["-c", command, process.execPath, program]);
  expect(stdout).toBe("Error: an engine process does not start: too many files are open");
});

it("an engine that does not come up in time is given up, and that is said", async () => {
  const entry = path.join(await mkdtemp(path.join(tmpdir(), "telemetry-test-engine-")), "silent.mjs");
  await writeFile(entry, "setInterval(() => undefined, 1000);");
  const options = { entry, directory: path.dirname(entry), dataBytes: null, readyMs: 200, interruptMs: 100 };
  await expect(EngineClient.start(options)).rejects.toThrow(
    "an engine process does not start: it is not ready after 0.2 s",
  );
  await rm(path.dirname(entry), { recursive: true });
});

it.runIf(process.platform === "linux")(
  "an engine that the system does not start leaves no shared memory open",
  async () => {
    const shared = (): string[] =>
      readdirSync("/proc/self/fd").filter((fd) => {
        try {
          return readlinkSync(`/proc/self/fd/${fd}`).includes("engine messages");
        } catch {
          // The directory's own, which is closed by now.
          return false;
        }
      });
    const before = shared();
    // Refused before there is a process, as one is by a system without memory.
    const options = { entry: program, directory: "a\0b", dataBytes: null, readyMs: 10_000, interruptMs: 100 };
    await expect(EngineClient.start(options)).rejects.toThrow("null bytes");
    expect(shared()).toEqual(before);
  },
);
