/**
 * The batcher: gathers requests into batches, has each encoded and committed, and answers its requests.
 *
 * A batch goes through: open -> encoding -> committing -> answered; back from committing to encoding
 * when some of its blocks were already committed, at most `maxRounds` times.
 *
 * - There is one open batch, the queue. It closes as soon as nothing is being encoded and it holds at least as many
 *   bytes as are being committed: a lone request waits for nothing, or for the commit before it, which its own would wait
 *   for all the same. Further workers get a batch only once an eighth of `maxBatchBytes` waits: a batch has a price of
 *   its own (an object per table, a sync, a share of a transaction), and many small ones side by side would pay it for
 *   a few requests each. So batches grow with load, up to `maxBatchBytes`; the rest stays queued, and audiences take
 *   turns. A batch that takes long holds up no other, though: after `slowEncodeMs` it does not count. Closing happens at
 *   the end of a turn of the event loop, so that requests read in one turn share a batch.
 * - Senders that have an answer send again. So after a batch the next one waits for as many requests as were answered
 *   and queued then, but no longer than a quarter of the time that batch took: else the first to come back would be
 *   stored alone.
 * - A worker is free again once a batch is encoded, not when it is committed.
 * - Requests that a segment had no room for wait again as soon as it is encoded: what a request holds shows then.
 * - Those that turn out large, by their resources, wait in a queue of their own. One batch of them is stored at a time,
 *   in a transaction of its own, so that for the others there is a worker, and no transaction of seconds to wait for.
 * - A request is answered exactly once, and `stored` only after the transaction with its rows has
 *   committed (or after its blocks were found committed).
 * - An unexpected failure of a batch (not an outage of storage) is bisected, so that a request that
 *   triggers a defect cannot fail its neighbours. So is the death of its thread; one alone is tried twice then, since
 *   something else may have been the cause.
 * - A request that has waited for the database for `answerWithinMs`, whatever it stands behind, is answered 503.
 * - After an outage of storage, `obstacle` says so for a moment: requests are refused before they are
 *   read; the next batch then finds out whether storage is back.
 * - When half of the batches of the last seconds failed, `storing` is false: a full disk still takes a
 *   small object now and then, and senders should leave a server that stores one request in ten.
 */
import { randomUUID } from "node:crypto";

import type { SegmentCommit } from "../lake/catalogue-rows.js";
import type { Committer } from "../lake/committer.js";
import { publishDeadline } from "../lake/publish-deadline.js";
import type { Clock } from "../runtime/clock.js";
import { toServiceError } from "../runtime/errors.js";
import type { Component } from "../runtime/lifecycle.js";
import type { Logger } from "../runtime/log/log.js";
import { createRareWarning, type RareWarning } from "../runtime/log/rare-warnings.js";
import type { Metrics } from "../runtime/metrics.js";
import type { SpanSink } from "../runtime/spans.js";
import { ThreadDiedError } from "../runtime/threads/task-thread.js";
import type { Underclaim } from "./claimed-bytes.js";
import { codeIsOwnTelemetry, type IngestResult, type IngestSink, type PendingRequest } from "./request.js";
import { WaitingRequests } from "./waiting-requests.js";

/** A batch as objects that are durable and not published yet. */
export interface EncodedBatch {
  readonly commit: SegmentCommit;
  readonly underclaims: readonly Underclaim[];
  /**
   * The result of a request of the batch, valid once `commit` has been committed; unavailable: there was no room for it,
   * and there is for the first of a batch; large: there is in a batch of large ones.
   */
  result(index: number): IngestResult | { readonly kind: "large" };
}

/** The pool that encodes batches. */
export interface Encoder {
  /** Batches it can work on at the same time. */
  readonly concurrency: number;
  readonly healthy: boolean;
  /** @throws ServiceError UNAVAILABLE when the object store failed, ThreadDiedError, INTERNAL on a defect. */
  encode(
    requests: readonly PendingRequest[],
    excludedBlocks: ReadonlySet<string>,
    large: boolean,
  ): Promise<EncodedBatch>;
}

