/** The view `usage`: what ingestion keys were used for by hour, of the audiences that the caller reads. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { mintIngestionKey } from "../../src/auth/keys/keys.js";
import { startTestAnalytics, type TestAnalytics } from "../helpers/servers/analytics.js";
import { noon } from "../helpers/noon.js";

let t: TestAnalytics;
const ids = new Map<string, string>();

beforeAll(async () => {
  t = await startTestAnalytics();
  for (const [name, audience] of [
    ["web", "public"],
    ["batch", "public"],
    ["other team", "secret"],
  ] as const) {
    const { keyId } = await mintIngestionKey(t.sql, { name, audience, createdBy: "test" });
    ids.set(name, keyId);
    for (const [hour, requests] of [
      ["2025-11-21T11:00:00Z", 1],
      ["2025-11-21T12:00:00Z", 2],
      ["2025-11-21T13:00:00Z", 3],
    ] as const) {
      await t.sql`insert into api_key_usage (key_id, hour, requests, bytes, records)
        values (${keyId}, ${hour}, ${requests}, ${String(requests * 1000)}::int8, ${String(2n ** 53n + 1n)}::int8)`;
    }
  }
});

afterAll(async () => {
  await t.stop();
});

const hours = (where: string): string =>
  `SELECT string_agg(DISTINCT strftime(time, '%H'), ' ' ORDER BY strftime(time, '%H')) AS hours FROM usage ${where}`;

describe("the view usage", () => {
  it("has a row for each hour and key, with the key's name and audience, and exact counts", async () => {
    expect(
      await t.caller.rows(
        `SELECT CAST(time AS VARCHAR) AS time, key_id, requests, bytes, records, audience
         FROM usage WHERE key_name = 'web' ORDER BY time`,
      ),
    ).toEqual(
      [1n, 2n, 3n].map((requests) => ({
        time: `2025-11-21 ${10n + requests}:00:00`,
        key_id: ids.get("web"),
        requests,
        bytes: requests * 1000n,
        records: 2n ** 53n + 1n,
        audience: "public",
      })),
    );
  });

  it("shows the keys of audiences that the caller may read, and of others once they are granted", async () => {
    const keys = "SELECT DISTINCT key_name FROM usage ORDER BY key_name";
    expect(await t.caller.rows(keys)).toEqual([{ key_name: "batch" }, { key_name: "web" }]);
    await t.sql`insert into audience_grants (audience, kind, member, created_by) values ('secret', 'read', '*', 'test')`;
    expect(await t.caller.rows(keys)).toEqual([{ key_name: "batch" }, { key_name: "other team" }, { key_name: "web" }]);
    await t.sql`delete from audience_grants where audience = 'secret'`;
    expect(await t.caller.rows("SELECT 1 AS n FROM usage WHERE audience = 'secret'")).toEqual([]);
  });

  it("keeps what a revoked key was used for", async () => {
    await t.sql`update ingestion_api_keys set revoked_at = now(), revoked_by = 'test' where name = 'batch'`;
    expect(await t.caller.rows("SELECT DISTINCT audience FROM usage WHERE key_name = 'batch'")).toEqual([
      { audience: "public" },
    ]);
  });

  it.each([
    ["WHERE time >= '2025-11-21T12:00:00Z'", "12 13"],
    ["WHERE time > '2025-11-21T12:00:00Z'", "13"],
    ["WHERE time <= '2025-11-21T12:00:00Z'", "11 12"],
    ["WHERE time BETWEEN '2025-11-21T11:00:00.000000001Z' AND '2025-11-21T12:59:59.999999999Z'", "12"],
    ["WHERE time < '1969-12-31T23:59:59.5Z'", null],
    ["WHERE time > '1969-12-31T23:59:59.5Z'", "11 12 13"],
  ])("is narrowed by time: %s", async (where, found) => {
    expect(await t.caller.rows(hours(where))).toEqual([{ hours: found }]);
  });

  it.each([
    [0n, "12"],
    [1n, "13"],
  ])("keeps the hours that begin in the time range of a query, %i ns after noon to 13", async (ns, found) => {
    const begin = noon + ns;
    expect(await t.caller.rows(hours(""), { begin, end: begin + 3_600_000_000_000n })).toEqual([{ hours: found }]);
  });

  it("is not one of the views that are narrowed to a process", async () => {
    const { message } = await t.caller.failure(
      "SELECT * FROM view_instance('usage', '01234567-89ab-cdef-0123-456789abcdef')",
    );
    expect(message).toMatch(/The views are blocks, (?!.*usage)/u);
  });
});
