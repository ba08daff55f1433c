import { FlightSQLClient } from "@firetiger-oss/flight-sql-client";
import { createFlightSqlClient } from "@lakehouse-rs/flight-sql-client";
import { Client as LanceClient } from "@lancedb/arrow-flight-sql-client";
import { tableFromIPC } from "apache-arrow";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { startTestAnalytics, type TestAnalytics } from "../../helpers/servers/analytics.js";
import { addPartition } from "../../helpers/lake/lake.js";

let t: TestAnalytics;

beforeAll(async () => {
  t = await startTestAnalytics();
  await addPartition(t.lake, t.sql, {
    table: "log_entries",
    audience: "public",
    rowsSql:
      "SELECT make_timestamp_ns(1763740800000000000 + i) AS time, 'message ' || i AS msg, CAST(1 + i % 6 AS INTEGER) AS level, CASE WHEN i % 3 = 0 THEN NULL ELSE 'trace' || i END AS trace_id FROM range(5000) t(i)",
  });
});

afterAll(async () => {
  await t.stop();
});

/** Rows as plain objects, whichever copy of apache-arrow made them. */
function rowsOf(table: Iterable<unknown>): unknown[] {
  return Array.from(table, (row) => {
    const plain = (row as { toJSON(): Record<string, unknown> }).toJSON();
    return Object.fromEntries(
      Object.entries(plain).map(([name, value]) => [name, typeof value === "bigint" ? Number(value) : value]),
    );
  });
}

const clients: Record<string, (sql: string) => Promise<unknown[]>> = {
  "@firetiger-oss/flight-sql-client": async (sql) => {
    const client = new FlightSQLClient({
      host: "127.0.0.1",
      port: t.port,
      plaintext: true,
      token: t.key,
    });
    try {
      return rowsOf(await client.execute(sql));
    } finally {
      await client.close();
    }
  },
  "@lakehouse-rs/flight-sql-client with a token": async (sql) => {
    const client = await createFlightSqlClient({
      host: "127.0.0.1",
      port: t.port,
      tls: false,
      token: t.key,
      headers: [],
    });
    return rowsOf(tableFromIPC(await client.query(sql)));
  },
  "@lakehouse-rs/flight-sql-client with a password": async (sql) => {
    const client = await createFlightSqlClient({
      host: "127.0.0.1",
      port: t.port,
      tls: false,
      username: "anyone",
      password: t.key,
      headers: [],
    });
    return rowsOf(tableFromIPC(await client.query(sql)));
  },
  "@lancedb/arrow-flight-sql-client": async (sql) => {
    const client = await LanceClient.connect({
      host: `127.0.0.1:${t.port}`,
      username: "anyone",
      password: t.key,
    });
    const result = await client.query(sql);
    return rowsOf(await result.collectToObjects());
  },
};

describe.each(Object.entries(clients))("%s", (_name, query) => {
  it("reads rows with their types", async () => {
    const rows = await query("SELECT msg, level, trace_id FROM log_entries WHERE level = 2 ORDER BY time LIMIT 3");
    expect(rows).toEqual([
      { msg: "message 1", level: 2, trace_id: "trace1" },
      { msg: "message 7", level: 2, trace_id: "trace7" },
      { msg: "message 13", level: 2, trace_id: "trace13" },
    ]);
  });

  it("reads results of several batches in order", async () => {
    const rows = await query("SELECT i, repeat('x', 100) AS s FROM range(50000) t(i) ORDER BY i");
    expect(rows).toHaveLength(50_000);
    expect(rows[49_999]).toEqual({ i: 49_999, s: "x".repeat(100) });
  });

  it("reads an empty result", async () => {
    expect(await query("SELECT msg, level FROM log_entries WHERE false")).toEqual([]);
  });

  it("is told what is wrong with its SQL", async () => {
    // One of the clients keeps the server's words to itself.
    await expect(query("SELECT nothing FROM log_entries")).rejects.toThrow(/nothing|failed to prepare statement/u);
  });
});
