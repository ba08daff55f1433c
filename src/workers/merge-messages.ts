/** What the merge thread and its client say to each other: a request in, partitions out. */
import type { MergedPartition, MergeLimits, MergeRequest } from "../lake/merge/merge.js";

/** What the thread is started with. */
export interface MergeWorkerData {
  /** Secret; never logged. */
  readonly connectionString: string;
  readonly objectStoreUri: string;
  readonly limits: MergeLimits;
}

/** A task of the pool. */
export type MergeTask = MergeRequest;

/** Its answer. */
export type MergeAnswer = readonly MergedPartition[];
