/**
 * The key-lookup actor: the only writer of the shared key cache and the only reader of a key table.
 *
 * A hash is idle, waiting (in one of two lanes) or asked (part of the statement under way).
 *
 *   lookup(hash)   idle -> waiting in the miss lane; otherwise joins the answer on its way
 *   refresh(hash)  idle -> waiting in the refresh lane, which is served first
 *   the actor      takes up to 1024 waiting hashes -> asked, runs one statement, writes the cache,
 *                  answers everybody -> idle; at most one statement at a time, and at most one per
 *                  `batchIntervalMs`, so 200 a second, whatever arrives
 *
 * Invariants
 * - An entry expires `ttlMs` after its statement was *sent*, not answered. The statement saw the
 *   table at that instant or later, so a revocation is never outlived by more than the TTL, however
 *   slow the database is. An answer older than its TTL is not given at all.
 * - A database error answers `unavailable`, never `rejected`, and changes no entry: cached keys go
 *   on to the end of their TTL and not beyond.
 * - After an error the actor asks nothing for a while (0.1 s doubling to 2 s) and answers
 *   `unavailable` at once; nobody queues behind a database that is down.
 * - The refresh lane has its own room: misses, however many, cannot crowd out busy keys.
 */
import { setTimeout as sleep } from "node:timers/promises";

import { Actor } from "../../runtime/actor.js";
import type { Component } from "../../runtime/lifecycle.js";
import type { Logger } from "../../runtime/log/log.js";
import type { Metrics } from "../../runtime/metrics.js";
import { type AuthOutcome, invalidToken } from "../authenticator.js";
import type { DeadlineSql } from "../../db/deadline-sql.js";
import { createErrorReporter, type ErrorReporter } from "../error-reporter.js";
import { type LiveKeyRow, selectLiveKeys } from "./key-query.js";
import { isAudience, type KeyTable } from "./keys.js";
import type { SharedClock } from "../shared-clock.js";
import { type KeyPrincipalKind, liveOutcome, type SharedKeyCacheWriter } from "./shared-key-cache.js";

const maxBatch = 1024;
/** Most hashes that may wait in the miss lane; beyond it the answer is `unavailable`. */
const maxWaiting = 8192;
/** Least time between the starts of two statements. */
const batchIntervalMs = 5;
const firstBackoffMs = 100;
const maxBackoffMs = 2000;

/** Options of the key-lookup actor. */
interface KeyLookupOptions {
  /** Its deadline bounds a look-up; at most `ttlMs`, or slow answers would be worth nothing. */
  readonly sql: DeadlineSql;
  readonly table: KeyTable;
  readonly cache: SharedKeyCacheWriter;
  readonly principalKind: KeyPrincipalKind;
  /** `SVC_AUTH_CACHE_TTL_SECONDS` in milliseconds; the bound on revocation. */
  readonly ttlMs: number;
  /** `SVC_API_KEY_UNKNOWN_CACHE_TTL_SECONDS` in milliseconds. */
  readonly unknownTtlMs: number;
  readonly clock: SharedClock;
  readonly logger: Logger;
  readonly metrics: Metrics;
}

interface Waiting {
  readonly answer: Promise<AuthOutcome>;
  readonly resolve: (outcome: AuthOutcome) => void;
}

/** See the head of the file. One per key table and process. */
export class KeyLookup implements Component {
  readonly name: string;
  readonly #o: KeyLookupOptions;
  readonly #actor: Actor<"wake">;
  readonly #errors: ErrorReporter;
  readonly #inFlight = new Map<string, Waiting>();
  readonly #refreshLane = new Set<string>();
  readonly #missLane = new Set<string>();
  readonly #countStatement: () => void;
  readonly #countHashes: (count: number) => void;
  readonly #countRefused: () => void;
  #backoffMs = 0;
  #closedUntilMs = 0;
  #lastStatementMs = Number.NEGATIVE_INFINITY;
  #stopped = false;

