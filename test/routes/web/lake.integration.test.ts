/** Retention, erasures and checks as the web server takes them; maintenance is not there. */
import { beforeEach, describe, expect, it } from "vitest";

import { LakeReportBuilder } from "../../../src/lake/check/lake-report.js";
import { noteDefault } from "../../../src/lake/retention/retention-policy.js";
import { tables } from "../../../src/lake/tables/tables.js";
import { lakeComponents, retentionViews } from "../../../src/wire/web/lake-api.js";
import { schemaProblem } from "../../helpers/web/json-schema.js";
import { unknownId, useWeb } from "../../helpers/web/web-fixture.js";

const t = useWeb();
beforeEach(async () => {
  await t.reset();
  await t.web.database.sql`delete from retention_overrides`;
  await t.web.database.sql`delete from lake_tasks`;
});

const audit = async (): Promise<unknown[]> =>
  ((await t.as(t.admin, "GET", "/api/audit?limit=500")).json as { action: string; target: string; details: object }[])
    .filter(({ action }) => /^(retention|erasure|lake_check)/.test(action))
    .map(({ action, target, details }) => {
      const { from: _from, issuer: _issuer, subject: _subject, ...own } = details as Record<string, string>;
      return [action, target, own];
    });

it.each([
  ["GET", "/api/retention"],
  ["GET", "/api/retention/default"],
  ["PUT", "/api/retention", { view: "spans", days: 1 }],
  ["DELETE", "/api/retention?view=spans"],
  ["POST", "/api/erasures", { audience: "a", where: { service: "s" } }],
  ["GET", "/api/erasures"],
  ["GET", `/api/erasures/${unknownId}`],
  ["POST", "/api/lake-checks", {}],
  ["GET", "/api/lake-checks"],
  ["GET", `/api/lake-checks/${unknownId}`],
] as const)("%s %s is for administrators", async (method, path, body?: unknown) => {
  expect((await t.as(t.ann, method, path, body)).status).toBe(403);
});

describe("/api/retention/default", () => {
  const ask = () => t.as(t.admin, "GET", "/api/retention/default");

  it("says what maintenance goes by, and until when nothing goes", async () => {
    const { sql } = t.web.database;
    expect((await ask()).json).toEqual({ days: null, seen_at: null, held_until: null });
    await noteDefault(sql, 30);
    await sql`update lake_state set hold_until = now() + interval '1 hour'`;
    const held = await ask();
    expect(schemaProblem(lakeComponents.RetentionDefault, held.json, lakeComponents)).toBeNull();
    expect(held.json).toEqual({ days: 30, seen_at: expect.any(String), held_until: expect.any(String) });
    await sql`update lake_state set hold_until = now() - interval '1 hour'`;
    expect((await ask()).json).toMatchObject({ days: 30, held_until: null });
    await sql`update lake_state set retention_days = null, retention_seen_at = null, hold_until = null`;
  });
});

describe("/api/retention", () => {
  const set = (body: unknown) => t.as(t.admin, "PUT", "/api/retention", body);

  it("keeps an override for each view and audience, and says in the audit what changed", async () => {
    expect([...retentionViews].toSorted()).toEqual([...Object.keys(tables), "api_key_usage"].toSorted());
    const since = (await audit()).length;
    expect((await set({ view: "spans", days: 7 })).status).toBe(201);
    expect((await set({ view: "spans", audience: "a", days: 0 })).status).toBe(201);
    const changed = await set({ view: "spans", audience: null, days: 9 });
    expect(changed.status).toBe(200);
    expect(changed.json).toMatchObject({ view: "spans", audience: null, days: 9, updated_by: "admin@example.com" });
    expect(schemaProblem(lakeComponents.RetentionOverride, changed.json, lakeComponents)).toBeNull();
    const list = await t.as(t.admin, "GET", "/api/retention");
    expect(list.json).toMatchObject([
      { view: "spans", audience: null, days: 9 },
      { view: "spans", audience: "a", days: 0 },
    ]);
    expect((await t.as(t.admin, "DELETE", "/api/retention?view=spans&audience=a")).status).toBe(204);
    expect((await t.as(t.admin, "DELETE", "/api/retention?view=spans&audience=a")).status).toBe(404);
    expect((await audit()).slice(0, -since || undefined).toReversed()).toEqual([
      ["retention.set", "spans/*", { days: "7" }],
      ["retention.set", "spans/a", { days: "0" }],
      ["retention.set", "spans/*", { days: "9", before: "7" }],
      ["retention.delete", "spans/a", { before: "0" }],
    ]);
  });

  it.each([
    [{ view: "blocks", days: 1 }],
    [{ view: "spans" }],
    [{ view: "spans", days: -1 }],
    [{ view: "spans", days: 1.5 }],
    [{ view: "spans", days: "7" }],
    [{ view: "spans", days: 36_501 }],
    [{ view: "spans", days: 7, audience: "a b" }],
    [{ view: "spans", days: 7, audiences: "a" }],
    [{ view: "api_key_usage", audience: "a", days: 7 }],
  ])("refuses %j", async (body) => {
    expect((await set(body)).status).toBe(400);
    expect((await t.as(t.admin, "GET", "/api/retention")).json).toEqual([]);
  });
});

