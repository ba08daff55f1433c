/** Queries that fail: what they held comes back with them, not when V8 next collects. */
import { afterAll, beforeAll, expect, it } from "vitest";

import type { QuerySources } from "../../src/query/run.js";
import { toServiceError } from "../../src/runtime/errors.js";
import { startTestPool, type TestPool } from "../helpers/query-pool.js";

let t: TestPool;

beforeAll(async () => {
  t = await startTestPool({ memoryLimitBytes: 32 << 20 });
});

afterAll(async () => {
  await t.stop();
});

const rows = Array.from({ length: 20 }, (_, i) => ({ a: `x${i}`, b: i, c: "y" }));
const sources: QuerySources = {
  files: [],
  rows: ["p", "q"].map((name) => ({
    name,
    columns: [
      ["a", "VARCHAR"],
      ["b", "BIGINT"],
      ["c", "VARCHAR"],
    ],
    chunks: [JSON.stringify(rows)],
  })),
};

async function outcome(sql: string): Promise<string> {
  const { signal } = new AbortController();
  try {
    let messages = 0;
    const stream = t.pool.run({ sql, explain: "none" }, sources, signal);
    for await (const message of stream) messages += message.length > 0 ? 1 : 0;
    return `${messages} messages`;
  } catch (error) {
    return toServiceError(error).code;
  }
}

it("that fail, however many, leave no memory taken", async () => {
  const outcomes = new Set<string>();
  for (let i = 0; i < 200; i++) {
    outcomes.add(await outcome("SELECT CAST(a AS INTEGER) FROM p UNION ALL SELECT b FROM q"));
  }
  expect([...outcomes]).toEqual(["BAD_REQUEST"]);
  expect(await outcome("SELECT a FROM p")).toBe("2 messages");
});
