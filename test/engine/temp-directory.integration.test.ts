import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync } from "node:fs";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { hostname, tmpdir } from "node:os";
import path from "node:path";

import { describe, expect, it } from "vitest";

import { makeTempDirectory } from "../../src/engine/temp-directory.js";

describe("the directory for temporary files", () => {
  it("that cannot be made is told with what to do", async () => {
    const missing = path.join(tmpdir(), "telemetry-test-no-such-directory");
    await expect(makeTempDirectory(missing)).rejects.toMatchObject({
      code: "UNAVAILABLE",
      message: expect.stringMatching(/in .*no-such-directory \(ENOENT\): set TMPDIR/u) as string,
    });
  });

  it("of a dead process is removed at the next start; those of living and foreign ones stay", async () => {
    const root = await mkdtemp(path.join(tmpdir(), "telemetry-test-temp-"));
    try {
      const own = await makeTempDirectory(root);
      const owner = JSON.parse(await readFile(path.join(own, "owner.json"), "utf8")) as Record<string, unknown>;
      expect(owner).toMatchObject({ pid: process.pid, hostname: hostname() });
      const child = spawn(process.execPath, ["-e", ""]);
      await once(child, "exit");
      const leave = async (name: string, content: Record<string, unknown> | null): Promise<string> => {
        const directory = path.join(root, name);
        await mkdir(path.join(directory, "1"), { recursive: true });
        await writeFile(path.join(directory, "1", "spilled.tmp"), "x");
        if (content !== null) {
          await writeFile(path.join(directory, "owner.json"), JSON.stringify(content));
        }
        return directory;
      };
      const dead = await leave("telemetry-query-dead", { ...owner, pid: child.pid });
      const reused = await leave("telemetry-query-reused", { ...owner, started: "1" });
      const kept = await Promise.all([
        leave("telemetry-query-foreign", { ...owner, pid: child.pid, hostname: "elsewhere" }),
        leave("telemetry-query-container", { ...owner, pid: child.pid, pidNamespace: "pid:[1]" }),
        leave("telemetry-query-nobody", null),
        leave("telemetry-query-garbage", { pid: "all" }),
        leave("something-else", { ...owner, pid: child.pid }),
      ]);
      const next = await makeTempDirectory(root);
      expect(existsSync(dead)).toBe(false);
      // Where the system says when a process started, a number that was given out again is told apart.
      expect(existsSync(reused)).toBe(owner["started"] === "");
      for (const directory of [own, next, ...kept]) {
        expect(existsSync(directory)).toBe(true);
      }
      expect(readdirSync(next)).toEqual(["owner.json"]);
    } finally {
      await rm(root, { recursive: true, force: true });
    }
  });
});
