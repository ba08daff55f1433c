/** Rows of the catalogue that a query loads travel to its engine in one job: too many are refused in words. */
import { status } from "@grpc/grpc-js";
import { tableFromIPC } from "apache-arrow";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { toServiceError } from "../../src/runtime/errors.js";
import { ipcOf } from "../helpers/flight/flight-ipc.js";
import { startTestBackend, type TestBackend } from "../helpers/query/query-backend.js";
import { startTestAnalytics, type TestAnalytics } from "../helpers/servers/analytics.js";

const megabyte = 1 << 20;
const engineLost = /^query_engine_losses_total\{.*\} [1-9]/mu;

describe("rows of several views", () => {
  let t: TestAnalytics;

  beforeAll(async () => {
    t = await startTestAnalytics();
    // 26 MiB each: no view is too large by itself.
    await t.sql`insert into processes (process_id, audience, service_name, properties)
      select gen_random_uuid(), 'public', repeat('s', ${megabyte}), '{}' from generate_series(1, 26)`;
    await t.sql`insert into streams (stream_id, process_id, audience, signal, format)
      select gen_random_uuid(), process_id, 'public', 1, repeat('f', ${megabyte}) from processes`;
  });

  afterAll(async () => {
    await t.stop();
  });

  it("that are too many together are RESOURCE_EXHAUSTED, and the sentence says what to do", async () => {
    for (const sql of [
      "SELECT count(*) AS n FROM processes JOIN streams USING (process_id)",
      "SELECT (SELECT count(*) FROM processes) + (SELECT count(*) FROM streams) AS n",
    ]) {
      expect(await t.caller.failure(sql)).toEqual({
        status: status.RESOURCE_EXHAUSTED,
        message: expect.stringMatching(/More than 48 MiB of rows .* process_id or by a time range/u) as unknown,
      });
    }
  });

  it("that are many, one view at a time, are loaded", async () => {
    expect(await t.caller.rows("SELECT count(*) AS n FROM processes")).toEqual([{ n: 26n }]);
    expect(await t.caller.rows("SELECT sum(length(format))::BIGINT AS n FROM streams")).toEqual([
      { n: BigInt(26 * megabyte) },
    ]);
    expect(await t.metrics.text()).not.toMatch(engineLost);
  });

  it("that are too many of one view are loaded up to a LIMIT, where any of them will do", async () => {
    await t.sql`insert into processes (process_id, audience, service_name, properties)
      select gen_random_uuid(), 'public', repeat('s', ${megabyte}), '{}' from generate_series(1, 10)`;
    const tooMany = expect.stringMatching(/More than .* 32 MiB of processes/u) as unknown;
    for (const sql of [
      "SELECT * FROM processes",
      "SELECT service_name FROM processes OFFSET 3",
      "SELECT service_name FROM processes LIMIT 90%",
      "SELECT service_name FROM processes ORDER BY process_id LIMIT 3",
      "SELECT DISTINCT audience FROM processes LIMIT 3",
      "SELECT service_name FROM processes WHERE audience <> 'x' LIMIT 3",
      "SELECT (SELECT count(*) FROM processes) AS n FROM processes LIMIT 3",
      "FROM (SELECT count(*) FROM processes) LIMIT 3",
    ]) {
      expect([sql, await t.caller.failure(sql)]).toEqual([
        sql,
        { status: status.RESOURCE_EXHAUSTED, message: tooMany },
      ]);
    }
    const all = (await t.sql<{ id: string }[]>`select process_id as id from processes`).map(({ id }) => id);
    for (const [limit, n] of [
      ["LIMIT 3", 3],
      ["LIMIT 2 OFFSET 5", 2],
      ["LIMIT 0", 0],
    ] as const) {
      const rows = await t.caller.rows(`SELECT process_id FROM processes ${limit}`);
      expect([limit, new Set(rows.map((row) => row["process_id"])).size]).toEqual([limit, n]);
      expect(all).toEqual(expect.arrayContaining(rows.map((row) => row["process_id"])));
    }
  });
});

describe("a job", () => {
  let t: TestBackend;

  beforeAll(async () => {
    t = await startTestBackend({ engines: 1 });
    return () => t.stop();
  });

  const source = (texts: readonly string[]) => ({
    files: [],
    rows: [
      {
        name: "r",
        columns: [["v", "VARCHAR"]] as const,
        chunks: texts.map((v) => JSON.stringify([{ v }])),
      },
    ],
  });

  /** Counts the rows of what has passed the gate. */
  async function count(texts: readonly string[]): Promise<number> {
    const parts: Uint8Array[] = [];
    const query = { sql: "SELECT count(v) AS n FROM r", explain: "none" } as const;
    for await (const message of t.run(query, source(texts))) {
      parts.push(...ipcOf(message));
    }
    return Number(tableFromIPC(parts).get(0)?.["n"]);
  }

  it.each([
    ["plain text", "x".repeat(megabyte), 47],
    ["text that is escaped over and over", '"'.repeat(megabyte / 2), 15],
  ])("with as much %s as may be is run", async (_what, text, rows) => {
    expect(await count(Array.from({ length: rows }, () => text))).toBe(rows);
    expect(await t.metrics.text()).not.toMatch(engineLost);
  });

  it.each([
    ["text", "x".repeat(megabyte), 65],
    ["text that becomes as much by being escaped", '"'.repeat(megabyte / 2), 47],
  ])("with too much %s does not begin", async (_what, text, rows) => {
    const asked = count(Array.from({ length: rows }, () => text));
    const failure = await asked.then(() => null, toServiceError);
    expect(failure).toMatchObject({
      code: "PAYLOAD_TOO_LARGE",
      message: expect.stringContaining("are too many for one job") as unknown,
    });
    expect(await t.metrics.text()).not.toMatch(engineLost);
    expect((await t.query("SELECT 7 AS n")).get(0)?.toJSON()).toEqual({ n: 7 });
  });
});