describe("/api/erasures", () => {
  const ask = (body: unknown) => t.as(t.admin, "POST", "/api/erasures", body);

  it("writes down what to erase, and shows how it stands; the audit never holds the value", async () => {
    const where = { attribute: { key: "user.id", value: "Ann's" } };
    const answer = await ask({ audience: "a", where, begin: "2026-01-01T00:00:00Z", end: "5000000000000000000" });
    expect(answer.status).toBe(202);
    const { erasure_id: id } = answer.json as unknown as { erasure_id: string };
    const shown = await t.as(t.admin, "GET", `/api/erasures/${id}`);
    expect(shown.json).toMatchObject({
      erasure_id: id,
      audience: "a",
      where,
      begin: "1767225600000000000",
      end: "5000000000000000000",
      state: "waiting",
      rows_removed: 0,
      created_by: "admin@example.com",
      finished_at: null,
    });
    expect(schemaProblem(lakeComponents.Erasure, shown.json, lakeComponents)).toBeNull();
    expect((await t.as(t.admin, "GET", "/api/erasures")).json).toEqual([shown.json]);
    const lines = (await audit()).filter((line) => (line as string[])[1] === id);
    expect(lines).toEqual([
      [
        "erasure.create",
        id,
        { audience: "a", by: "attribute", key: "user.id", begin: "1767225600000000000", end: "5000000000000000000" },
      ],
    ]);
  });

  it("takes an attribute with an empty value", async () => {
    const where = { attribute: { key: "user.id", value: "" } };
    expect((await ask({ audience: "a", where })).status).toBe(202);
  });

  it.each([
    ["nothing", {}],
    ["two conditions", { service: "s", trace: "0".repeat(32) }],
    ["an unknown one", { name: "s" }],
    ["an empty service", { service: "" }],
    ["a key of nothing", { attribute: { key: "", value: "" } }],
    ["a process that is no UUID", { process: "x" }],
    ["a trace that is none", { trace: "0".repeat(31) }],
    ["half an attribute", { attribute: { key: "k" } }],
    ["more of an attribute", { attribute: { key: "k", value: "v", op: "!=" } }],
    ["a number", { attribute: { key: "k", value: 1 } }],
    ["a text", "service = 's'"],
    ["a list", [{ service: "s" }]],
    ["too long a value", { attribute: { key: "k", value: "x".repeat(8193) } }],
    ["a NUL", { service: "a\0b" }],
  ])("refuses %s", async (_, where) => {
    expect(await ask({ audience: "a", where })).toMatchObject({ status: 400, json: { code: "BAD_REQUEST" } });
  });

  it.each([
    [{ begin: "yesterday" }],
    [{ begin: "2026-01-02T00:00:00Z", end: "2026-01-01T00:00:00Z" }],
    [{ begin: "5", end: "5" }],
    [{ audience: "" }],
    [{ audience: "a/b" }],
  ])("refuses %j", async (more) => {
    expect((await ask({ audience: "a", where: { service: "s" }, ...more })).status).toBe(400);
  });

  it("takes ids in either case, and no more than a hundred at once", async () => {
    const trace = "AB".repeat(16);
    const { erasure_id: id } = (await ask({ audience: "a", where: { trace } })).json as unknown as {
      erasure_id: string;
    };
    expect((await t.as(t.admin, "GET", `/api/erasures/${id.toUpperCase()}`)).json).toMatchObject({
      where: { trace: trace.toLowerCase() },
    });
    await t.web.database
      .sql`insert into lake_tasks (kind, request, created_by) select 'check', '{}', 'x' from generate_series(1, 99)`;
    expect(await ask({ audience: "a", where: { service: "s" } })).toMatchObject({ status: 409 });
    for (const other of [unknownId, "x"]) {
      expect((await t.as(t.admin, "GET", `/api/erasures/${other}`)).status).toBe(404);
    }
  });
});

it("takes checks of the lake", async () => {
  const answer = await t.as(t.admin, "POST", "/api/lake-checks", { repair: true });
  expect(answer.status).toBe(202);
  const { check_id: id } = answer.json as unknown as { check_id: string };
  const shown = await t.as(t.admin, "GET", `/api/lake-checks/${id}`);
  expect(shown.json).toMatchObject({ check_id: id, repair: true, deep: false, state: "waiting", report: null });
  expect(schemaProblem(lakeComponents.LakeCheck, shown.json, lakeComponents)).toBeNull();
  // An erasure's id is no check's.
  expect((await t.as(t.admin, "GET", `/api/erasures/${id}`)).status).toBe(404);
  expect((await audit()).filter((line) => (line as string[])[1] === id)).toEqual([
    ["lake_check.create", id, { repair: "true", deep: "false" }],
  ]);

  // A report of a release without checksums.
  const { wrong_checksum: _, ...counts } = new LakeReportBuilder().build().counts;
  const report = JSON.stringify({ counts: { ...counts, missing: 3 }, problems: [], notes: [] });
  await t.web.database.sql`update lake_tasks set state = 'done', report = ${report}::text::jsonb where task_id = ${id}`;
  const done = await t.as(t.admin, "GET", `/api/lake-checks/${id}`);
  expect(done.json).toMatchObject({ report: { counts: { missing: 3, wrong_checksum: 0 } } });
  expect(schemaProblem(lakeComponents.LakeCheck, done.json, lakeComponents)).toBeNull();
});