/** Options of {@link Batcher}. */
interface BatcherOptions {
  readonly encoder: Encoder;
  readonly committer: Pick<Committer, "commit">;
  /** Removes an object that was never published. */
  readonly removeObject: (path: string) => Promise<void>;
  /** Bytes of bodies, inflated, at which a batch closes (`SVC_INGESTION_BATCH_BYTES`). */
  readonly maxBatchBytes: number;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** Told about every batch but those that carry nothing but the service's own telemetry. */
  readonly span?: SpanSink;
  /** Encodings of one batch because of duplicates, before its requests get 503. Default 8. */
  readonly maxRounds?: number;
}

/** Bounds the requests of a batch, so that its messages between threads stay small. */
const maxBatchRequests = 8192;

/** How much of `maxBatchBytes` has to wait before a further worker is given a batch. */
const parallelShare = 1 / 8;

/**
 * How long a batch that is being encoded holds up the next one, so that a slow one costs the others no more. Writing to a
 * bucket is part of it, and takes 50 to 200 ms: less would make more objects there.
 */
const slowEncodeMs = 250;

/** How much of the time that a batch took the next one waits for its senders to come back, and at most how long. */
const gatherShare = 1 / 4;
const maxGatherMs = 5;

/** How long new bodies are refused after an outage. */
const outagePauseMs = 1000;

/**
 * How long a request may wait for the database, from when it was taken: in the queue, behind other commits and for its own.
 * Writing its objects is not counted. Their store has deadlines of its own, and what it takes long for would never be stored.
 */
const answerWithinMs = 25_000;

/** How far back `storing` looks. */
const recentMs = 10_000;

const retryAfterSeconds = 1;
const unavailable = { kind: "unavailable", retryAfterSeconds } as const;
const nothing: ReadonlySet<string> = new Set();

/** Requests of a batch that its segment had room for, and their results. */
interface Placed {
  readonly requests: readonly PendingRequest[];
  readonly results: readonly IngestResult[];
}

/** See the head of this file. */
export class Batcher implements IngestSink, Component {
  readonly name = "batcher";
  readonly #options: BatcherOptions;
  readonly #warn: RareWarning;
  readonly #batchRequests: { observe(value: number): void };
  readonly #batchBytes: { observe(value: number): void };
  readonly #queue = new WaitingRequests();
  readonly #large = new WaitingRequests();
  #storesLarge = false;
  /** Batches that are being encoded, and those among them that the next one waits for. */
  #encoding = 0;
  #encodingAwaited = 0;
  /** Bytes of the bodies in batches that are being committed, but for large requests. */
  #committingBytes = 0;
  /** Requests that were alone when their thread died. */
  readonly #suspects = new WeakSet<PendingRequest>();
  /** Requests that were submitted and not answered. */
  #unanswered = 0;
  #scheduled = false;
  /** Requests that the next batch waits for, and until when. */
  #gather = { requests: 0, untilMs: Number.NEGATIVE_INFINITY };
  #gatherTimed = false;
  #lastProgressMs: number;
  /** Why, and until when new bodies are refused for it. */
  #outage = { reason: "", untilMs: Number.NEGATIVE_INFINITY };
  /** What became of batches, in two periods of half of `recentMs`: the present one and the one before. */
  #recent = { stored: 0, lost: 0 };
  #before = { stored: 0, lost: 0 };
  #periodEndMs = Number.NEGATIVE_INFINITY;
  #stopping = false;
  #onIdle: (() => void) | null = null;

