import { execFileSync } from "node:child_process";
import { tmpdir } from "node:os";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";

const machine = new URL("../../bench/run/machine.js", import.meta.url).href;
const script = `import { describeEnvironment } from ${JSON.stringify(machine)}; console.log(describeEnvironment().commit);`;

function commitIn(directory: string): string {
  const args = ["--input-type=module", "--eval", script];
  return execFileSync(process.execPath, args, { cwd: directory, encoding: "utf8" }).trim();
}

it("says which commit a figure belongs to, and that it is unknown outside of a git work tree", () => {
  expect(commitIn(fileURLToPath(new URL("../../..", import.meta.url)))).toMatch(/^(?:[0-9a-f]{7,}\+?|unknown)$/u);
  expect(commitIn(tmpdir())).toBe("unknown");
});
