/**
 * The query log: one row of `query_log` and one log line per query. Rows are written in batches beside
 * the queries; when too many wait during an outage of the database, new ones are dropped and counted.
 */
import { randomUUID } from "node:crypto";

import { databaseText } from "../lake/database-text.js";
import { DeadlineSql } from "../db/deadline-sql.js";
import type { Sql } from "../db/sql.js";
import type { Component } from "../runtime/lifecycle.js";
import type { Logger } from "../runtime/log/log.js";
import type { Metrics } from "../runtime/metrics.js";
import { SingleFlight } from "../runtime/single-flight.js";

/** One query. */
export interface QueryLogEntry {
  /** Milliseconds since 1970. */
  readonly startMs: number;
  readonly durationMs: number;
  /** Email, subject or key. */
  readonly caller: string;
  readonly client: string;
  readonly sql: string;
  readonly sqlHash: string;
  readonly fingerprint: string | null;
  readonly rows: number;
  readonly bytes: number;
  readonly partitions: number;
  readonly peakMemoryBytes: number | null;
  /** `OK` or the code of the error. */
  readonly outcome: string;
  /** Where it ran, or was about to, and why; null where there is no cluster to choose. */
  readonly engine: { readonly name: string; readonly reason: string } | null;
}

/** Where finished queries are recorded. */
export interface QueryLog extends Component {
  /** Never throws and never waits. */
  record(entry: QueryLogEntry): void;
  /** Writes what waits. @throws the database's error */
  flush(): Promise<void>;
}

/** Options of {@link createQueryLog}. */
interface QueryLogOptions {
  readonly sql: Sql;
  /** Opens another pool like `sql`; see deadline-sql.ts. */
  readonly reopen: () => Sql;
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** Time between two writes. Default 1 s. */
  readonly intervalMs?: number;
  /** A write that takes longer has failed, and is tried again. Default 10 s. */
  readonly statementTimeoutMs?: number;
}

/** What may wait, by {@link bytesOf}. */
const maxWaitingBytes = 64 << 20;
const maxBatch = 500;
/** Longest text of a query that is kept, in UTF-16 code units. */
const maxSql = 65_536;
const maxSqlInLine = 4096;
const maxClient = 256;
/** Rows older than this are removed. */
const keepDays = 30;
const trimEveryMs = 3_600_000;
/** Most rows that one statement removes; writes and readers of the log wait for it. The next write removes more. */
const maxTrimmed = 10_000;

interface WaitingEntry {
  readonly queryId: string;
  readonly entry: QueryLogEntry;
}

/** Starts the log. Stopping it writes what waits. */
export function createQueryLog(o: QueryLogOptions): QueryLog {
  const dropped = o.metrics.counter("query_log_dropped_total", "Queries that could not be written to query_log");
  const database = new DeadlineSql({
    sql: o.sql,
    reopen: o.reopen,
    timeoutMs: o.statementTimeoutMs ?? 10_000,
  });
  const waiting: WaitingEntry[] = [];
  let waitingBytes = 0;
  let failing = false;
  let trimmedMs = Number.NEGATIVE_INFINITY;

  const write = async (): Promise<void> => {
    while (waiting.length > 0) {
      const batch = waiting.slice(0, maxBatch);
      await database.run((sql) => insert(sql, batch));
      // `record` has only appended since.
      waiting.splice(0, batch.length);
      waitingBytes -= batch.reduce((sum, { entry }) => sum + bytesOf(entry), 0);
    }
    if (performance.now() - trimmedMs < trimEveryMs) {
      return;
    }
    trimmedMs = performance.now();
    const { count } = await database.run(
      (sql) => sql`
        delete from query_log where ctid = any(array(
          select ctid from query_log where time < now() - ${keepDays}::int * interval '1 day'
          order by time limit ${maxTrimmed}))`,
    );
    if (count === maxTrimmed) {
      trimmedMs = Number.NEGATIVE_INFINITY;
    }
  };
  const writing = new SingleFlight(write);
  const flushOrSay = async (): Promise<void> => {
    try {
      await writing.run();
      failing = false;
    } catch (error) {
      if (!failing) {
        o.logger.warn({ err: error }, "queries cannot be written to query_log");
      }
      failing = true;
    }
  };
  const timer = setInterval(() => void flushOrSay(), o.intervalMs ?? 1000);
  timer.unref();

  return {
    name: "query-log",
    record: (entry) => {
      // Not into the service's own telemetry, which has other readers than query_log.
      o.logger.info(
        {
          selfTelemetry: true,
          caller: entry.caller,
          client: entry.client,
          sql: shorten(entry.sql, maxSqlInLine),
          fingerprint: entry.fingerprint,
          durationMs: Math.round(entry.durationMs * 1000) / 1000,
          rows: entry.rows,
          bytes: entry.bytes,
          partitions: entry.partitions,
          peakMemoryBytes: entry.peakMemoryBytes,
          outcome: entry.outcome,
          ...(entry.engine === null ? {} : { engine: entry.engine.name, engineReason: entry.engine.reason }),
        },
        "query",
      );
      const kept = { ...entry, client: shortCopy(entry.client, maxClient), sql: shortCopy(entry.sql, maxSql) };
      if (waitingBytes + bytesOf(kept) > maxWaitingBytes) {
        dropped.inc();
        return;
      }
      waitingBytes += bytesOf(kept);
      waiting.push({ queryId: randomUUID(), entry: kept });
    },
    flush: () => writing.run(),
    stop: async () => {
      clearInterval(timer);
      try {
        await writing.run().catch(() => writing.run()); // a write under way may have failed before the last entries came
      } finally {
        await database.stop();
      }
    },
  };
}

