import { beforeAll, describe, expect, it } from "vitest";

import { bindParameters, type ParameterDeclaration } from "../../src/query/gate/parameters.js";
import { ipcOf } from "../helpers/flight/flight-ipc.js";
import { startTestBackend, type TestBackend } from "../helpers/query/query-backend.js";
import { tableFromIPC } from "apache-arrow";

let t: TestBackend;

beforeAll(async () => {
  t = await startTestBackend();
  return () => t.stop();
});

async function declared(sql: string): Promise<readonly ParameterDeclaration[]> {
  return (await t.inspect(sql, { parameters: "declare" })).parameters;
}

async function run(sql: string, values: readonly (readonly [string, string | null])[]) {
  const parameters = bindParameters(
    await declared(sql),
    values.map(([type, text]) => ({ type, text })),
  );
  const { executable } = await t.inspect(sql, { parameters });
  const parts: Uint8Array[] = [];
  for await (const message of t.run(executable)) {
    parts.push(...ipcOf(message));
  }
  return Array.from(tableFromIPC(parts), (row) => row.toJSON());
}

describe("parameters of a statement", () => {
  it("are declared with the types that the statement gives them", async () => {
    const found = await declared("SELECT msg, $3 FROM log_entries WHERE level = $1 AND time > $2 LIMIT $4");
    expect(found).toMatchObject([
      { name: "1", type: "INTEGER", field: { type: { kind: "int", bits: 32 } } },
      { name: "2", type: "TIMESTAMP_NS", field: { type: { kind: "timestamp" } } },
      { name: "3", type: null, field: { type: { kind: "utf8" } } },
      { name: "4", type: "BIGINT" },
    ]);
  });

  it("have names, too", async () => {
    expect(await declared("SELECT $b::INTEGER, $a::DOUBLE")).toMatchObject([
      { name: "b", type: "INTEGER" },
      { name: "a", type: "DOUBLE" },
    ]);
  });

  it.each([
    ["SELECT ? AS v", "BIGINT", "9007199254740993", 9_007_199_254_740_993n],
    ["SELECT ? AS v", "VARCHAR", "it's '' \"; DROP TABLE x; -- ü", "it's '' \"; DROP TABLE x; -- ü"],
    ["SELECT ? AS v", "VARCHAR", "", ""],
    ["SELECT ? AS v", "BOOLEAN", "true", true],
    ["SELECT ? AS v", "DOUBLE", "1.5e-300", 1.5e-300],
    ["SELECT ? AS v", "DOUBLE", null, null],
    [
      "SELECT CAST(?::DECIMAL(20,3) AS VARCHAR) AS v",
      "DECIMAL(20,3)",
      "-12345678901234567.891",
      "-12345678901234567.891",
    ],
    ["SELECT hex(?::BLOB) AS v", "BLOB", "AP9h", "00FF61"],
    ["SELECT hex(?) AS v", "BLOB", "", ""],
    [
      "SELECT epoch_ns(?::TIMESTAMP_NS) AS v",
      "TIMESTAMP_NS",
      "2025-11-21 12:00:00.123456789",
      1_763_726_400_123_456_789n,
    ],
    ["SELECT ?::INTEGER + 1 AS v", "BIGINT", "41", 42],
    ["EXPLAIN SELECT ? AS v", "BIGINT", "1", undefined],
  ] as const)("%s of a %s %s", async (sql, type, text, value) => {
    expect((await run(sql, [[type, text]]))[0]?.["v"]).toEqual(value);
  });

  it("may replace any expression, each value as often as it is named", async () => {
    expect(
      await run("SELECT $1 AS a, $1 || $2 AS b FROM range(3) t(i) WHERE i < $3 ORDER BY i LIMIT $4", [
        ["VARCHAR", "x"],
        ["VARCHAR", "y"],
        ["BIGINT", "2"],
        ["BIGINT", "1"],
      ]),
    ).toEqual([{ a: "x", b: "xy" }]);
  });

  it("keep the name of their column", async () => {
    expect(await run("SELECT ?", [["BIGINT", "1"]])).toEqual([{ $1: 1n }]);
  });

  it("that bound a time prune like text", async () => {
    const sql = "SELECT msg FROM log_entries WHERE time >= ?";
    const parameters = bindParameters(await declared(sql), [{ type: "TIMESTAMP_NS", text: "2025-11-21 12:00:00" }]);
    const { scans } = await t.inspect(sql, { parameters });
    expect(scans[0]?.minTimeNs).toBe(1_763_726_400_000_000_000n - 1000n);
  });

  it("do not open the gate: a value is never SQL, and what is refused stays refused", async () => {
    for (const sql of [
      "SELECT * FROM read_text(?)",
      "SELECT getenv(?)",
      "COPY (SELECT ?) TO 'x'",
      "SELECT * FROM view_instance('log_entries', ?); SELECT 1",
    ]) {
      await expect(t.inspect(sql, { parameters: "declare" })).rejects.toMatchObject({
        code: "BAD_REQUEST",
      });
    }
    await expect(t.inspect("SELECT ?")).rejects.toThrow(/prepare it and bind them/u);
  });

  it.each([
    ["too few", "SELECT ?::INTEGER, ?::INTEGER", [["INTEGER", "1"]]],
    [
      "too many",
      "SELECT ?::INTEGER",
      [
        ["INTEGER", "1"],
        ["INTEGER", "1"],
      ],
    ],
    ["text for a number", "SELECT ?::INTEGER", [["VARCHAR", "1"]]],
    ["a number for text", "SELECT msg FROM log_entries WHERE msg = ?", [["INTEGER", "1"]]],
    ["a number for a time", "SELECT msg FROM log_entries WHERE time > ?", [["BIGINT", "1"]]],
    ["out of range", "SELECT ?::TINYINT", [["BIGINT", "1000"]]],
    ["text that is no time", "SELECT msg FROM log_entries WHERE time > ?", [["VARCHAR", "noon"]]],
  ] as const)("are refused: %s", async (_name, sql, values) => {
    await expect(run(sql, values)).rejects.toMatchObject({ code: "BAD_REQUEST" });
  });
});
