/** When ages may be trusted. The database's clock cannot be moved, so what it was seen at last is. */
import { afterEach, beforeEach, expect, it } from "vitest";

import { clockLimits, clockObstacle, startClockWatch } from "../../src/lake/retention/lake-clock.js";
import { systemClock } from "../../src/runtime/clock.js";
import { parseConfig } from "../../src/runtime/config/parse.js";
import { Scope } from "../../src/runtime/lifecycle.js";
import { createSilentLogger } from "../../src/runtime/log/log.js";
import { createMetrics } from "../../src/runtime/metrics.js";
import { startMaintenance } from "../../src/servers/maintenance.js";
import { createTestLake } from "../helpers/lake/lake.js";
import { createTestDatabase, type TestDatabase } from "../helpers/postgres/postgres.js";
import { until } from "../helpers/until.js";

let db: TestDatabase;
beforeEach(async () => {
  db = await createTestDatabase();
});
afterEach(() => db.drop());

const look = (offMs = 0): Promise<string | null> => clockObstacle(db.sql, () => Date.now() + offMs, clockLimits);
/** As if the clock had been set on by so many seconds since somebody looked. */
const seenAgo = (seconds: number) =>
  db.sql`update lake_state set seen_at = now() - ${seconds}::float8 * interval '1 second', hold_until = null`;
/** As if the time of waiting were over. */
const waitedOut = () => db.sql`update lake_state set hold_until = now() - interval '1 second'`;

it("waits for an hour when nobody has looked yet", async () => {
  expect(await look()).toMatch(/^the database is new, .*waiting until/);
  expect(await look()).toMatch(/^the database is new, .*waiting until/);
  await waitedOut();
  expect(await look()).toBeNull();
});

it("goes on while it is looked at from time to time", async () => {
  await seenAgo(3000);
  expect(await look()).toBeNull();
});

it.each([
  ["on", 4000],
  ["back", -120],
])("waits for an hour when the clock was set %s, also after a restart", async (_, seconds) => {
  await seenAgo(seconds);
  expect(await look()).toMatch(/jumped/);
  expect(await look()).toMatch(/jumped/);
  await waitedOut();
  expect(await look()).toBeNull();
});

it("waits an hour from when a clock that was far ahead was set right", async () => {
  await db.sql`update lake_state set seen_at = now() + interval '1 year', hold_until = now() + interval '1 year 1 hour'`;
  expect(await look()).toMatch(/jumped/);
  const [state] = await db.sql<
    { soon: boolean }[]
  >`select hold_until < now() + interval '2 hours' as soon from lake_state`;
  expect(state?.soon).toBe(true);
});

it("refuses while this machine's clock and the database's differ", async () => {
  await seenAgo(10);
  expect(await look(3_600_000)).toMatch(/differ by 3[56]\d\d s/);
  expect(await look(-90_000)).toMatch(/differ by (89|90|91) s/);
  expect(await look(5000)).toBeNull();
});

const isSeenLately = async (): Promise<boolean> =>
  (await db.sql`select from lake_state where seen_at > now() - interval '1 minute'`).length > 0;

it("is looked at all the time by a watch, so that long work is no stop", async () => {
  const scope = new Scope("test", createSilentLogger());
  startClockWatch(scope, db.sql, systemClock, createSilentLogger(), { ...clockLimits, jumpMs: 40 });
  try {
    for (let looks = 0; looks < 3; looks++) {
      await until(isSeenLately);
      await seenAgo(3000);
    }
    await until(isSeenLately);
  } finally {
    await scope.stop();
  }
  await waitedOut();
  expect(await look()).toBeNull();
});

it("is watched by maintenance beside whatever it is at", async () => {
  const lake = await createTestLake();
  const maintenance = await startMaintenance({
    // Its chores come later.
    config: parseConfig("maintenance", [], { SVC_MAINTENANCE_INTERVAL_SECONDS: "3600" }),
    connectionString: db.connectionString,
    objectStoreUri: lake.uri,
    logger: createSilentLogger(),
    metrics: createMetrics(),
    alone: false,
  });
  try {
    await until(isSeenLately);
    expect(await look()).toMatch(/waiting until/);
  } finally {
    await maintenance.stop();
    await lake.remove();
  }
});
