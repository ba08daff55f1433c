import { beforeAll, describe, expect, it } from "vitest";

import { startTestBackend, type TestBackend } from "../helpers/query/query-backend.js";

let t: TestBackend;

beforeAll(async () => {
  t = await startTestBackend();
  return () => t.stop();
});

/** Every type with two values and a null between them: SQL of the values, the Arrow type, and what is read. */
const types: readonly (readonly [sql: string, arrow: string, first: unknown, last: unknown])[] = [
  ["(true), (NULL), (false)", "Bool", true, false],
  ["(CAST('-128' AS TINYINT)), (NULL), (127)", "Int8", -128, 127],
  ["(CAST('-32768' AS SMALLINT)), (NULL), (7)", "Int16", -32_768, 7],
  ["(CAST('-2147483648' AS INTEGER)), (NULL), (7)", "Int32", -2_147_483_648, 7],
  [
    "(CAST('-9223372036854775808' AS BIGINT)), (NULL), (9007199254740993)",
    "Int64",
    -(2n ** 63n),
    9_007_199_254_740_993n,
  ],
  ["(255::UTINYINT), (NULL), (0)", "Uint8", 255, 0],
  ["(65535::USMALLINT), (NULL), (0)", "Uint16", 65_535, 0],
  ["(4294967295::UINTEGER), (NULL), (0)", "Uint32", 4_294_967_295, 0],
  ["(18446744073709551615::UBIGINT), (NULL), (0)", "Uint64", 2n ** 64n - 1n, 0n],
  ["(1.5::FLOAT), (NULL), (-0.25::FLOAT)", "Float32", 1.5, -0.25],
  ["(1e300::DOUBLE), (NULL), (-0.1::DOUBLE)", "Float64", 1e300, -0.1],
  ["('short'), (NULL), ('longer than twelve bytes: ÄÖÜ 🦆')", "Utf8", "short", "longer than twelve bytes: ÄÖÜ 🦆"],
  ["(''), (NULL), ('twelve bytes')", "Utf8", "", "twelve bytes"],
  ["('\\x00\\xFF'::BLOB), (NULL), (''::BLOB)", "Binary", Uint8Array.of(0, 255), new Uint8Array(0)],
  [
    "('01234567-89ab-cdef-0123-456789abcdef'::UUID), (NULL), ('ffffffff-ffff-ffff-ffff-ffffffffffff'::UUID)",
    "Utf8",
    "01234567-89ab-cdef-0123-456789abcdef",
    "ffffffff-ffff-ffff-ffff-ffffffffffff",
  ],
  ["('a'::ENUM('b', 'a')), (NULL), ('b'::ENUM('b', 'a'))", "Dictionary<Uint8, Utf8>", "a", "b"],
  ["([1, NULL, 3]), (NULL), ([]::INTEGER[])", "List<Int32>", [1, null, 3], []],
  [
    "([['x', 'a string of more than twelve bytes'], NULL]), (NULL), ([['z']])",
    "List<List<Utf8>>",
    [["x", "a string of more than twelve bytes"], null],
    [["z"]],
  ],
  ["([1, 2]::INTEGER[2]), (NULL), ([3, NULL]::INTEGER[2])", "FixedSizeList[2]<Int32>", [1, 2], [3, null]],
  [
    "({'a': 1, 'b': 'x'}), (NULL), ({'a': NULL, 'b': 'y'})",
    "Struct<{a:Int32, b:Utf8}>",
    { a: 1, b: "x" },
    { a: null, b: "y" },
  ],
  ["(MAP {'k': 1, 'l': NULL}), (NULL), (MAP {'m': 2})", "Map<{key:Utf8, value:Int32}>", { k: 1, l: null }, { m: 2 }],
];

/** A value of apache-arrow as plain JavaScript. */
function plain(value: unknown): unknown {
  if (value === null || typeof value !== "object" || value instanceof Uint8Array) {
    return value;
  }
  // Not `in`: the rows of apache-arrow are proxies that know only their columns by it.
  const toJson: unknown = (value as { readonly toJSON?: unknown }).toJSON;
  if (typeof toJson === "function") {
    const json: unknown = toJson.call(value);
    return Array.isArray(json)
      ? json.map(plain)
      : Object.fromEntries(Object.entries(json as Record<string, unknown>).map(([k, v]) => [k, plain(v)]));
  }
  return value;
}

