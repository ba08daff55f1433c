/** Engines that cannot be started. */
import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import { expect, it } from "vitest";

const program = fileURLToPath(new URL("../helpers/query/engine-without-files.js", import.meta.url));

it("an engine that gets no file descriptors is an error of whoever starts it, and of nobody else", async () => {
  const command = `ulimit -n 64; exec "$0" "$1"`;
  const { stdout } = await promisify(execFile)("/bin/sh", ["-c", command, process.execPath, program]);
  expect(stdout).toBe("Error: an engine process does not start: too many files are open");
});
