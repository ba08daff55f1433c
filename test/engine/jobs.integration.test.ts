/** What an engine process does with jobs: values, errors, interrupts, limits, and what it can reach. */
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { encodeFrame } from "../../src/engine/frames.js";
import type { EngineStep, EngineValue, RowValue } from "../../src/engine/protocol.js";
import { rowPaths, startEngine, streamStep, type TestEngine } from "../helpers/query/engine.js";

let engine: TestEngine;
let directory: string;

beforeAll(async () => {
  engine = await startEngine();
  directory = mkdtempSync(join(tmpdir(), "svc-engine-files-"));
});

afterAll(async () => {
  await engine.stop();
  rmSync(directory, { recursive: true, force: true });
});

async function rows(sql: string, values?: readonly EngineValue[]): Promise<readonly (readonly RowValue[])[] | string> {
  const step = { kind: "rows", sql, maxBytes: 1_000_000 } as const;
  const { results, end } = await engine.run([values === undefined ? step : { ...step, values }]);
  return end.error ?? results[0]?.rows ?? [];
}

describe("values", () => {
  it.each([
    ["BOOLEAN", "true", "true"],
    ["TINYINT", "-128", "-128"],
    ["SMALLINT", "-32768", "-32768"],
    ["INTEGER", "-2147483648", "-2147483648"],
    ["BIGINT", "-9223372036854775808", "-9223372036854775808"],
    ["UTINYINT", "255", "255"],
    ["USMALLINT", "65535", "65535"],
    ["UINTEGER", "4294967295", "4294967295"],
    ["UBIGINT", "18446744073709551615", "18446744073709551615"],
    ["HUGEINT", "-170141183460469231731687303715884105728", "-170141183460469231731687303715884105728"],
    ["UHUGEINT", "340282366920938463463374607431768211455", "340282366920938463463374607431768211455"],
    ["FLOAT", "0.1", "0.1"],
    ["FLOAT", "inf", "inf"],
    ["DOUBLE", "-1e300", "-1e+300"],
    ["DOUBLE", "nan", "nan"],
    ["DECIMAL(4,1)", "-12.5", "-12.5"],
    ["DECIMAL(9,3)", "-12.5", "-12.500"],
    ["DECIMAL(18,3)", "-12.5", "-12.500"],
    ["DECIMAL(38,3)", "-99999999999999999999999999999999999.999", "-99999999999999999999999999999999999.999"],
    ["VARCHAR", "ä \u0000'b'", "ä \u0000'b'"],
    ["VARCHAR", "", ""],
    ["BLOB", Buffer.from("a\0ÿ").toString("base64"), "a\\x00\\xC3\\xBF"],
    ["UUID", "f0000000-0000-0000-0000-000000000001", "f0000000-0000-0000-0000-000000000001"],
    ["UUID", "00000000-0000-0000-ffff-ffffffffffff", "00000000-0000-0000-ffff-ffffffffffff"],
    ["DATE", "0001-02-03", "0001-02-03"],
    ["TIME", "23:59:59.999999", "23:59:59.999999"],
    ["TIME_NS", "23:59:59.999999999", "23:59:59.999999999"],
    ["TIMESTAMP", "1969-12-31 23:59:59.999999", "1969-12-31 23:59:59.999999"],
    ["TIMESTAMP_S", "2020-01-02 03:04:05", "2020-01-02 03:04:05"],
    ["TIMESTAMP_MS", "2020-01-02 03:04:05.678", "2020-01-02 03:04:05.678"],
    ["TIMESTAMP_NS", "2020-01-02 03:04:05.123456789", "2020-01-02 03:04:05.123456789"],
    ["TIMESTAMP WITH TIME ZONE", "2020-01-02 03:04:05+01", "2020-01-02 02:04:05+00"],
    ["INTERVAL", "14 months 3 days 4 microseconds", "1 year 2 months 3 days 00:00:00.000004"],
    ["INTEGER[]", '["1",NULL,"-3"]', "[1, NULL, -3]"],
    ["DECIMAL(4,1)[]", '["1.5"]', "[1.5]"],
    ["TIMESTAMP_NS[]", '["2020-01-02 03:04:05.123456789"]', "['2020-01-02 03:04:05.123456789']"],
    ["VARCHAR[]", '["a, \\"b",NULL,""]', `['a, "b', NULL, '']`],
    ["BOOLEAN[]", "[]", "[]"],
  ])("of type %s arrive: %s", async (type, text, shown) => {
    const sql = "SELECT typeof(v), CAST(v AS VARCHAR) FROM (SELECT $1 AS v)";
    expect(await rows(sql, [{ type, text }])).toEqual([[type, shown]]);
  });

  it("may be null, or lists of texts, and go to their places", async () => {
    const sql = "SELECT $2 IS NULL, CAST(list_sum([length(t) FOR t IN $1]) AS VARCHAR), $3 || '!'";
    expect(
      await rows(sql, [{ texts: ["a", "bc", ""] }, { type: "INTEGER", text: null }, { type: "VARCHAR", text: "x" }]),
    ).toEqual([[true, "3", "x!"]]);
    expect(await rows("SELECT len($1)", [{ texts: [] }])).toEqual([["0"]]);
    const many = Array.from({ length: 5000 }, (_, i) => (i % 7 === 3 ? "NULL" : i));
    const sum = many.reduce<number>((sum, i) => sum + (typeof i === "number" ? i : 0), 0);
    expect(
      await rows("SELECT CAST(list_sum($1) AS VARCHAR), len($1)", [{ type: "BIGINT[]", text: `[${many.join(",")}]` }]),
    ).toEqual([[String(sum), "5000"]]);
  });

  it("that are none of their type, or too many, are refused in DuckDB's words", async () => {
    expect(await rows("SELECT $1", [{ type: "INTEGER", text: "five" }])).toMatch(
      /^Conversion Error: Could not convert string 'five' to INT32/u,
    );
    expect(await rows("SELECT $1", [{ type: "INTEGER[][]", text: "[[5]]" }])).toMatch(
      /^Not implemented Error: .*INTEGER\[\]/u,
    );
    expect(await rows("SELECT 1", [{ type: "INTEGER", text: "5" }])).toMatch(
      /^Invalid Input Error: .*0 parameters and 1/u,
    );
  });
});

