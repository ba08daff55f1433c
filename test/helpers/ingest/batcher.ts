/** A batcher with an encoder and a committer whose answers the test decides. */
import { Batcher, type EncodedBatch } from "../../../src/ingest/batcher.js";
import { type IngestResult, type PendingRequest, requestCode } from "../../../src/ingest/request.js";
import type { SegmentCommit } from "../../../src/lake/catalogue-rows.js";
import type { CommitOutcome } from "../../../src/lake/committer.js";
import { createSilentLogger, type Logger } from "../../../src/runtime/log/log.js";
import { createMetrics } from "../../../src/runtime/metrics.js";
import { createManualClock } from "../manual-clock.js";

/** A batch that is being encoded. */
export interface Encoding {
  readonly names: readonly string[];
  readonly excluded: readonly string[];
  readonly large: boolean;
  /**
   * @param names of the blocks that are stored.
   * @param without the requests that there was no room for
   * @param kind how they are told
   */
  readonly done: (names?: readonly string[], without?: readonly string[], kind?: "unavailable" | "large") => void;
  readonly fail: (error: Error) => void;
}

interface Committing {
  readonly commit: SegmentCommit;
  readonly large: boolean | undefined;
  readonly assertInTime: (() => void) | undefined;
  readonly withinMs: number | undefined;
  readonly done: (outcome: CommitOutcome) => void;
}

/** One block and one object per request that is not excluded, named like the request. */
function commitOf(names: readonly string[]): SegmentCommit {
  return {
    processes: [],
    streams: [],
    blocks: names.map((blockId) => ({ blockId })),
    partitions: names.map((name) => ({ path: `${name}.parquet` })),
  } as unknown as SegmentCommit;
}

/** A batcher that the test drives. */
export function startBatcher(
  o: { workers?: number; maxRounds?: number; maxBatchBytes?: number; logger?: Logger } = {},
) {
  const clock = createManualClock();
  const encodings: Encoding[] = [];
  const commits: Committing[] = [];
  const removed: string[] = [];
  const answers = new Map<string, IngestResult[]>();
  const names = new Map<PendingRequest, string>();
  const batcher = new Batcher({
    encoder: {
      concurrency: o.workers ?? 1,
      healthy: true,
      encode: (requests, excludedBlocks, large) =>
        new Promise<EncodedBatch>((resolve, reject) => {
          const own = requests.map((request) => names.get(request) ?? "");
          encodings.push({
            names: own,
            excluded: [...excludedBlocks],
            large,
            fail: reject,
            done: (stored = own, without = [], kind = "unavailable") => {
              resolve({
                underclaims: [],
                commit: commitOf(stored.filter((name) => !excludedBlocks.has(name))),
                result: (index) =>
                  without.includes(own[index] ?? "")
                    ? { kind, retryAfterSeconds: 1 }
                    : { kind: "stored", records: 1, rejected: 0, rejectedReason: null, droppedAttributes: 0 },
              });
            },
          });
        }),
    },
    committer: {
      commit: (commit, { assertInTime, large, withinMs } = {}) =>
        new Promise((resolve) => {
          commits.push({ commit, assertInTime, large, withinMs, done: resolve });
        }),
    },
    removeObject: (path) => {
      removed.push(path);
      return Promise.resolve();
    },
    maxBatchBytes: o.maxBatchBytes ?? 800,
    clock,
    logger: o.logger ?? createSilentLogger(),
    metrics: createMetrics(),
    ...(o.maxRounds === undefined ? {} : { maxRounds: o.maxRounds }),
  });
  const submit = (name: string, length = 10): void => {
    const request: PendingRequest = {
      buffer: new SharedArrayBuffer(1),
      offset: 0,
      length,
      code: requestCode(1, "protobuf", "identity"),
      audience: null,
      sinceMs: clock.monotonicMs(),
      answer: (result) => {
        answers.set(name, [...(answers.get(name) ?? []), result]);
      },
    };
    names.set(request, name);
    batcher.submit(request);
  };
  const kinds = (): Record<string, string[]> =>
    Object.fromEntries([...answers].map(([name, all]) => [name, all.map(({ kind }) => kind)]));
  return { batcher, clock, encodings, commits, removed, submit, kinds, answers };
}
