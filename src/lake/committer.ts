/**
 * The committer: one actor that publishes finished segments, as many as wait in one transaction
 * (group commit), one transaction at a time.
 *
 * Every segment gets exactly one answer:
 * - `committed`: its rows are published.
 * - `duplicates`: some of its blocks are already committed, and nothing of it was written. The others of
 *   its group are tried again at once without it. Two segments of one group that share a block cannot
 *   both go in: the first does, then the second learns of it.
 * - `unavailable`: the database was out, or gave no answer in time, whether to this segment or to those before it, or this
 *   process was stopped for long. The segment may be published, if the connection was lost around COMMIT, or will be, if
 *   the database goes on; so its objects must stay.
 * - `failed`: the database refused these rows, which it should not. A group that is refused is tried
 *   again one by one, so that no segment fails for another's rows.
 *
 * Every step of the loop answers at least one segment, so it ends.
 *
 * Large segments have a transaction of their own, beside the one of the others: it takes seconds. Both take their locks
 * in the same order, like the commits of several servers.
 */
import type { DeadlineSql } from "../db/deadline-sql.js";
import { reaching } from "../db/sql.js";
import { Actor } from "../runtime/actor.js";
import type { Clock, Timer } from "../runtime/clock.js";
import { errorCatalogue, toServiceError } from "../runtime/errors.js";
import type { Component } from "../runtime/lifecycle.js";
import type { Logger } from "../runtime/log/log.js";
import { createRareWarning } from "../runtime/log/rare-warnings.js";
import { durationBucketsSeconds, type Metrics } from "../runtime/metrics.js";
import type { SegmentCommit } from "./catalogue-rows.js";
import { commitSegments } from "./commit.js";
import { publishDeadline } from "./publish-deadline.js";
import { PublishedStreams } from "./published-streams.js";

/** What became of a segment; see the head of this file. */
export type CommitOutcome =
  | { readonly kind: "committed" }
  | { readonly kind: "duplicates"; readonly blockIds: ReadonlySet<string> }
  | { readonly kind: "unavailable"; readonly reason: string }
  | { readonly kind: "failed"; readonly error: unknown };

/** Publishes segments. */
export interface Committer extends Component {
  /** Never rejects. */
  commit(segment: SegmentCommit, how?: CommitHow): Promise<CommitOutcome>;
  /** Segments that wait or are in the running transaction. */
  readonly depth: number;
  /** False when transactions keep failing for a reason other than an outage. */
  readonly healthy: boolean;
}

/** What {@link Committer.commit} has to know beside the segment. */
interface CommitHow {
  /** Counts from before its objects were written; default: from now on. */
  readonly assertInTime?: () => void;
  /** Whether the others need not wait for it. */
  readonly large?: boolean;
  /** Its outcome is `unavailable` after that, in milliseconds. Default: when its transaction is given up. */
  readonly withinMs?: number;
}

interface CommitRequest {
  readonly segment: SegmentCommit;
  readonly assertInTime: () => void;
  readonly answer: (outcome: CommitOutcome) => void;
  /** Its time may be over. */
  readonly isAnswered: () => boolean;
}

/** Options of {@link createCommitter}. */
interface CommitterOptions {
  /** What has no answer by its deadline may still be committed. */
  readonly sql: Pick<DeadlineSql, "run">;
  readonly logger: Logger;
  readonly metrics: Metrics;
  readonly clock: Clock;
}

/** Stopped, or a defect. */
const lost: CommitOutcome = { kind: "unavailable", reason: errorCatalogue.UNAVAILABLE.publicMessage };

/** Most segments in one transaction. */
const maxGroup = 256;
/** An upper bound nobody should reach: what waits is bounded by the arena long before. */
const mailboxCapacity = 1 << 16;