describe("errors", () => {
  it("come in DuckDB's sentence with line and caret", async () => {
    expect(await rows("SELECT\n  nothing FROM range(3)")).toBe(
      'Binder Error: Referenced column "nothing" not found in FROM clause!\nCandidate bindings: "range"\n\nLINE 2:   nothing FROM range(3)\n          ^',
    );
    expect(await rows("SELEC 1")).toMatch(/^Parser Error: .*\n\nLINE 1: SELEC 1\n {8}\^$/su);
    expect(await rows("SELECT 'a\0b'")).toMatch(/^Parser Error: .*NUL/u);
  });

  it("after the first rows end the result as a failure, never as a short one", async () => {
    let rowsSeen = 0;
    const { end } = await engine.run(
      [
        {
          kind: "stream",
          sql: "SELECT CASE WHEN i = 4999999 THEN CAST('x' || i AS INTEGER) ELSE i END AS v FROM range(5000000) r(i)",
          messageBytes: 1 << 18,
        },
      ],
      { onMessage: () => rowsSeen++ },
    );
    expect(rowsSeen).toBeGreaterThan(2);
    expect(end).toMatchObject({ kind: "duckdb" });
    expect(end.error).toMatch(/^Conversion Error: Could not convert string 'x4999999' to INT32/u);
  });

  it("end the job at once, but for optional steps and statements with another in their place", async () => {
    const { results, end } = await engine.run([
      { kind: "rows", sql: "SELECT wrong", maxBytes: 10, optional: true },
      { kind: "execute", sql: "SELECT wrong", orElse: "CREATE TEMP TABLE t AS SELECT 7 AS a" },
      { kind: "rows", sql: "SELECT a FROM t", maxBytes: 10 },
      { kind: "execute", sql: "SELECT 1::INTEGER / 'x'::INTEGER", orElse: "SELECT 1" },
      { kind: "rows", sql: "SELECT 1", maxBytes: 10 },
    ]);
    expect(results).toEqual([
      { error: expect.stringMatching(/^Binder Error/u) as unknown },
      { changed: expect.any(Number) as unknown },
      { rows: [[7]] },
    ]);
    expect(end.error).toMatch(/^Conversion Error/u);
  });

  it("leave nothing behind for the next job", async () => {
    expect(await rows("SELECT * FROM t")).toMatch(/^Catalog Error/u);
    expect(await rows("SELECT 1")).toEqual([[1]]);
  });
});