describe("every type of a result", () => {
  it.each(types)("reads %s as %s", async (sql, arrow, first, last) => {
    const table = await t.query(`SELECT v FROM (VALUES ${sql}) AS rows(v)`);
    const column = table.getChildAt(0);
    expect(String(column?.type)).toBe(arrow);
    expect(column?.nullCount).toBe(1);
    expect([column?.get(0), column?.get(1), column?.get(2)].map(plain)).toEqual([first, null, last]);
  });

  it("keeps the bits of dates, times, timestamps, intervals and decimals", async () => {
    const table = await t.query(`SELECT DATE '2026-11-21' AS d, TIME '12:34:56.789012' AS t,
      TIMESTAMP_S '2026-11-21 12:34:56' AS ts_s, TIMESTAMP_MS '2026-11-21 12:34:56.789' AS ts_ms,
      TIMESTAMP '2026-11-21 12:34:56.789012' AS ts_us, TIMESTAMP_NS '2026-11-21 12:34:56.789012345' AS ts_ns,
      TIMESTAMPTZ '2026-11-21 12:34:56+02' AS tz, INTERVAL '14 months 3 days 5 microseconds' AS i,
      CAST(-1.23 AS DECIMAL(4, 2)) AS d16, CAST(-12345.678 AS DECIMAL(9, 3)) AS d32,
      CAST(-123456789012.5 AS DECIMAL(18, 1)) AS d64, CAST('-1000000000000000000000000000000' AS DECIMAL(38, 2)) AS d128,
      CAST('-9223372036854775808' AS HUGEINT) AS low, ['-170141183460469231731687303715884105728'::HUGEINT] AS huge, NULL AS nothing`);
    const types = Object.fromEntries(table.schema.fields.map((f) => [f.name, String(f.type)]));
    expect(types).toEqual({
      d: "Date32<DAY>",
      t: "Time64<MICROSECOND>",
      ts_s: "Timestamp<SECOND>",
      ts_ms: "Timestamp<MILLISECOND>",
      ts_us: "Timestamp<MICROSECOND>",
      ts_ns: "Timestamp<NANOSECOND>",
      tz: "Timestamp<MICROSECOND, UTC>",
      i: "Interval<MONTH_DAY_NANO>",
      d16: "Decimal[4e+2]",
      d32: "Decimal[9e+3]",
      d64: "Decimal[18e+1]",
      d128: "Decimal[38e+2]",
      low: "Int64",
      huge: "List<Decimal[38e0]>",
      nothing: "Int32",
    });
    const words = (name: string): bigint[] => {
      const values: unknown = table.getChild(name)?.data[0]?.values;
      if (values instanceof BigInt64Array) {
        return [...values];
      }
      if (!ArrayBuffer.isView(values)) {
        throw new TypeError(`${name} has no values`);
      }
      const bytes = new Uint8Array(values.buffer, values.byteOffset, values.byteLength).slice();
      return [...new BigInt64Array(bytes.buffer, 0, bytes.length >> 3)];
    };
    const wide = (name: string): bigint =>
      words(name).reduceRight(
        (sum, word, i, all) => (i === all.length - 1 ? word : (sum << 64n) | BigInt.asUintN(64, word)),
        0n,
      );
    const epoch = BigInt(Date.UTC(2026, 10, 21, 12, 34, 56)) / 1000n;
    expect(table.getChild("d")?.data[0]?.values[0]).toBe(Date.UTC(2026, 10, 21) / 86_400_000);
    expect(words("t")).toEqual([45_296_789_012n]);
    expect(words("ts_s")).toEqual([epoch]);
    expect(words("ts_ms")).toEqual([epoch * 1000n + 789n]);
    expect(words("ts_us")).toEqual([epoch * 1_000_000n + 789_012n]);
    expect(words("ts_ns")).toEqual([epoch * 1_000_000_000n + 789_012_345n]);
    expect(words("tz")).toEqual([(epoch - 7200n) * 1_000_000n]);
    expect(words("i")).toEqual([14n | (3n << 32n), 5000n]);
    expect(wide("d16")).toBe(-123n);
    expect(wide("d32")).toBe(-12_345_678n);
    expect(wide("d64")).toBe(-1_234_567_890_125n);
    expect(wide("d128")).toBe(-(10n ** 32n));
    expect(words("low")).toEqual([-(2n ** 63n)]);
  });
});

describe("results of many rows", () => {
  it("come in several batches, all values in order, strings of every length", async () => {
    const table =
      await t.query(`SELECT i, CASE WHEN i % 7 = 0 THEN NULL ELSE repeat(chr((97 + i % 26)::INTEGER), (i % 41)::BIGINT) || i END AS s,
      CASE WHEN i % 5 = 0 THEN NULL ELSE i % 3 = 0 END AS b, [i, i + 1][1:(i % 3)::BIGINT] AS l FROM range(200000) t(i) WHERE i % 11 <> 3`);
    expect(table.batches.length).toBeGreaterThan(2);
    let row = 0;
    let wrong = 0;
    const [i, s, b, l] = ["i", "s", "b", "l"].map((name) => table.getChild(name));
    for (let n = 0; n < 200_000; n++) {
      if (n % 11 === 3) {
        continue;
      }
      const text = n % 7 === 0 ? null : String.fromCharCode(97 + (n % 26)).repeat(n % 41) + String(n);
      const flag = n % 5 === 0 ? null : n % 3 === 0;
      const list = [n, n + 1].slice(0, n % 3);
      if (
        Number(i?.get(row)) !== n ||
        s?.get(row) !== text ||
        b?.get(row) !== flag ||
        JSON.stringify(Array.from(l?.get(row) as Iterable<bigint>, Number)) !== JSON.stringify(list)
      ) {
        wrong++;
      }
      row++;
    }
    expect(wrong).toBe(0);
    expect(table.numRows).toBe(row);
  });

  it("split a chunk whose rows are large, so that no message is", async () => {
    const { executable } = await t.inspect(
      "SELECT p || p || p || p || p AS s FROM (SELECT repeat('x', 60000) AS p FROM range(50))",
    );
    const sizes: number[] = [];
    for await (const message of t.run(executable)) {
      sizes.push(message.length);
    }
    expect(Math.max(...sizes)).toBeLessThan(4 << 20);
    expect(sizes.reduce((sum, size) => sum + size)).toBeGreaterThan(50 * 300_000);
  });

  it("carry the schema when there are no rows", async () => {
    const table = await t.query("SELECT 1::BIGINT AS a, 'x' AS b WHERE false");
    expect(table.numRows).toBe(0);
    expect(table.schema.fields.map((f) => `${f.name} ${String(f.type)}`)).toEqual(["a Int64", "b Utf8"]);
  });
});
