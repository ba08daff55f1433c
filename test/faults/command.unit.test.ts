import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const main = fileURLToPath(new URL("./main.js", import.meta.url));

function run(...argv: string[]): { readonly status: number | null; readonly out: string; readonly err: string } {
  const { status, stdout, stderr } = spawnSync(process.execPath, [main, ...argv], { encoding: "utf8" });
  return { status, out: stdout, err: stderr };
}

test("test:faults lists its options", () => {
  const { status, out, err } = run("--help");
  expect({ status, err }).toEqual({ status: 0, err: "" });
  expect(out).toMatch(/^pnpm test:faults: .*\n {2}--minutes .*\n {2}--seed .*\n {2}--s3 /u);
});

test.each([
  [["--minute", "3"], "Unknown option '--minute'; `pnpm test:faults --help` lists the options\n"],
  [["--minutes", "0"], '--minutes takes a number of at least 0.1, not "0"\n'],
  [["--seed", "x"], '--seed takes a whole number above 0, not "x"\n'],
])("test:faults says what is wrong with %j", (argv, sentence) => {
  expect(run(...argv)).toEqual({ status: 2, out: "", err: sentence });
});
