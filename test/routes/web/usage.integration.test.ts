/** Use of keys over time, and pages of the audit that nothing shifts. */
import { beforeEach, expect, it } from "vitest";

import { selectUsage } from "../../../src/admin/usage.js";
import { selectAudit } from "../../../src/auth/audit.js";
import type { TransactionSql } from "../../../src/db/sql.js";
import { routes, useWeb } from "../../helpers/web/web-fixture.js";

const t = useWeb({ SVC_SELF_SERVICE_MINT: "true" });
const hour = (at: string): Date => new Date(`2026-01-0${at}:00:00Z`);

let mine: string;
let others: string;

beforeEach(async () => {
  await t.reset();
  const idOf = async (cookie: string, audience: string): Promise<string> =>
    ((await t.mint(cookie, { audience })).json as { key_id: string }).key_id;
  mine = await idOf(t.ann, "anns");
  others = await idOf(t.bob, "bobs");
  const { sql } = t.web.database;
  await sql`truncate api_key_usage`;
  for (const [key, at, n] of [
    [mine, "1T10", 1],
    [mine, "1T11", 2],
    [mine, "2T10", 4],
    [others, "1T10", 8],
  ] as const) {
    await sql`insert into api_key_usage (key_id, hour, requests, bytes, records)
      values (${key}, ${hour(at)}, ${n}, ${n * 10}, ${n * 100})`;
  }
});

const range = "begin=2026-01-01T00:00:00Z&end=2026-01-03T00:00:00Z";
const usage = async (cookie: string, more = ""): Promise<unknown> =>
  ((await t.as(cookie, "GET", `/api/usage?${range}${more}`)).json as Record<string, unknown>[]).map((row) => [
    String(row["at"]).slice(0, 13),
    row["audience"],
    row["requests"],
    row["bytes"],
    row["records"],
  ]);

it("shows everything to administrators, and to others what they minted themselves", async () => {
  const anns = [
    ["2026-01-01T10", "anns", 1, 10, 100],
    ["2026-01-01T11", "anns", 2, 20, 200],
    ["2026-01-02T10", "anns", 4, 40, 400],
  ];
  expect(await usage(t.ann)).toEqual(anns);
  expect(await usage(t.robot)).toEqual([]);
  expect(await usage(t.admin)).toHaveLength(4);
  // Naming another's key or audience does not show it.
  expect(await usage(t.ann, `&key_id=${others}`)).toEqual([]);
  expect(await usage(t.ann, "&audience=bobs")).toEqual([]);
});

it("narrows to a key, an audience and a time, and sums up days", async () => {
  expect(await usage(t.admin, `&key_id=${others}`)).toEqual([["2026-01-01T10", "bobs", 8, 80, 800]]);
  expect(await usage(t.admin, "&audience=anns&step=day")).toEqual([
    ["2026-01-01T00", "anns", 3, 30, 300],
    ["2026-01-02T00", "anns", 4, 40, 400],
  ]);
  const early = await t.as(t.admin, "GET", "/api/usage?begin=2026-01-01T10:30:00Z&end=2026-01-01T11:00:00Z");
  expect(early.json).toHaveLength(2);
  expect((await t.as(t.admin, "GET", "/api/usage")).json).toEqual([]);
});

it("sums up each key as of its last hour, for however many there is no room by hours or days", async () => {
  expect(await usage(t.admin, "&step=all")).toEqual([
    ["2026-01-01T10", "bobs", 8, 80, 800],
    ["2026-01-02T10", "anns", 7, 70, 700],
  ]);
  await addKeys(5000);
  expect((await t.as(t.admin, "GET", `/api/usage?${range}`)).json).toMatchObject({
    code: "BAD_REQUEST",
    message: expect.stringContaining("sums of all") as string,
  });
  expect(await usage(t.admin, "&step=all")).toHaveLength(5002);
});

it("shows administrators their own keys alone, when they ask for those", async () => {
  expect(await usage(t.admin, "&mine=true")).toEqual([]);
  expect(await usage(t.ann, "&mine=true&step=all")).toEqual([["2026-01-02T10", "anns", 7, 70, 700]]);
});

