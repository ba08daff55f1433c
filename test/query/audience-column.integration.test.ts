/** The column `audience`: whose each row is, in every view, for callers who read several. */
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { mintIngestionKey } from "../../src/auth/keys/keys.js";
import { viewNames } from "../../src/query/sql/views.js";
import { startTestAnalytics, type TestAnalytics } from "../helpers/servers/analytics.js";
import { addPartition } from "../helpers/lake/lake.js";

let t: TestAnalytics;

beforeAll(async () => {
  t = await startTestAnalytics({ SVC_UNSTAMPED_AUDIENCE: "loose" });
  for (const audience of ["team-a", "loose"]) {
    await t.sql`insert into audience_grants (audience, kind, member, created_by)
      values (${audience}, 'read', '*', 'test')`;
  }
  for (const audience of ["public", "team-a", "hidden", null]) {
    const id = randomUUID();
    const stream = randomUUID();
    await t.sql`insert into processes (process_id, audience, properties)
      values (${id}, ${audience}, '{}')`;
    await t.sql`insert into streams (stream_id, process_id, audience, signal, format)
      values (${stream}, ${id}, ${audience}, 1, 'otlp')`;
    await t.sql`insert into blocks (block_id, stream_id, process_id, audience, signal, begin_time_ns, end_time_ns, row_count, payload_bytes)
      values (${randomUUID()}, ${stream}, ${id}, ${audience}, 1, 1, 2, 1, 1)`;
    // Without an audience there is no key, so the usage of what is read with it is that of a key which names it.
    const key = await mintIngestionKey(t.sql, { name: "k", audience: audience ?? "loose", createdBy: "test" });
    await t.sql`insert into api_key_usage (key_id, hour, requests, bytes, records)
      values (${key.keyId}, '2025-11-21T12:00:00Z', 1, 2, 3)`;
    const common = `make_timestamp_ns(1763726400000000000) AS time, '${id}' AS process_id`;
    const element = `'properties': '{"exception.type": "E"}', 'dropped_attributes_count': 0`;
    for (const [table, columns] of [
      ["log_entries", "2 AS level, 'target' AS target"],
      ["measures", "'m' AS name, 'sum' AS metric_type, 'delta' AS temporality, true AS is_monotonic, 1 AS value"],
      ["histograms", "'h' AS name, 'histogram' AS metric_type, 'delta' AS temporality, 1 AS count"],
      [
        "spans",
        `'aa' AS trace_id, 3 AS kind, '{"server.address": "x"}' AS properties, [{'time': make_timestamp_ns(1763726400000000005), 'name': 'exception', ${element}}] AS events,
         [{'trace_id': 'cc', 'span_id': 'dd', 'trace_state': NULL, 'flags': 1, ${element}}] AS links`,
      ],
    ] as const) {
      await addPartition(t.lake, t.sql, {
        table,
        audience,
        processIds: [id],
        rowsSql: `SELECT ${common}, ${columns}`,
      });
    }
  }
});

afterAll(async () => {
  await t.stop();
});

describe("the column audience", () => {
  it.each(viewNames)("of %s says whose each row is", async (view) => {
    // Some read several tables, of which each audience has a row.
    const n = view === "attribute_samples" ? 4 : view === "metric_catalogue" || view === "metric_series" ? 2 : 1;
    expect(
      await t.plainRows(`SELECT audience, count(*)::INTEGER AS n FROM ${view} GROUP BY audience ORDER BY audience`),
    ).toEqual(["loose", "public", "team-a"].map((audience) => ({ audience, n })));
    expect(await t.plainRows(`SELECT count(*)::INTEGER AS n FROM ${view} WHERE audience = 'team-a'`)).toEqual([{ n }]);
    expect(await t.plainRows(`SELECT count(*)::INTEGER AS n FROM ${view} WHERE audience = 'hidden'`)).toEqual([
      { n: 0 },
    ]);
  });

  it("is in every view that information_schema lists for callers who are no administrators", async () => {
    const has = await t.plainRows(
      `SELECT table_name, count(*) FILTER (column_name = 'audience' AND data_type = 'VARCHAR')::INTEGER AS n
       FROM information_schema.columns WHERE table_name <> 'query_log' GROUP BY table_name ORDER BY table_name`,
    );
    expect(has).toEqual(viewNames.map((view) => ({ table_name: view, n: 1 })));
  });

  it("comes with the only audience that a caller reads, and without any rows", async () => {
    await t.sql`delete from audience_grants where audience in ('team-a', 'loose')`;
    expect(await t.plainRows("SELECT DISTINCT audience FROM spans")).toEqual([{ audience: "public" }]);
    await t.sql`delete from audience_grants`;
    expect(await t.plainRows("SELECT audience FROM spans")).toEqual([]);
  });
});