/** At most, in memory. */
function bytesOf({ caller, client, sql }: QueryLogEntry): number {
  return 1024 + 2 * (caller.length + client.length + sql.length);
}

function shorten(text: string, length: number): string {
  return text.length > length ? `${text.slice(0, length)}...` : text;
}

/** As {@link shorten}, but of its own: V8 keeps the whole of a text as long as a slice of it. */
function shortCopy(text: string, length: number): string {
  return text.length > length ? Buffer.from(shorten(text, length)).toString() : text;
}

/** A batch whose write was given up may have been written: rows already there are skipped. */
async function insert(sql: Sql, entries: readonly WaitingEntry[]): Promise<void> {
  await sql`insert into query_log ${sql(
    entries.map(({ queryId, entry }) => ({
      query_id: queryId,
      time: new Date(entry.startMs),
      caller: databaseText(entry.caller),
      client: databaseText(entry.client),
      sql: databaseText(entry.sql),
      sql_hash: entry.sqlHash,
      fingerprint: entry.fingerprint,
      duration_ms: Math.max(0, entry.durationMs),
      row_count: entry.rows,
      bytes: entry.bytes,
      partitions: entry.partitions,
      peak_memory_bytes: entry.peakMemoryBytes,
      outcome: entry.outcome,
      engine: entry.engine?.name ?? null,
      engine_reason: entry.engine === null ? null : databaseText(entry.engine.reason),
    })),
  )} on conflict (query_id) do nothing`;
}

/** A row of the view `query_log`. */
export interface QueryLogRecord {
  readonly queryId: string;
  readonly timeNs: bigint;
  readonly caller: string;
  readonly client: string;
  readonly sql: string;
  readonly sqlHash: string;
  readonly fingerprint: string | null;
  readonly durationMs: number;
  readonly rowCount: number;
  readonly bytes: number;
  readonly partitions: number;
  readonly peakMemoryBytes: number | null;
  readonly outcome: string;
  readonly engine: string | null;
  readonly engineReason: string | null;
}

/** Rows of `query_log` within (inclusive) bounds in chunks; leaving the loop early closes the cursor. */
export function readQueryLog(
  sql: Sql,
  bounds: { readonly minTimeNs: bigint | undefined; readonly maxTimeNs: bigint | undefined },
): AsyncIterable<QueryLogRecord[]> {
  const { minTimeNs, maxTimeNs } = bounds;
  // Postgres keeps microseconds; whole ones around the bounds leave nothing out.
  const micros = (ns: bigint) => sql`to_timestamp(${Number(ns / 1000n) / 1e6}::float8)`;
  return sql<QueryLogRecord[]>`
    select query_id as "queryId", (extract(epoch from time) * 1000000000)::bigint as "timeNs",
      caller, client, sql, sql_hash as "sqlHash", fingerprint, duration_ms as "durationMs",
      row_count::float8 as "rowCount", bytes::float8 as bytes, partitions,
      peak_memory_bytes::float8 as "peakMemoryBytes", outcome, engine, engine_reason as "engineReason"
    from query_log where true
    ${minTimeNs === undefined ? sql`` : sql`and time >= ${micros(minTimeNs)} - interval '1 millisecond'`}
    ${maxTimeNs === undefined ? sql`` : sql`and time <= ${micros(maxTimeNs)} + interval '1 millisecond'`}`.cursor(1000);
}