it.each([
  "key_id=x",
  "audience=a%20b",
  "begin=yesterday",
  "step=year",
  "begin=2026-01-02T00:00:00Z&end=2026-01-01T00:00:00Z",
  "begin=2020-01-01T00:00:00Z&end=2026-01-01T00:00:00Z",
  "more=1",
])("refuses %s", async (query) => {
  expect(await t.as(t.ann, "GET", `/api/usage?${query}`)).toMatchObject({ status: 400, json: { code: "BAD_REQUEST" } });
});

it("pages through the audit by the last entry that was seen, whatever is added meanwhile", async () => {
  for (let i = 0; i < 5; i++) {
    await t.as(t.admin, "POST", routes.groups, { name: `g${i}` });
  }
  type Entry = { audit_id: number; target: string };
  const first = (await t.as(t.admin, "GET", "/api/audit?limit=2")).json as Entry[];
  await t.as(t.admin, "POST", routes.groups, { name: "late" });
  const before = first.at(-1)?.audit_id ?? 0;
  const second = (await t.as(t.admin, "GET", `/api/audit?limit=2&before=${before}`)).json as Entry[];
  expect([...first, ...second].map(({ target }) => target)).toEqual(["g4", "g3", "g2", "g1"]);
  expect((await t.as(t.admin, "GET", "/api/audit?before=1")).json).toEqual([]);
  expect((await t.as(t.admin, "GET", "/api/audit?before=x")).status).toBe(400);
  expect((await t.as(t.ann, "GET", "/api/audit?before=1")).status).toBe(403);
});

/** Keys of 500 audiences that were used for five hours. */
async function addKeys(count: number): Promise<void> {
  const { sql } = t.web.database;
  await sql`
    with keys as (
      insert into ingestion_api_keys (key_id, key_hash, name, audience, created_by)
      select gen_random_uuid(), sha256(n::text::bytea), 'many', 'team-' || n % 500, 'somebody' from generate_series(1, ${count}::int) n
      returning key_id
    )
    insert into api_key_usage (key_id, hour, requests)
    select key_id, ${hour("1T10")}::timestamptz + h * interval '1 hour', 1 from keys, generate_series(0, 4) h`;
  await sql`analyze ingestion_api_keys, api_key_usage`;
}

/** Rows of tables that Postgres reads for a question with a plan that it keeps, as it may for one that is asked often. */
async function rowsRead(ask: (tx: TransactionSql) => Promise<unknown>): Promise<number> {
  return await t.web.database.sql.begin(async (tx) => {
    const read = async (): Promise<number> => {
      const [row] = await tx<{ rows: number }[]>`
        select sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0))::int as rows from pg_stat_xact_user_tables`;
      return row?.rows ?? 0;
    };
    await tx`set local plan_cache_mode = force_generic_plan`;
    const before = await read();
    await ask(tx);
    return (await read()) - before;
  });
}

it("reads the use of the keys that it shows, whatever the others were used for", async () => {
  await addKeys(5000);
  const range = { begin: hour("1T00"), end: hour("2T00"), step: "hour" } as const;
  let found = 0;
  const read = await rowsRead(async (tx) => {
    found = (await selectUsage(tx, null, { ...range, keyId: null, audience: "team-7" })).length;
  });
  expect(found).toBe(50);
  expect(read).toBeLessThan(500);
});

it("reads a page of the audit, or entries of a target, however many others there are", async () => {
  await t.web.database.sql`
    insert into audit_log (actor, action, target) select 'somebody', 'key.mint', n::text from generate_series(1, 20000) n`;
  await t.web.database.sql`analyze audit_log`;
  const [oldest] = await t.web.database.sql<{ id: number }[]>`select min(audit_id)::float8 as id from audit_log`;
  const before = (oldest?.id ?? 0) + 100;
  const read = await rowsRead((tx) => selectAudit(tx, { limit: 10, offset: 0, before }));
  expect(read).toBeLessThan(100);
  const readOfTarget = await rowsRead((tx) => selectAudit(tx, { limit: 10, offset: 0, target: "77" }));
  expect(readOfTarget).toBeLessThan(100);
});
