/** What a query thread does when DuckDB fails for good. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";

import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { type Engine, Engines } from "../../src/query/engines.js";
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

describe("an instance that does not let go of a query", () => {
  it("is kept for as long as that takes, while others use another, and one at most", async () => {
    const directory = await mkdtemp(path.join(tmpdir(), "telemetry-test-engines-"));
    const engines = await Engines.start(
      {
        lakeDirectory: path.join(directory, "lake"),
        tempDirectory: path.join(directory, "temp"),
        memoryLimitBytes: 64 << 20,
        maxTempBytes: 64 << 20,
        threads: 1,
      },
      "test",
    );
    const current = (): Promise<Engine> => engines.use((engine) => Promise.resolve(engine));
    const answers = async (engine: Engine): Promise<boolean> => {
      try {
        const connection = await engine.connect();
        await connection.run("SELECT 1");
        connection.closeSync();
        return true;
      } catch {
        return false;
      }
    };
    try {
      const first = await current();
      let letGo: () => void = () => undefined;
      const held = engines.hold(first, () => new Promise<void>((resolve) => (letGo = resolve)));
      await engines.stuck(first);
      const second = await current();
      expect(second).not.toBe(first);
      // With another old one there is no third.
      await engines.hold(second, () => engines.stuck(second));
      expect(await current()).toBe(second);
      expect(await answers(first)).toBe(true);
      letGo();
      await held;
      expect(await answers(first)).toBe(false);
      expect(await answers(second)).toBe(true);
    } finally {
      await engines.close();
      await rm(directory, { recursive: true, force: true });
    }
  });
});