/** Starts the committer. Stopping it commits what waits. */
export function createCommitter(o: CommitterOptions): Committer {
  const seconds = o.metrics.histogram(
    "ingestion_commit_seconds",
    "Time of a commit transaction",
    durationBucketsSeconds,
  );
  const groupSize = o.metrics.histogram(
    "ingestion_commit_segments",
    "Segments published by one transaction",
    [1, 2, 4, 8, 16, 32, 64, 128, 256],
  );
  const warn = createRareWarning(o.logger);
  const published = new PublishedStreams();
  let unanswered = 0;

  const attempt = async (group: readonly CommitRequest[]): Promise<CommitOutcome> => {
    const startMs = o.clock.monotonicMs();
    try {
      const segments = group.map(({ segment }) => segment);
      const assertInTime = (): void => group.forEach((request) => request.assertInTime());
      const result = await reaching(() => o.sql.run((sql) => commitSegments(sql, segments, published, assertInTime)));
      seconds.observe((o.clock.monotonicMs() - startMs) / 1000);
      groupSize.observe(group.length);
      return result;
    } catch (error) {
      const { retryable, publicMessage: reason } = toServiceError(error);
      if (retryable) {
        warn("given up", { err: error, segments: group.length }, "a commit was given up");
        return { kind: "unavailable", reason };
      }
      o.logger.error({ err: error, segments: group.length }, "a commit failed");
      return { kind: "failed", error };
    }
  };

  const handleBatch = async (requests: CommitRequest[]): Promise<void> => {
    let waiting: readonly CommitRequest[] = requests.filter((request) => !request.isAnswered());
    while (waiting.length > 0) {
      waiting = await step(waiting, attempt);
    }
  };

  const start = (name: string): Actor<CommitRequest> =>
    new Actor<CommitRequest>({
      name,
      capacity: mailboxCapacity,
      logger: o.logger,
      maxBatch: maxGroup,
      handleBatch,
      onError: ({ answer }) => {
        answer(lost);
      },
    });
  const ordinary = start("committer");
  const ofLarge = start("committer of large segments");

  return {
    name: "committer",
    get depth() {
      return unanswered;
    },
    get healthy() {
      return ordinary.healthy && ofLarge.healthy;
    },
    commit: (segment, { assertInTime = publishDeadline(o.clock), large = false, withinMs } = {}) =>
      new Promise((resolve) => {
        unanswered++;
        let answered = false;
        let timer: Timer | null = null;
        const answer = (outcome: CommitOutcome): void => {
          if (answered) {
            return;
          } // its time was over, or a handler that failed half-way has answered some
          answered = true;
          timer?.cancel();
          unanswered--;
          resolve(outcome);
        };
        if (!(large ? ofLarge : ordinary).tell({ segment, assertInTime, answer, isAnswered: () => answered })) {
          answer(lost);
        } else if (withinMs !== undefined) {
          timer = o.clock.schedule(() => {
            warn("late", { withinMs }, "the database gave a commit no answer in time");
            answer({ kind: "unavailable", reason: "the database does not answer" });
          }, withinMs);
        }
      }),
    stop: async () => {
      await Promise.all([ordinary.stop(), ofLarge.stop()]);
    },
  };
}

/** One transaction over the segments that can share one. Returns those without an answer yet. */
async function step(
  waiting: readonly CommitRequest[],
  attempt: (group: readonly CommitRequest[]) => Promise<CommitOutcome>,
): Promise<readonly CommitRequest[]> {
  const groupBlocks = new Set<string>();
  const group: CommitRequest[] = [];
  const later: CommitRequest[] = [];
  for (const request of waiting) {
    const { blocks } = request.segment;
    if (blocks.some(({ blockId }) => groupBlocks.has(blockId))) {
      later.push(request);
      continue;
    }
    group.push(request);
    for (const { blockId } of blocks) {
      groupBlocks.add(blockId);
    }
  }
  const outcome = await attempt(group);
  if (outcome.kind === "unavailable") {
    for (const request of waiting) {
      request.answer(outcome);
    }
    return [];
  }
  if (outcome.kind === "failed") {
    if (group.length === 1) {
      group[0]?.answer(outcome);
    } else {
      for (const request of group) {
        await settleAlone(request, attempt);
      }
    }
    return later;
  }
  if (outcome.kind === "committed") {
    for (const request of group) {
      request.answer(outcome);
    }
    for (const request of later) {
      answerDuplicates(request, groupBlocks);
    }
    return [];
  }
  const rest = group.filter((request) => !answerDuplicates(request, outcome.blockIds));
  if (rest.length === group.length) {
    throw strangeDuplicates();
  }
  return [...rest, ...later];
}

async function settleAlone(
  request: CommitRequest,
  attempt: (group: readonly CommitRequest[]) => Promise<CommitOutcome>,
): Promise<void> {
  const outcome = await attempt([request]);
  if (outcome.kind !== "duplicates") {
    request.answer(outcome);
  } else if (!answerDuplicates(request, outcome.blockIds)) {
    throw strangeDuplicates();
  }
}

/** Tells a segment which of its blocks are already committed; false when none is. */
function answerDuplicates(request: CommitRequest, standing: ReadonlySet<string>): boolean {
  const blockIds = new Set<string>();
  for (const { blockId } of request.segment.blocks) {
    if (standing.has(blockId)) {
      blockIds.add(blockId);
    }
  }
  if (blockIds.size === 0) {
    return false;
  }
  request.answer({ kind: "duplicates", blockIds });
  return true;
}

function strangeDuplicates(): Error {
  return new Error("the catalogue named duplicates that no segment of the group holds");
}
