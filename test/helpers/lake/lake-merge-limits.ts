import type { MergeLimits } from "../../../src/lake/merge/merge.js";

/** What a merge of a test may take: one thread, little memory, everything in one step. */
export function mergeLimits(tempDirectory: string): MergeLimits {
  return {
    tempDirectory,
    memoryLimitBytes: 256 << 20,
    maxTempBytes: 256 << 20,
    threads: 1,
    step: { rows: 1_000_000, bytes: 256 << 20, sources: 1000 },
    objects: 100,
  };
}
