/** What a query thread does when DuckDB fails for good. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { noSources, startTestPool, type TestPool } from "../helpers/query-pool.js";

let t: TestPool;

beforeAll(async () => {
  t = await startTestPool();
});

afterAll(async () => {
  await t.stop();
});

async function outcome(sql: string): Promise<string> {
  const stream = t.pool.run({ sql, explain: "none" }, noSources, new AbortController().signal);
  try {
    let messages = 0;
    for await (const message of stream) messages += message.length > 0 ? 1 : 0;
    return `${messages} messages`;
  } catch (error) {
    return (error as { code?: string }).code ?? String(error);
  }
}

describe("an instance that an error of DuckDB's own has left unusable", () => {
  it("is replaced by another; queries that had the first one end", async () => {
    // Past the gate, which refuses the type: the list functions of VARIANT fail with an INTERNAL error.
    const broken = "SELECT array_resize([i]::VARIANT, 20) FROM range(2048) t(i)";
    expect(await outcome(broken)).toBe("INTERNAL");
    expect(await outcome("SELECT 43")).toBe("2 messages");
    expect((await t.query("SELECT 44 AS n")).get(0)?.toJSON()).toEqual({ n: 44 });
    expect(await outcome(broken)).toBe("INTERNAL");
    expect(await outcome("SELECT 45")).toBe("2 messages");
  });
});
