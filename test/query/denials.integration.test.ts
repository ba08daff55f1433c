/** The deny list by itself: when its rules are read again, and what it says of those that fail. */

import { pino } from "pino";
import { afterAll, beforeAll, expect, it } from "vitest";

import { DenialRules } from "../../src/query/admin/denials.js";
import type { MatchContext } from "../../src/query/backend/backend.js";
import { FairQueue } from "../../src/runtime/turns/fair-queue.js";
import { sqlHashOf } from "../../src/query/fingerprint.js";
import { Inspections } from "../../src/query/inspections.js";
import { LethalStatements } from "../../src/query/lethal-statements.js";
import { systemClock } from "../../src/runtime/clock.js";
import { toServiceError } from "../../src/runtime/errors.js";
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

const origin = { from: "192.0.2.1", forwardedFor: null };
const by = { caller: { name: "test", issuer: null, subject: null }, origin };

const context = (sql: string): MatchContext => ({
  user: "someone",
  email: "",
  client: "",
  sql,
  sql_hash: sqlHashOf(sql),
});

async function verdict(sql: string): Promise<string> {
  const rule = await rules.match(context(sql), AbortSignal.timeout(10_000), (work) => work());
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
    await expect(rules.add(by, { matchExpr: expression, reason: "r" })).rejects.toMatchObject({
      code: "BAD_REQUEST",
      message: expect.stringContaining("1048576 characters") as unknown,
    });
  },
);

it("asks engines about statements in turns, as inspections do", async () => {
  const matches = { running: 0, most: 0 };
  const backend = {
    inspect: () => Promise.reject(new Error("not asked")),
    inspectSets: () => Promise.reject(new Error("not asked")),
    match: async (...args: Parameters<typeof t.backend.match>) => {
      matches.most = Math.max(matches.most, ++matches.running);
      try {
        return await t.backend.match(...args);
      } finally {
        matches.running--;
      }
    },
  };
  await database.sql`delete from query_denials`;
  await insert("sql LIKE 'SELECT%'");
  const metrics = createMetrics();
  const denials = new DenialRules({ sql: database.sql, backend, logger: pino({ level: "silent" }), metrics });
  const inspections = new Inspections({
    backend,
    denials,
    inspections: new FairQueue({ places: 2, maxWaiting: 100 }),
    lethal: new LethalStatements(systemClock, metrics),
    clock: systemClock,
  });
  try {
    const outcomes = await Promise.allSettled(
      Array.from({ length: 12 }, (_, i) => {
        const nobody = { issuer: null, subject: null, email: null, name: null, audience: null };
        const principal = { kind: "analytics_key", keyId: String(i), ...nobody } as const;
        const caller = { principal, client: "", origin };
        const statement = {
          sql: `SELECT ${i}`,
          caller,
          identity: `key ${i}`,
          admin: false,
          signal: AbortSignal.timeout(60_000),
        };
        return inspections.allowed(statement, [], () => undefined);
      }),
    );
    expect(
      outcomes.map((outcome) => (outcome.status === "rejected" ? toServiceError(outcome.reason).code : "ok")),
    ).toEqual(Array.from({ length: 12 }, () => "FORBIDDEN"));
    expect(matches).toEqual({ running: 0, most: 2 });
  } finally {
    await denials.stop();
  }
});