describe("a job", () => {
  it("has the stack that DuckDB takes for as many levels as it allows", async () => {
    const ctes = Array.from({ length: 990 }, (_, i) => `c${i} AS (SELECT ${i === 0 ? "1 AS x" : `x FROM c${i - 1}`})`);
    expect(await rows(`WITH ${ctes.join(", ")} SELECT x FROM c989`)).toEqual([[1]]);
  });

  it("counts what it changed and what it sent, and how much memory it took", async () => {
    const { results, messages, end } = await engine.run([
      { kind: "execute", sql: "CREATE TEMP TABLE c(a INTEGER)" },
      {
        kind: "execute",
        sql: "INSERT INTO c SELECT range FROM range($1)",
        values: [{ type: "INTEGER", text: "100000" }],
      },
      { kind: "stream", sql: "SELECT * FROM c", messageBytes: 100_000 },
    ]);
    expect(results[1]).toEqual({ changed: 100_000 });
    expect(end).toMatchObject({ error: null, rows: 100_000, batches: messages.length - 1 });
    expect(end.batches).toBeGreaterThan(3);
    expect(end.bytes).toBe(messages.slice(1).reduce((sum, { length }) => sum + length, 0));
    expect(end.peakMemoryBytes).toBeGreaterThan(50_000_000);
    expect(Math.max(...messages.map(({ length }) => length))).toBeLessThan(160_000);
  });

  it("splits rows that are too wide for one message", async () => {
    const { messages, end } = await engine.run([
      {
        kind: "stream",
        sql: "SELECT repeat('x', 10000) AS t FROM range(2000)",
        messageBytes: 100_000,
      },
    ]);
    expect(end.rows).toBe(2000);
    expect(messages.length).toBeGreaterThan(100);
    expect(Math.max(...messages.map(({ length }) => length))).toBeLessThan(200_000);
  });

  it("cuts a result behind the most rows and says so", async () => {
    for (const [maxRows, truncated] of [
      [4999, true],
      [5000, undefined],
      [5001, undefined],
    ] as const) {
      const { end } = await engine.run([
        { kind: "stream", sql: "SELECT * FROM range(5000)", messageBytes: 10_000, maxRows },
      ]);
      expect([end.rows, end.truncated]).toEqual([Math.min(maxRows, 5000), truncated]);
    }
  });

  it("fails where a result has more bytes than it may", async () => {
    const { end } = await engine.run([
      {
        kind: "stream",
        sql: "SELECT * FROM range(500000)",
        messageBytes: 10_000,
        maxBytes: 50_000,
      },
    ]);
    expect(end).toMatchObject({
      kind: "limit",
      error: expect.stringContaining("50000") as unknown,
    });
    expect(end.bytes).toBeLessThanOrEqual(50_000);
    const step = { kind: "rows", sql: "SELECT repeat('x', 2000)", maxBytes: 1000 } as const;
    expect((await engine.run([step])).end.kind).toBe("limit");
  });

  it.each(rowPaths)("sends no more messages than were asked for, rows %s", async (_, inPlace) => {
    let seen = 0;
    let enough: () => void = () => undefined;
    const third = new Promise<void>((resolve) => (enough = resolve));
    const step = await streamStep(engine, "SELECT * FROM range(1000000)", inPlace, 100_000);
    const job = engine.run([step], {
      credits: 3,
      onMessage: () => ++seen === 3 && enough(),
    });
    await third;
    // What is not asked for does not come either while something else is waited for.
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(seen).toBe(3);
    engine.credit(1000);
    expect((await job).end).toMatchObject({ error: null, rows: 1_000_000 });
  });

  it("streams another text when the first does not bind", async () => {
    const step = {
      kind: "stream",
      sql: "SELECT nothing FROM range(CAST($1 AS BIGINT))",
      orElse: "SELECT * FROM range(CAST($1 AS BIGINT))",
      values: [{ type: "VARCHAR", text: "5" }],
      messageBytes: 1000,
    } as const;
    expect((await engine.run([step])).end).toMatchObject({ error: null, rows: 5 });
    expect(
      (await engine.run([{ ...step, sql: "SELECT error('no') FROM range(CAST($1 AS BIGINT))" }])).end,
    ).toMatchObject({
      error: "Invalid Input Error: no",
      rows: 0,
    });
  });

  it("streams no other text once it has begun", async () => {
    // Fails where i is 0, when the rows before it are on their way.
    const late = "(SELECT i FROM range(30000000) t(i) WHERE i = 0) t(i), range(0, 2, i) r(x)";
    const step: EngineStep = {
      kind: "stream",
      sql: `SELECT i FROM range(3000000) t(i) UNION ALL SELECT x FROM ${late}`,
      orElse: "SELECT 1",
      messageBytes: 100_000,
    };
    let messages = 0;
    const { end } = await engine.run([step], { onMessage: () => messages++ });
    expect(end.error).toBe("Binder Error: interval cannot be 0!");
    expect(end.batches).toBeGreaterThan(1);
    // And one with the schema.
    expect(messages).toBe(end.batches + 1);
  });

  it("describes a statement without running it", async () => {
    const { results } = await engine.run([
      { kind: "describe", sql: "SELECT $2::DECIMAL(9,2) AS d, $1::BIGINT FROM range(3) r(a)" },
      { kind: "describe", sql: "SELECT $1 AS v" },
    ]);
    expect(results[0]?.parameters).toEqual([
      { name: "1", type: "BIGINT" },
      { name: "2", type: "DECIMAL(9,2)" },
    ]);
    expect(results[0]?.schema?.length).toBeGreaterThan(100);
    expect(results[1]).toEqual({ parameters: [{ name: "1", type: null }] });
  });
});

