/**
 * Two servers that a caller should not be able to tell apart: the lake of one also holds rows that the caller
 * may not read. Whatever tells about tables, schemas and flights answers both with the same bytes.
 */
import { afterAll, beforeAll, expect, it } from "vitest";

import { mintAnalyticsKey } from "../../src/auth/keys/keys.js";
import { startTestAnalytics, type TestAnalytics } from "../helpers/servers/analytics.js";
import { any, decode, descriptor, field, type FlightCalls, flightCalls } from "../helpers/flight/flight-standard.js";
import { addPartition } from "../helpers/lake/lake.js";

interface Side {
  readonly t: TestAnalytics;
  readonly calls: FlightCalls;
}

let full: Side;
let bare: Side;

const hidden = "hushword";

async function open(withHidden: boolean): Promise<Side> {
  const t = await startTestAnalytics();
  const audiences = withHidden ? ["public", "secret"] : ["public"];
  for (const audience of audiences) {
    const word = audience === "secret" ? hidden : "plainword";
    await addPartition(t.lake, t.sql, {
      table: "log_entries",
      audience,
      rowsSql: `SELECT make_timestamp_ns(1763726400000000000 + i) AS time, '${word} ' || i AS msg FROM range(${audience === "secret" ? 777 : 20}) r(i)`,
    });
    await t.sql`insert into processes (process_id, audience, service_name, properties)
      values (gen_random_uuid(), ${audience}, ${word}, ${t.sql.json({ word })})`;
  }
  // Somebody else reads what is hidden first, so that whatever could be remembered is.
  if (withHidden) {
    const { key, keyId } = await mintAnalyticsKey(t.sql, { name: "other", createdBy: "test" });
    await t.sql`insert into audience_grants (audience, kind, member, created_by)
      values ('secret', 'read', ${`key:${keyId}`}, 'test')`;
    const other = flightCalls(t.port, key);
    const rows = await other.table(
      any("CommandStatementQuery", {
        query: `SELECT count(*) AS n FROM log_entries WHERE msg LIKE '${hidden}%'`,
      }),
    );
    expect(rows.get(0)?.["n"]).toBe(777n);
    other.close();
  }
  return { t, calls: flightCalls(t.port, t.key) };
}

beforeAll(async () => {
  [full, bare] = [await open(true), await open(false)];
});

afterAll(async () => {
  for (const { t, calls } of [full, bare]) {
    calls.close();
    await t.stop();
  }
});

/** A call that both answer, as comparable text. */
async function same(call: (calls: FlightCalls) => Promise<unknown>): Promise<string> {
  const [inFull, inBare] = await Promise.all(
    [full, bare].map(({ calls }) => call(calls).then(shown, (error: unknown) => String(error))),
  );
  expect(inFull).toBe(inBare);
  expect(inFull).not.toContain(hidden);
  expect(inFull).not.toContain(Buffer.from(hidden).toString("hex"));
  return inFull ?? "";
}

/** Bytes as hexadecimal digits. */
function shown(value: unknown): string {
  return JSON.stringify(value, (_key, item: unknown) => {
    const buffer = item as { readonly type?: unknown; readonly data?: readonly number[] } | null;
    if (typeof item === "bigint") {
      return String(item);
    }
    return buffer?.type === "Buffer" ? Buffer.from(buffer.data ?? []).toString("hex") : item;
  });
}

it.each([
  ["CommandGetCatalogs", {}],
  ["CommandGetDbSchemas", {}],
  ["CommandGetTables", { include_schema: true }],
  ["CommandGetTables", { table_name_filter_pattern: "%", include_schema: false }],
  ["CommandGetTableTypes", {}],
  ["CommandGetPrimaryKeys", { table: "log_entries" }],
  ["CommandGetExportedKeys", { table: "processes" }],
  ["CommandGetImportedKeys", { table: "spans" }],
  ["CommandGetCrossReference", { pk_table: "processes", fk_table: "spans" }],
  ["CommandGetXdbcTypeInfo", {}],
  ["CommandGetSqlInfo", {}],
])("%s %o answers alike", async (name, fields) => {
  const command = any(name, fields);
  expect(await same((calls) => calls.stream("DoGet", field(1, command)))).not.toBe("");
  await same((calls) => calls.unary("GetSchema", descriptor(command)));
});

it("flights and actions are alike, but for their tickets", async () => {
  expect(await same((calls) => calls.stream("ListActions", Buffer.alloc(0)))).not.toBe("[]");
  await same(async (calls) => {
    const flights = await calls.stream("ListFlights", Buffer.alloc(0));
    return flights.map((bytes) => {
      const { endpoint: _endpoint, ...info } = decode("FlightInfo", bytes);
      return info;
    });
  });
});

it.each([
  "SELECT * FROM log_entries",
  "SELECT msg, count(*) FROM log_entries GROUP BY ALL",
  "SELECT * FROM list_partitions()",
  "DESCRIBE log_entries",
  "SUMMARIZE log_entries",
  "SELECT CAST(msg AS INTEGER) FROM log_entries",
  "SELECT * FROM nothing",
])("%s is described alike, prepared and asked for", async (query) => {
  const command = any("CommandStatementQuery", { query });
  expect(await same((calls) => calls.unary("GetSchema", descriptor(command)))).not.toBe("");
  await same(async (calls) => {
    const { endpoint: _endpoint, ...info } = await calls.info(command);
    return info;
  });
});

it.each([
  "SELECT msg FROM log_entries ORDER BY time",
  "SELECT count(*) AS n, min(msg) AS a, max(msg) AS z FROM log_entries",
  "SELECT view_set, row_count FROM list_partitions()",
  "SELECT service_name, properties FROM processes",
  "SELECT CAST(msg AS INTEGER) FROM log_entries",
  "SELECT count(*) AS n FROM log_entries WHERE error(msg) IS NULL",
])("%s says the same", async (query) => {
  const text = await same(async (calls) =>
    Array.from(await calls.table(any("CommandStatementQuery", { query })), (row) => row.toJSON()),
  );
  expect(text).not.toBe("[]");
});
