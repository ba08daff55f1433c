/**
 * Usage per key and hour (`api_key_usage`), off the request path: the counts of all threads are added up
 * here and written in batches.
 *
 * A batch is pending -> written, or it is in doubt: the connection broke after the transaction had its id, so it may
 * have been committed. Adding it again could count it twice, dropping it could lose it; instead the next flush asks
 * Postgres what became of the transaction (`pg_xact_status`), and the batch is done or pending again.
 *
 * While the database is down, counts of one key and hour are still added up in place. The number of keys
 * and hours is bounded; the rest is dropped and counted as dropped. Rows are written in order of their
 * key, so that processes wait for each other and never deadlock.
 */
import type { Sql } from "../../db/sql.js";
import type { Component } from "../../runtime/lifecycle.js";
import type { Logger } from "../../runtime/log/log.js";
import type { Metrics } from "../../runtime/metrics.js";
import { Periodic } from "../../runtime/periodic.js";
import type { DeadlineSql } from "../../db/deadline-sql.js";
import { identifyTransaction, outcomeOfTransaction, type TransactionIdentity } from "../../db/transaction-outcome.js";
import type { KeyHourUsage } from "./usage-counts.js";

const maxRowsPerStatement = 1000;

/** Options of {@link HourlyUsage}. */
interface HourlyUsageOptions {
  readonly sql: Pick<DeadlineSql, "run">;
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** Default 15 s. */
  readonly flushIntervalMs?: number;
  /** Most keys and hours remembered. Default 100000, which is about 20 MB. */
  readonly maxPending?: number;
}

type Batch = readonly KeyHourUsage[];

interface InDoubt {
  readonly transaction: TransactionIdentity;
  readonly batch: Batch;
}

/** See the head of the file. One per process. */
export class HourlyUsage implements Component {
  readonly name = "hourly-usage";
  readonly #o: HourlyUsageOptions;
  readonly #maxPending: number;
  readonly #pending = new Map<string, KeyHourUsage>();
  readonly #sources = new Set<() => Batch>();
  readonly #writes: Periodic;
  readonly #countDropped: (requests: number) => void;
  #inDoubt: readonly InDoubt[] = [];
  #failing = false;

  constructor(o: HourlyUsageOptions) {
    this.#o = o;
    this.#maxPending = o.maxPending ?? 100_000;
    const dropped = o.metrics.counter(
      "api_key_usage_dropped_requests_total",
      "Requests missing in the usage of their keys, because it could not be written for too long",
    );
    this.#countDropped = (requests) => dropped.inc(requests);
    this.#writes = new Periodic(() => this.#write(), o.flushIntervalMs ?? 15_000);
  }

  /** Keys and hours that wait to be written. */
  get pending(): number {
    return this.#pending.size + this.#inDoubt.reduce((sum, { batch }) => sum + batch.length, 0);
  }

  /** Adds counts up. */
  add(usages: Batch): void {
    for (const usage of usages) {
      this.#addOne(usage);
    }
  }

  /** Takes counts from `take` before every flush. */
  addSource(take: () => Batch): void {
    this.#sources.add(take);
  }

  /** Writes what has come in. Never rejects: what fails is tried again next time. */
  flush(): Promise<void> {
    return this.#writes.run();
  }

  /** Stops the timer and writes what is left, once; what then fails is lost, and the log says so. */
  stop(): Promise<void> {
    return this.#writes.stop(async () => {
      await this.#write();
      if (this.pending === 0) {
        return;
      }
      this.#o.logger.warn({ rows: this.pending }, "usage of API keys was not written and is lost");
    });
  }

  async #write(): Promise<void> {
    for (const take of this.#sources) {
      this.add(take());
    }
    try {
      await this.#settleDoubts();
      const all = [...this.#pending.values()].toSorted(inKeyOrder);
      for (let from = 0; from < all.length; from += maxRowsPerStatement) {
        await this.#writeBatch(all.slice(from, from + maxRowsPerStatement));
      }
      this.#failing = false;
    } catch (error) {
      if (!this.#failing) {
        this.#o.logger.warn(
          { rows: this.pending, cause: error instanceof Error ? error.message : "unknown" },
          "usage of API keys could not be written; it is tried again",
        );
      }
      this.#failing = true;
    }
  }

  async #writeBatch(batch: Batch): Promise<void> {
    // What comes in from now on is for the next batch.
    for (const usage of batch) {
      this.#pending.delete(nameOf(usage));
    }
    let transaction: TransactionIdentity | null = null;
    let givenUp = false;
    try {
      await this.#o.sql.run((sql) =>
        addUsage(sql, batch, (identity) => {
          // The batch is pending again; a transaction that begins late must not write it as well.
          if (givenUp) {
            throw new Error("the batch was given up");
          }
          transaction = identity;
        }),
      );
    } catch (error) {
      givenUp = true;
      if (transaction === null) {
        this.add(batch);
      } else {
        this.#inDoubt = [...this.#inDoubt, { transaction, batch }];
      }
      throw error;
    }
  }

  async #settleDoubts(): Promise<void> {
    for (const doubt of this.#inDoubt) {
      const outcome = await this.#o.sql.run((sql) => outcomeOfTransaction(sql, doubt.transaction));
      if (outcome === "in progress") {
        continue;
      }
      this.#inDoubt = this.#inDoubt.filter((other) => other !== doubt);
      // What Postgres no longer knows was so long ago that it is not worth the risk of counting twice.
      if (outcome === "aborted") {
        this.add(doubt.batch);
      }
    }
  }

  #addOne(usage: KeyHourUsage): void {
    const name = nameOf(usage);
    const known = this.#pending.get(name);
    if (known === undefined && this.pending >= this.#maxPending) {
      this.#countDropped(usage.requests);
      return;
    }
    this.#pending.set(
      name,
      known === undefined
        ? usage
        : {
            keyId: usage.keyId,
            hourSeconds: usage.hourSeconds,
            requests: known.requests + usage.requests,
            bytes: known.bytes + usage.bytes,
            records: known.records + usage.records,
          },
    );
  }
}

function nameOf(usage: KeyHourUsage): string {
  return `${usage.keyId} ${usage.hourSeconds}`;
}

function inKeyOrder(a: KeyHourUsage, b: KeyHourUsage): number {
  if (a.keyId !== b.keyId) {
    return a.keyId < b.keyId ? -1 : 1;
  }
  return a.hourSeconds - b.hourSeconds;
}

async function addUsage(
  sql: Sql,
  batch: Batch,
  onTransaction: (transaction: TransactionIdentity) => void,
): Promise<void> {
  const rows = JSON.stringify(batch);
  await sql.begin(async (tx) => {
    onTransaction(await identifyTransaction(tx));
    await tx`
      insert into api_key_usage as u (key_id, hour, requests, bytes, records)
      select r."keyId", to_timestamp(r."hourSeconds"), r.requests, r.bytes, r.records
      from jsonb_to_recordset(${rows}::text::jsonb) as r
        ("keyId" uuid, "hourSeconds" bigint, requests bigint, bytes bigint, records bigint)
      order by r."keyId", r."hourSeconds"
      on conflict (key_id, hour) do update set
        requests = u.requests + excluded.requests,
        bytes = u.bytes + excluded.bytes,
        records = u.records + excluded.records`;
  });
}
