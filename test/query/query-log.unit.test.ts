/** The query log over a database that does not answer. */
import { describe, expect, test } from "vitest";

import type { Sql } from "../../src/db/sql.js";
import { createQueryLog, type QueryLogEntry } from "../../src/query/query-log.js";
import { createSilentLogger } from "../../src/runtime/log/log.js";
import { createMetrics } from "../../src/runtime/metrics.js";
import { heapBytes } from "../helpers/heap.js";

const entry: QueryLogEntry = {
  startMs: 0,
  durationMs: 1,
  caller: "a@example.com",
  client: "test",
  sql: "SELECT 1",
  sqlHash: "",
  fingerprint: null,
  rows: 1,
  bytes: 1,
  partitions: 0,
  peakMemoryBytes: null,
  outcome: "OK",
  engine: null,
};

type Row = Readonly<Record<string, unknown>>;

/** A pool that keeps the rows of its inserts and answers when `answers` says so. */
function pool(answers: boolean) {
  const rows: Row[] = [];
  const sql = (first: readonly unknown[], ...values: unknown[]): unknown => {
    // The helper that writes rows, and not a statement.
    if (!("raw" in first)) {
      return first;
    }
    const [inserted] = values;
    if (Array.isArray(inserted)) {
      rows.push(...(inserted as Row[]));
    }
    return answers ? Promise.resolve([]) : new Promise(() => undefined);
  };
  return { rows, sql: Object.assign(sql, { end: async () => undefined }) as unknown as Sql };
}

describe("a write without an answer", () => {
  test("is given up in time, and made again under the same id over another connection", async () => {
    const hung = pool(false);
    const fresh = pool(true);
    const log = createQueryLog({
      sql: hung.sql,
      reopen: () => fresh.sql,
      logger: createSilentLogger(),
      metrics: createMetrics(),
      intervalMs: 60_000,
      statementTimeoutMs: 20,
    });
    log.record(entry);
    await expect(log.flush()).rejects.toThrow("no answer within 20 ms");
    expect(fresh.rows).toEqual([]);
    await log.stop();
    expect(hung.rows).toHaveLength(1);
    expect(fresh.rows.map((row) => row["query_id"])).toEqual([hung.rows[0]?.["query_id"]]);
  });

  test("keeps no more of long texts in memory than is written", async () => {
    const { rows, sql } = pool(true);
    const log = createQueryLog({
      sql,
      reopen: () => sql,
      logger: createSilentLogger(),
      metrics: createMetrics(),
      intervalMs: 60_000,
    });
    // More would not lie in the heap.
    const bytes = Buffer.alloc(1_000_000);
    const before = heapBytes();
    for (let i = 0; i < 50; i++) {
      const text = bytes.fill(97 + (i % 26)).toString("latin1");
      log.record({ ...entry, client: text, sql: text });
    }
    expect(heapBytes() - before).toBeLessThan(5_000_000);
    await log.stop();
    expect(rows).toHaveLength(50);
    expect(rows[0]).toMatchObject({ client: `${"a".repeat(256)}...`, sql: `${"a".repeat(65_536)}...` });
  });

  test("holds 64 MiB of what waits, drops and counts the rest, and takes more when it is written", async () => {
    const { rows, sql } = pool(true);
    const metrics = createMetrics();
    const log = createQueryLog({
      sql,
      reopen: () => sql,
      logger: createSilentLogger(),
      metrics,
      intervalMs: 60_000,
    });
    const long = { ...entry, sql: "a".repeat(65_536) };
    for (let i = 0; i < 600; i++) {
      log.record(long);
    }
    await log.flush();
    // 128 KiB each, where a character takes two bytes, and 1 KiB for the rest.
    expect(rows).toHaveLength(507);
    expect(await metrics.text()).toContain("query_log_dropped_total 93");
    log.record(long);
    await log.stop();
    expect(rows).toHaveLength(508);
  });
});
