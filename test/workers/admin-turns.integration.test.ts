import { afterAll, beforeAll, expect, it } from "vitest";

import { ServiceError } from "../../src/runtime/errors.js";
import type { AdminPool } from "../../src/workers/admin-client.js";
import { createTestDatabase, type TestDatabase } from "../helpers/postgres/postgres.js";
import { startTestAdminPool } from "../helpers/servers/admin-pool.js";

let database: TestDatabase;
let pool: AdminPool;

beforeAll(async () => {
  database = await createTestDatabase();
  pool = await startTestAdminPool(database.connectionString);
});
afterAll(async () => {
  await pool.stop();
  await database.drop();
});

const statusOf = async (name: string, from = pool): Promise<string> => {
  const call = {
    operation: "myAudiences",
    caller: { issuer: "https://id.example", subject: name, email: null, name },
    origin: { from: "192.0.2.1", forwardedFor: null },
    path: {},
    query: "",
    body: new Uint8Array(0),
  } as const;
  return await from.handle(call).then(
    ({ status }) => String(status),
    (error: unknown) => (error instanceof ServiceError ? error.code : "another error"),
  );
};

it("answers another caller before most of those of one who came first", async () => {
  let answered = 0;
  const many = Array.from({ length: 900 }, () => statusOf("ann").finally(() => answered++));
  expect(await statusOf("bob")).toBe("200");
  expect(answered).toBeLessThan(200);
  expect(new Set(await Promise.all(many))).toEqual(new Set(["200"]));
});

it("refuses calls of who has the most that wait, and nobody else's", async () => {
  const calls: Promise<string>[] = [];
  await database.sql.begin(async (tx) => {
    // Nothing is answered meanwhile.
    await tx`lock table group_members in access exclusive mode`;
    for (const name of [...Array<string>(3000).fill("ann"), "bob"]) {
      calls.push(statusOf(name));
    }
    expect(new Set(await Promise.all(calls.slice(2000, 3000)))).toEqual(new Set(["OVERLOADED"]));
  });
  const outcomes = await Promise.all(calls);
  expect(outcomes.at(-1)).toBe("200");
  expect(outcomes.filter((outcome) => outcome === "200").length).toBeGreaterThan(1000);
});

it("waits for a turn no longer than for a connection", async () => {
  const other = await startTestAdminPool(database.connectionString, 100);
  await database.sql.begin(async (tx) => {
    await tx`lock table group_members in access exclusive mode`;
    let answered = 0;
    const calls = Array.from({ length: 200 }, () => statusOf("ann", other).finally(() => answered++));
    expect(new Set(await Promise.all(calls.slice(100)))).toEqual(new Set(["UNAVAILABLE"]));
    // Those that have a turn wait for the database still.
    expect(answered).toBeLessThan(200 - 16);
  });
  await other.stop();
});