describe("an interrupt", () => {
  it.each([
    ["rows", { kind: "rows", maxBytes: 1000 }],
    ["execute", { kind: "execute" }],
    ["stream", { kind: "stream", messageBytes: 1000 }],
  ] as const)("ends a cross join of a step %s", async (_, step) => {
    const sql = "SELECT sum(hash(a.range + b.range)) FROM range(10000000) a, range(10000000) b";
    const job = engine.run([
      { kind: "execute", sql: "SELECT 1" },
      { ...step, sql },
    ]);
    engine.interrupt();
    const { end } = await job;
    expect(end).toMatchObject({ kind: "cancelled", error: expect.any(String) as unknown });
    expect(await rows("SELECT 1")).toEqual([[1]]);
  });

  it("ends a job whose messages nobody asks for", async () => {
    const job = engine.run([{ kind: "stream", sql: "SELECT * FROM range(1000000)", messageBytes: 1000 }], {
      credits: 0,
    });
    engine.interrupt();
    expect((await job).end.kind).toBe("cancelled");
  });

  it("of a job that has ended does not touch the next", async () => {
    for (let i = 0; i < 20; i++) {
      const job = rows("SELECT sum(range) FROM range(1000)");
      await job;
      engine.interrupt();
    }
    expect(await rows("SELECT 1")).toEqual([[1]]);
  });
});

