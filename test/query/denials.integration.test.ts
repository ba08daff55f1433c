/** The deny list by itself: when its rules are read again, and what it says of those that fail. */

import { pino } from "pino";
import { afterAll, beforeAll, expect, it } from "vitest";

import { DenialRules } from "../../src/query/admin/denials.js";
import type { MatchContext } from "../../src/query/backend/backend.js";
import { sqlHashOf } from "../../src/query/fingerprint.js";
import { createMetrics } from "../../src/runtime/metrics.js";
import { createTestDatabase, type TestDatabase } from "../helpers/postgres/postgres.js";
import { startTestBackend, type TestBackend } from "../helpers/query/query-backend.js";
import { until } from "../helpers/until.js";

let database: TestDatabase;
let t: TestBackend;
let rules: DenialRules;
const lines: Record<string, unknown>[] = [];

beforeAll(async () => {
  database = await createTestDatabase();
  t = await startTestBackend();
  rules = new DenialRules({
    sql: database.sql,
    backend: t.backend,
    logger: pino({}, { write: (line) => lines.push(JSON.parse(line) as Record<string, unknown>) }),
    metrics: createMetrics(),
    refreshMs: 50,
  });
});

afterAll(async () => {
  await rules.stop();
  await t.stop();
  await database.drop();
});

const context = (sql: string): MatchContext => ({
  user: "someone",
  email: "",
  client: "",
  sql,
  sql_hash: sqlHashOf(sql),
});

async function verdict(sql: string): Promise<string> {
  const rule = await rules.match(context(sql), AbortSignal.timeout(10_000));
  return rule === null ? "allowed" : rules.refuse(rule).code;
}

/** Inserts a rule as another server would. */
async function insert(expression: string): Promise<void> {
  await database.sql`insert into query_denials (rule_id, match_expr, reason, created_by)
    values (gen_random_uuid(), ${expression}, 'r', 'test')`;
}

it("has a rule in force that another server has added, and not one that it has removed", async () => {
  expect(await verdict("SELECT 1")).toBe("allowed");
  await insert("sql = 'SELECT 1'");
  await until(async () => (await verdict("SELECT 1")) !== "allowed");
  expect(await verdict("SELECT 1")).toBe("FORBIDDEN");
  expect(await verdict("SELECT 2")).toBe("allowed");
  await database.sql`delete from query_denials`;
  await until(async () => (await verdict("SELECT 1")) === "allowed");
});

it("keeps what a failing rule quotes of a query out of the service's own telemetry", async () => {
  await insert("CAST(sql AS INTEGER) = 4");
  const failures = (): Record<string, unknown>[] => lines.filter((line) => "failure" in line);
  await until(async () => {
    expect(await verdict("SELECT 'something private'")).toBe("allowed");
    return failures().length > 0;
  });
  const [line] = failures();
  expect(String(line?.["failure"])).toContain("something private");
  expect(line?.["selfTelemetry"]).toBe(true);
});

it.each(["length(repeat(sql, 20000)) > 3", "CAST(nullif(substr(sql, 100, 1), '') AS INTEGER) > 3"])(
  "does not take a rule that a longer text would make fail: %s",
  async (expression) => {
    await expect(rules.add({ matchExpr: expression, reason: "r", createdBy: "test" })).rejects.toMatchObject({
      code: "BAD_REQUEST",
      message: expect.stringContaining("1048576 characters") as unknown,
    });
  },
);