  constructor(o: KeyLookupOptions) {
    this.name = `key-lookup ${o.table}`;
    this.#o = o;
    this.#errors = createErrorReporter({
      table: o.table,
      metrics: o.metrics,
      logger: o.logger,
      clock: o.clock,
      quietMs: o.ttlMs,
    });
    const { table } = o;
    const statements = o.metrics.counter("api_key_lookup_statement_count", "Statements sent to look up API keys.", [
      "table",
    ]);
    const hashes = o.metrics.counter("api_key_lookup_hash_count", "Key hashes asked of the database.", ["table"]);
    const refused = o.metrics.counter(
      "api_key_lookup_refused_count",
      "Key look-ups answered unavailable without a statement (queue full, or database just failed).",
      ["table"],
    );
    this.#countStatement = () => statements.inc({ table });
    this.#countHashes = (count) => hashes.inc({ table }, count);
    this.#countRefused = () => refused.inc({ table });
    this.#actor = new Actor<"wake">({
      name: this.name,
      // One wake-up waiting is as good as many: the handler empties both lanes.
      capacity: 1,
      logger: o.logger,
      handle: () => this.#drain(),
    });
  }

  /** False when the actor keeps failing. */
  get healthy(): boolean {
    return this.#actor.healthy;
  }

  /** Hashes whose answer is under way. */
  get pending(): number {
    return this.#inFlight.size;
  }

  /** The answer for a hash that the cache does not hold; never rejects, never `null`. */
  lookup(hash: string): Promise<AuthOutcome> {
    const known = this.#inFlight.get(hash);
    if (known !== undefined) {
      return known.answer;
    }
    if (this.#mustRefuse() || this.#missLane.size >= maxWaiting) {
      this.#countRefused();
      return Promise.resolve(this.#unavailable());
    }
    return this.#enqueue(hash, this.#missLane);
  }

  /** Ask for a new look at a cached key before it expires. */
  refresh(hash: string): void {
    if (this.#inFlight.has(hash)) {
      return;
    }
    if (this.#mustRefuse()) {
      this.#releaseLater([hash]);
      return;
    }
    void this.#enqueue(hash, this.#refreshLane);
  }

  /** Refuses new look-ups, answers what waits, and resolves when nothing is under way. */
  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#actor.stop();
    this.#answer([...this.#inFlight.keys()], () => this.#unavailable());
  }

  #enqueue(hash: string, lane: Set<string>): Promise<AuthOutcome> {
    let resolve: (outcome: AuthOutcome) => void = () => undefined;
    const answer = new Promise<AuthOutcome>((r) => {
      resolve = r;
    });
    this.#inFlight.set(hash, { answer, resolve });
    lane.add(hash);
    this.#actor.tell("wake");
    return answer;
  }

  #mustRefuse(): boolean {
    return this.#stopped || this.#o.clock() < this.#closedUntilMs;
  }

  #unavailable(): AuthOutcome {
    const retryAfterSeconds = Math.max(1, Math.ceil(this.#backoffMs / 1000));
    return { kind: "unavailable", retryAfterSeconds };
  }

  async #drain(): Promise<void> {
    while (this.#refreshLane.size + this.#missLane.size > 0) {
      const waitMs = this.#lastStatementMs + batchIntervalMs - this.#o.clock();
      if (waitMs > 0) {
        await sleep(waitMs);
      }
      const batch = this.#takeBatch();
      try {
        await this.#step(batch);
      } catch (error) {
        // A defect, not an outage: nobody may wait for ever because of it, and the rest is still served.
        this.#answer(batch, () => this.#unavailable());
        this.#actor.tell("wake");
        throw error;
      }
    }
  }

  #takeBatch(): string[] {
    const batch: string[] = [];
    for (const lane of [this.#refreshLane, this.#missLane]) {
      for (const hash of lane) {
        if (batch.length === maxBatch) {
          return batch;
        }
        lane.delete(hash);
        batch.push(hash);
      }
    }
    return batch;
  }

  async #step(hashes: readonly string[]): Promise<void> {
    if (this.#o.clock() < this.#closedUntilMs) {
      this.#releaseLater(hashes);
      this.#answer(hashes, () => this.#unavailable());
      return;
    }
    const sentMs = this.#o.clock();
    this.#lastStatementMs = sentMs;
    this.#countStatement();
    this.#countHashes(hashes.length);
    let rows: readonly LiveKeyRow[];
    try {
      rows = await this.#o.sql.run((sql) => selectLiveKeys(sql, this.#o.table, hashes));
    } catch (error) {
      this.#failed(hashes, error);
      return;
    }
    this.#backoffMs = 0;
    this.#store(hashes, rows, sentMs);
  }

  #failed(hashes: readonly string[], error: unknown): void {
    this.#backoffMs = Math.min(maxBackoffMs, Math.max(firstBackoffMs, this.#backoffMs * 2));
    this.#closedUntilMs = this.#o.clock() + this.#backoffMs;
    this.#errors.report(error);
    this.#releaseLater(hashes);
    this.#answer(hashes, () => this.#unavailable());
  }

  #store(hashes: readonly string[], rows: readonly LiveKeyRow[], sentMs: number): void {
    const { cache, clock, ttlMs, unknownTtlMs, principalKind } = this.#o;
    const live = new Map<string, LiveKeyRow>();
    for (const row of rows) {
      if (row.audience === null || isAudience(row.audience)) {
        live.set(Buffer.from(row.key_hash).toString("latin1"), row);
      } else {
        // Only a hand-edited row gets here. It must not stamp data, so it is no live key.
        this.#o.logger.error({ keyId: row.key_id, table: this.#o.table }, "key has a bad audience");
      }
    }
    const nowMs = clock();
    const nowSecond = (nowMs / 1000) | 0;
    const expiresAtMs = sentMs + ttlMs;
    this.#answer(hashes, (hash) => {
      const row = live.get(hash);
      if (row === undefined) {
        cache.setUnknown(hash, sentMs + unknownTtlMs, nowSecond);
        return invalidToken;
      }
      if (ttlMs > 0 && nowMs >= expiresAtMs) {
        return this.#unavailable();
      }
      cache.setLive(hash, { keyId: row.key_id, audience: row.audience }, expiresAtMs, nowSecond);
      return liveOutcome(principalKind, row.key_id, row.audience);
    });
  }

  #answer(hashes: readonly string[], outcomeOf: (hash: string) => AuthOutcome): void {
    for (const hash of hashes) {
      const waiting = this.#inFlight.get(hash);
      this.#inFlight.delete(hash);
      const outcome = outcomeOf(hash);
      waiting?.resolve(outcome);
    }
  }

  // Readers ask for a refresh once per entry. When it fails, they may ask again, but not before the
  // pause is over, or every request of a busy key would come here for nothing.
  #releaseLater(hashes: readonly string[]): void {
    const delayMs = Math.max(firstBackoffMs, this.#closedUntilMs - this.#o.clock());
    const timer = setTimeout(() => {
      for (const hash of hashes) {
        this.#o.cache.releaseRefresh(hash);
      }
    }, delayMs);
    timer.unref();
  }
}