describe("an instance", () => {
  it("reaches its directories and files, and nothing else", async () => {
    const [mine, other] = [join(directory, "mine"), join(directory, "other")];
    for (const path of [mine, other]) {
      mkdirSync(path);
    }
    for (const path of [mine, other]) {
      writeFileSync(join(path, "a.csv"), "x\n1\n");
    }
    writeFileSync(join(directory, "single.csv"), "x\n2\n");
    const read = async (file: string, key: string, directories: string[], paths: string[] = []) => {
      const { results, end } = await engine.run(
        [
          {
            kind: "rows",
            sql: `SELECT CAST(x AS VARCHAR) FROM read_csv('${file}')`,
            maxBytes: 1000,
          },
        ],
        { instance: { key, directories, paths } },
      );
      return end.error ?? results[0]?.rows;
    };
    const denied = expect.stringMatching(/^Permission Error/u) as unknown;
    expect(await read(join(mine, "a.csv"), "mine", [mine])).toEqual([["1"]]);
    expect(await read(join(other, "a.csv"), "mine", [mine])).toEqual(denied);
    expect(await read(join(mine, "../other/a.csv"), "mine", [mine])).toEqual(denied);
    expect(await read(join(directory, "single.csv"), "mine", [mine])).toEqual(denied);
    expect(await read("/etc/passwd", "mine", [mine])).toEqual(denied);
    expect(await read(join(other, "a.csv"), "other", [other])).toEqual([["1"]]);
    expect(await read(join(mine, "a.csv"), "other", [other])).toEqual(denied);
    const single = join(directory, "single.csv");
    expect(await read(single, "single", [], [single])).toEqual([["2"]]);
    expect(await read(join(mine, "a.csv"), "single", [], [single])).toEqual(denied);
    expect(await read(join(mine, "a.csv"), "none", [])).toEqual(denied);
  });

  it.each([
    "SET enable_external_access = true",
    "SET allowed_directories = ['/']",
    "SET GLOBAL memory_limit = '1TB'",
    "RESET lock_configuration",
    "INSTALL httpfs",
    "LOAD '/tmp/x.duckdb_extension'",
    "ATTACH '/tmp/svc-engine-never.db'",
    "COPY (SELECT 1) TO '/tmp/svc-engine-never.csv'",
    "SELECT * FROM glob('/etc/*')",
    "SELECT * FROM read_blob('/proc/self/environ')",
  ])("is locked: %s", async (sql) => {
    const { end } = await engine.run([{ kind: "execute", sql }], {
      instance: { key: "mine", directories: [directory] },
    });
    expect(end.error).toMatch(/^(?:Permission|Invalid Input|Catalog|IO) Error/u);
  });

  it("has the statements of its setup, spills, and is kept for the next job of its key", async () => {
    const instance = {
      key: "set up",
      directories: [directory],
      memoryBytes: 30_000_000,
      setup: ["CREATE MACRO twice(x) AS 2 * x"],
    };
    const job = await engine.run(
      [
        { kind: "execute", sql: "CREATE TABLE kept AS SELECT twice(21) AS a" },
        {
          kind: "rows",
          sql: "SELECT count(*)::INTEGER FROM (SELECT hash(range) AS h FROM range(2000000) ORDER BY h OFFSET 1)",
          maxBytes: 1000,
        },
      ],
      { instance },
    );
    expect(job.end.error).toBe(null);
    expect(job.results[1]).toEqual({ rows: [[1_999_999]] });
    const again = await engine.run([{ kind: "rows", sql: "FROM kept", maxBytes: 1000 }], {
      instance,
    });
    expect(again.results).toEqual([{ rows: [[42]] }]);
    expect(readdirSync(engine.tempDirectory)).toEqual(["spill"]);
  });
});

describe("an engine", () => {
  it("ends when its stream is closed, also in the middle of a job, and says nothing", async () => {
    const idle = await startEngine();
    await idle.stop();
    expect([idle.child.exitCode, idle.stderr()]).toEqual([0, ""]);
    const busy = await startEngine();
    const sql = "SELECT sum(hash(a.range + b.range)) FROM range(10000000) a, range(10000000) b";
    const job = busy.run([{ kind: "execute", sql }]).catch(String);
    await busy.stop();
    expect(await job).toMatch("the engine ended");
    expect(busy.stderr()).toBe("");
  });

  it.each([
    ["a frame of no kind", [encodeFrame(0x3f, new Uint8Array(1))], "kind 63"],
    ["a frame that is too long", [Uint8Array.of(255, 255, 255, 255, 0x4a)], "4294967295 bytes"],
    ["a job that is no JSON", [encodeFrame(0x4a, Buffer.from("{"))], "JSON"],
  ])("ends at %s, and says why", async (_, frames, reason) => {
    const odd = await startEngine();
    const ended = new Promise((resolve) => odd.child.once("close", resolve));
    for (const frame of frames) {
      odd.write(frame);
    }
    await ended;
    expect(odd.stderr()).toContain(reason);
    await odd.stop();
  });
});