  constructor(o: BatcherOptions) {
    this.#options = o;
    this.#warn = createRareWarning(o.logger);
    this.#lastProgressMs = o.clock.monotonicMs();
    this.#batchRequests = o.metrics.histogram(
      "ingestion_batch_requests",
      "Requests in a batch",
      [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096],
    );
    this.#batchBytes = o.metrics.histogram(
      "ingestion_batch_bytes",
      "Bytes of the bodies in a batch, as sent",
      [1e3, 1e4, 1e5, 2.5e5, 5e5, 1e6, 2e6, 4e6, 8e6, 1.6e7],
    );
  }

  get obstacle(): string | null {
    if (this.#stopping) {
      return "the server is stopping; try again";
    }
    return this.#options.clock.monotonicMs() < this.#outage.untilMs ? this.#outage.reason : null;
  }

  /** False while most of the recent batches could not be stored. */
  get storing(): boolean {
    this.#startPeriod();
    const lost = this.#recent.lost + this.#before.lost;
    return lost === 0 || lost < this.#recent.stored + this.#before.stored;
  }

  /** Requests that were submitted and not answered. */
  get unanswered(): number {
    return this.#unanswered;
  }

  /** Milliseconds since a request was last answered while others wait; 0 when none waits. */
  get stalledMs(): number {
    return this.#unanswered === 0 ? 0 : this.#options.clock.monotonicMs() - this.#lastProgressMs;
  }

  submit(request: PendingRequest): void {
    if (this.#stopping) {
      request.answer(unavailable);
      return;
    }
    if (this.#unanswered++ === 0) {
      this.#lastProgressMs = this.#options.clock.monotonicMs();
    }
    this.#queue.add(request);
    this.#schedule();
  }

  /** Refuses new requests and resolves when every submitted one is answered. */
  async stop(): Promise<void> {
    this.#stopping = true;
    this.#schedule();
    if (this.#unanswered === 0) {
      return;
    }
    await new Promise<void>((resolve) => {
      const before = this.#onIdle;
      this.#onIdle = () => {
        before?.();
        resolve();
      };
    });
  }

  #schedule(): void {
    if (this.#scheduled || this.#queue.count + this.#large.count === 0) {
      return;
    }
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      this.#dispatch();
    });
  }

  #dispatch(): void {
    const { encoder, maxBatchBytes } = this.#options;
    if (this.#large.count > 0 && !this.#storesLarge && this.#encoding < encoder.concurrency) {
      void this.#storeLarge();
    }
    while (this.#queue.count > 0 && this.#encoding < encoder.concurrency) {
      const busy = this.#encodingAwaited > 0 || this.#queue.bytes < this.#committingBytes || this.#gathers();
      if (busy && this.#queue.bytes < maxBatchBytes * parallelShare) {
        return;
      }
      void this.#reported(this.#close(this.#queue), false);
    }
  }

  async #storeLarge(): Promise<void> {
    this.#storesLarge = true;
    await this.#reported(this.#close(this.#large), true);
    this.#storesLarge = false;
    this.#schedule();
  }

  /** Whether senders that were just answered are waited for. It looks again when they had their time. */
  #gathers(): boolean {
    const leftMs = this.#gather.untilMs - this.#options.clock.monotonicMs();
    if (leftMs <= 0 || this.#stopping || this.#queue.count >= this.#gather.requests) {
      return false;
    }
    if (!this.#gatherTimed) {
      this.#gatherTimed = true;
      this.#options.clock.schedule(() => {
        this.#gatherTimed = false;
        this.#dispatch();
      }, leftMs);
    }
    return true;
  }

  /** Takes the open batch: the queue up to its limit, and at least one request. */
  #close(queue: WaitingRequests): PendingRequest[] {
    const batch = queue.take(this.#options.maxBatchBytes, maxBatchRequests);
    this.#batchRequests.observe(batch.length);
    this.#batchBytes.observe(bytesOf(batch));
    return batch;
  }

  /** Processes a batch and tells the span sink about it. Never rejects. */
  async #reported(batch: readonly PendingRequest[], large: boolean): Promise<void> {
    const { clock, span } = this.#options;
    if (span === undefined || batch.every((request) => codeIsOwnTelemetry(request.code))) {
      await this.#process(batch, large);
      return;
    }
    const startMs = clock.nowMs();
    const stored = await this.#process(batch, large);
    span({
      name: "store batch",
      startMs,
      endMs: clock.nowMs(),
      attributes: {
        requests: batch.length,
        bytes: bytesOf(batch),
      },
      error: stored ? null : "the batch was not stored",
    });
  }

  /**
   * Never rejects; answers every request of the batch that its segment had room for, and tells whether they were stored
   * as a whole.
   */
  async #process(batch: readonly PendingRequest[], large: boolean): Promise<boolean> {
    const maxRounds = this.#options.maxRounds ?? 8;
    const { clock } = this.#options;
    const startMs = clock.monotonicMs();
    let { requests, results }: Placed = { requests: this.#inTime(batch), results: [] };
    if (requests.length === 0) {
      return false;
    }
    let leftMs = requests.reduce((least, { sinceMs }) => Math.min(least, sinceMs), startMs) + answerWithinMs - startMs;
    let excluded = nothing;
    for (let round = 0; round < maxRounds; round++) {
      const assertInTime = publishDeadline(clock);
      const encoded = await this.#encode(requests, excluded, large);
      if (encoded === null) {
        return false;
      }
      const { commit } = encoded;
      ({ requests, results } = this.#placed(requests, encoded, large));
      const bytes = large ? 0 : bytesOf(requests);
      if (commit.blocks.length === 0) {
        // Nothing new: every request was malformed, empty or already committed.
        this.#answerEach(requests, results);
        return true;
      }
      this.#committingBytes += bytes;
      const commitMs = clock.monotonicMs();
      const outcome = await this.#options.committer.commit(commit, { assertInTime, large, withinMs: leftMs });
      leftMs -= clock.monotonicMs() - commitMs;
      this.#committingBytes -= bytes;
      this.#schedule();
      if (outcome.kind === "committed") {
        this.#startPeriod();
        this.#recent.stored++;
        if (!large) {
          this.#startGathering(requests.length, startMs);
        }
        this.#answerEach(requests, results);
        return true;
      }
      if (outcome.kind === "unavailable") {
        // Its objects stay: they may be published after all. If not, maintenance removes them.
        this.#startOutage(outcome.reason);
        this.#answerAll(requests, { ...unavailable, reason: outcome.reason });
        return false;
      }
      this.#removeObjects(commit);
      if (outcome.kind === "failed") {
        await this.#narrowDown(requests, outcome.error, large);
        return false;
      }
      excluded = new Set([...excluded, ...outcome.blockIds]);
    }
    this.#options.logger.warn({ requests: requests.length, maxRounds }, "a batch met duplicates in every round");
    this.#answerAll(requests, unavailable);
    return false;
  }

  /** Answers those that have waited for too long, and returns the others. */
  #inTime(batch: readonly PendingRequest[]): readonly PendingRequest[] {
    const oldestMs = this.#options.clock.monotonicMs() - answerWithinMs;
    const late = batch.filter(({ sinceMs }) => sinceMs <= oldestMs);
    if (late.length === 0) {
      return batch;
    }
    this.#answerAll(late, { ...unavailable, reason: "the server or its database is too slow now" });
    return batch.filter(({ sinceMs }) => sinceMs > oldestMs);
  }

  /** Encodes in a place of its own, or answers the batch and returns null. */
  async #encode(
    batch: readonly PendingRequest[],
    excluded: ReadonlySet<string>,
    large: boolean,
  ): Promise<EncodedBatch | null> {
    this.#encoding++;
    const ended = large ? null : this.#await();
    let failure: unknown;
    try {
      return await this.#options.encoder.encode(batch, excluded, large);
    } catch (error) {
      failure = error;
    } finally {
      this.#encoding--;
      ended?.();
      this.#schedule();
    }
    await this.#encodeFailed(batch, failure, large);
    return null;
  }

  /** Has the next batch wait for an encoding, until it takes long. @returns what to call when it has ended */
  #await(): () => void {
    this.#encodingAwaited++;
    let isAwaited = true;
    const timer = this.#options.clock.schedule(() => {
      isAwaited = false;
      this.#encodingAwaited--;
      this.#schedule();
    }, slowEncodeMs);
    return () => {
      timer.cancel();
      this.#encodingAwaited -= isAwaited ? 1 : 0;
    };
  }

  /** Those with results; the others go back to a queue. */
  #placed(batch: readonly PendingRequest[], encoded: EncodedBatch, large: boolean): Placed {
    const requests: PendingRequest[] = [];
    const results: IngestResult[] = [];
    for (const underclaim of encoded.underclaims) {
      (large ? this.#large : this.#queue).learn(underclaim);
    }
    batch.forEach((request, index) => {
      const result = encoded.result(index);
      if (result.kind === "large" || result.kind === "unavailable") {
        (large || result.kind === "large" ? this.#large : this.#queue).add(request);
        this.#schedule();
      } else {
        requests.push(request);
        results.push(result);
      }
    });
    return { requests, results };
  }

  async #encodeFailed(batch: readonly PendingRequest[], error: unknown, large: boolean): Promise<void> {
    const { code, publicMessage: reason } = toServiceError(error);
    if (error instanceof ThreadDiedError || code === "INTERNAL") {
      await this.#narrowDown(batch, error, large);
      return;
    }
    this.#warn("", { err: error, requests: batch.length }, "a batch was not encoded", "error");
    this.#startOutage(reason);
    this.#answerAll(batch, { ...unavailable, reason });
  }

  /**
   * A defect: goes on with each half, down to the request that meets it. One after the other, so that many such requests
   * take one thread and not all.
   */
  async #narrowDown(batch: readonly PendingRequest[], error: unknown, large: boolean): Promise<void> {
    const [request] = batch;
    if (batch.length > 1) {
      const middle = batch.length >> 1;
      await this.#process(batch.slice(0, middle), large);
      await this.#process(batch.slice(middle), large);
      return;
    }
    if (error instanceof ThreadDiedError && request !== undefined && !this.#suspects.has(request)) {
      this.#suspects.add(request);
      await this.#process(batch, large);
      return;
    }
    const requestId = randomUUID();
    this.#options.logger.error({ err: error, requestId }, "a request could not be stored");
    this.#answerAll(batch, { kind: "internal", requestId });
  }

  /** @param startMs when the batch that is about to be answered was closed */
  #startGathering(answered: number, startMs: number): void {
    const nowMs = this.#options.clock.monotonicMs();
    const requests = answered + this.#queue.count;
    this.#gather = { requests, untilMs: nowMs + Math.min((nowMs - startMs) * gatherShare, maxGatherMs) };
  }

  #startOutage(reason: string): void {
    this.#startPeriod();
    this.#recent.lost++;
    this.#outage = { reason, untilMs: this.#options.clock.monotonicMs() + outagePauseMs };
  }

  /** Begins a new period when the present one is over. */
  #startPeriod(): void {
    const nowMs = this.#options.clock.monotonicMs();
    if (nowMs < this.#periodEndMs) {
      return;
    }
    const isNext = nowMs < this.#periodEndMs + recentMs / 2;
    this.#before = isNext ? this.#recent : { stored: 0, lost: 0 };
    this.#recent = { stored: 0, lost: 0 };
    this.#periodEndMs = nowMs + recentMs / 2;
  }

  #removeObjects(commit: SegmentCommit): void {
    for (const { path } of commit.partitions) {
      this.#options.removeObject(path).catch((error: unknown) => {
        this.#options.logger.warn({ err: error, path }, "an unpublished object was left behind");
      });
    }
  }

  #answerEach(batch: readonly PendingRequest[], results: readonly IngestResult[]): void {
    this.#lastProgressMs = this.#options.clock.monotonicMs();
    batch.forEach((request, index) => {
      this.#answer(request, results[index] ?? unavailable);
    });
  }

  #answerAll(batch: readonly PendingRequest[], result: IngestResult): void {
    this.#lastProgressMs = this.#options.clock.monotonicMs();
    for (const request of batch) {
      this.#answer(request, result);
    }
  }

  #answer(request: PendingRequest, result: IngestResult): void {
    this.#unanswered--;
    request.answer(result);
    if (this.#unanswered === 0) {
      this.#onIdle?.();
    }
  }
}

/** Bytes of the bodies of requests, as sent. */
function bytesOf(batch: readonly PendingRequest[]): number {
  return batch.reduce((sum, { length }) => sum + length, 0);
}
