import type { MergeOfList } from "../../../src/lake/merge/merge.js";

/** Partitions of the logs of one audience to merge, in a form that goes to another process. */
export interface MergeWork {
  readonly audience: string;
  readonly partitionIds: readonly string[];
  readonly level: 1 | 2 | 3;
  readonly widthSeconds: number;
}

export function mergeRequest({ audience, ...list }: MergeWork): MergeOfList {
  const audiences = { kind: "some", audiences: new Set([audience]), unstamped: false } as const;
  return { viewSet: "log_entries", audiences, ...list };
}
