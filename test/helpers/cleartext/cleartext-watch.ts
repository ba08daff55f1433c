/**
 * Keeps watch over a whole vitest run: no log line, response, metric or output of a server may hold a key that
 * was minted in it. Test files write what they see to one directory (cleartext-tap.ts, cleartext-setup.ts); after
 * the last of them it is searched, and a run in which a key got out fails, whatever its tests said.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";

import type { TestProject } from "vitest/node";

import { scanCleartext } from "./cleartext-scan.js";

declare module "vitest" {
  interface ProvidedContext {
    /** Where this run keeps what its servers let out, and the keys that they must not. */
    cleartextDirectory: string;
  }
}

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const directory = await mkdtemp(path.join(tmpdir(), "tsvc-test-cleartext-"));
  project.provide("cleartextDirectory", directory);
  return async () => {
    const { leaks, keys, lines } = await scanCleartext(directory);
    await rm(directory, { recursive: true, force: true });
    const searched = Object.entries(lines).map(([kind, count]) => `${String(count)} of ${kind}`);
    console.log(`searched for ${String(keys)} minted keys in lines: ${searched.join(", ")}`);
    if (leaks.length === 0) {
      return;
    }
    // An error of a teardown is printed and otherwise ignored.
    process.exitCode = 1;
    const places = leaks.slice(0, 20).map(({ file, line }) => `  ${file}:${String(line)}`);
    throw new Error(
      `${String(leaks.length)} lines hold a minted key:\n${places.join("\n")}\n(test file, process, kind and line; run that test alone and look at what it logs)`,
    );
  };
}
