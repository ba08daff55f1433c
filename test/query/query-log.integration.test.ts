/** The query log in its table. */
import { afterAll, beforeAll, expect, test } from "vitest";

import { createQueryLog } from "../../src/query/query-log.js";
import { createSilentLogger } from "../../src/runtime/log/log.js";
import { createMetrics } from "../../src/runtime/metrics.js";
import { createTestDatabase, type TestDatabase } from "../helpers/postgres/postgres.js";

let database: TestDatabase;
beforeAll(async () => {
  database = await createTestDatabase();
});
afterAll(() => database.drop());

test("what is older than 30 days goes in steps, so that writes and readers do not wait for all of it", async () => {
  const { sql } = database;
  await sql`insert into query_log (query_id, time, caller, client, sql, sql_hash, duration_ms, row_count, bytes,
      partitions, outcome)
    select gen_random_uuid(), now() - i * interval '29 days' - interval '1 day', 'a', '', '', '', 1, 1, 1, 1, 'OK'
    from generate_series(0, 1) i, generate_series(1, 10001)`;
  const rows = async (): Promise<number> => (await sql`select from query_log`).length;
  const log = createQueryLog({
    sql,
    reopen: () => {
      throw new Error("the database answers");
    },
    logger: createSilentLogger(),
    metrics: createMetrics(),
    intervalMs: 3_600_000,
  });
  await log.flush();
  expect(await rows()).toBe(10_002);
  await log.flush();
  await log.flush();
  expect(await rows()).toBe(10_001);
  await log.stop();
});
