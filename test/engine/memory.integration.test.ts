/** Statements that take memory which DuckDB does not count, under a limit of the operating system's. */
import { afterEach, describe, expect, it } from "vitest";

import { rowPaths, startEngine, type TestEngine } from "../helpers/query/engine.js";

const memoryBytes = 200_000_000;
/** What a process of two threads takes besides. */
const besideBytes = 130_000_000;

let engine: TestEngine | null = null;

afterEach(async () => {
  await engine?.stop();
  engine = null;
});

// Elsewhere the server watches the process.
describe.runIf(process.platform === "linux")("under a limit of the system's", () => {
  const statements = [
    "SELECT max(len(list_append(l, i))) FROM range(2048) t(i), (SELECT list(j) l FROM range(1000000) t(j))",
    "SELECT max(length(upper(s || i))) FROM range(2048) t(i), (SELECT string_agg(j, '') s FROM range(1000000) t(j))",
    "SELECT repeat('x', 1000000) || i FROM range(2048) t(i)",
  ];

  it.each(statements.flatMap((sql) => rowPaths.map(([path, inPlace]) => [path, inPlace, sql] as const)))(
    "an engine refuses or dies, and takes nothing else with it, rows %s (%s): %s",
    async (_, inPlace, sql) => {
      engine = await startEngine(memoryBytes + besideBytes);
      const instance = { memoryBytes };
      const ended = await engine
        .run([{ kind: "stream", sql, inPlace, messageBytes: 1 << 20 }], { instance, onMessage: () => 0 })
        .then(
          ({ end }) => end.error,
          (error: unknown) => String(error),
        );
      expect(ended).toMatch(/^Out of Memory Error|the engine ended/u);
    },
  );

  it("what fits is computed, spilling where it must", async () => {
    engine = await startEngine(memoryBytes + besideBytes);
    const { end } = await engine.run(
      [
        {
          kind: "stream",
          sql: "SELECT * FROM (SELECT i, 'text ' || hash(i) AS t FROM range(600000) r(i)) ORDER BY t",
          messageBytes: 1 << 20,
        },
      ],
      { instance: { memoryBytes: 30_000_000, tempBytes: 1_000_000_000 }, onMessage: () => 0 },
    );
    expect(end).toMatchObject({ error: null, rows: 600_000 });
  });
});

// Of chunks with texts of 450 bytes, two are too much for a message.
it.each([
  ["short texts", "'row ' || i", 1_000_000, false],
  ["texts of 450 bytes", "repeat('x', 440) || i", 100_000, false],
  ["texts in place", "'row ' || i", 1_000_000, true],
])("a long stream of %s takes no more memory than a short one", async (_what, value, rowsOfShort, inPlace) => {
  engine = await startEngine();
  const peak = async (rows: number): Promise<number> => {
    const sql = `SELECT i, ${value} AS value FROM range(${rows}) r(i)`;
    const step = { kind: "stream", sql, inPlace, messageBytes: 1 << 20 } as const;
    const { end } = (await engine?.run([step], { onMessage: () => 0 })) ?? {};
    expect(end).toMatchObject({ error: null, rows });
    return end?.peakMemoryBytes ?? 0;
  };
  const short = await peak(rowsOfShort);
  expect(await peak(rowsOfShort * 6)).toBeLessThan(short + 40_000_000);
});
