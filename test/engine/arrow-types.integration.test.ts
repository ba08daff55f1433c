/**
 * Every type that a result can have, one by one: its Arrow type, and its values with nulls between them in
 * one chunk of DuckDB, in several, and in several batches. The list of types is DuckDB's own.
 */
import { DataType, type Table, tableFromIPC, UnionMode } from "apache-arrow";
import { beforeAll, describe, expect, it } from "vitest";

import { cellReader, cellText } from "telemetry-service-client";
import { type JobOutcome, rowPaths, startEngine, streamStep, type TestEngine } from "../helpers/query/engine.js";
import { ipcOf, splitFlightData } from "../helpers/flight/flight-ipc.js";

let engine: TestEngine;

beforeAll(async () => {
  engine = await startEngine();
  return () => engine.stop();
});

let inPlace = false;

async function stream(sql: string, messageBytes?: number): Promise<JobOutcome> {
  return engine.run([await streamStep(engine, sql, inPlace, messageBytes)]);
}

async function query(sql: string, messageBytes?: number): Promise<Table> {
  const { messages, end } = await stream(sql, messageBytes);
  expect(end.error).toBe(null);
  return tableFromIPC(messages.flatMap(ipcOf));
}

interface Sample {
  /** As duckdb_types() calls it. */
  readonly logical: string;
  /** SQL of the value of row `i`. */
  readonly sql: string;
  /** Puts nulls among the values; a CASE, when it is left out. */
  readonly nullable?: (sql: string) => string;
  readonly arrow: string;
  /** The value of row `i` as text, as the command line shows it. */
  readonly text: (i: number) => string;
}

const nullEvery = 5;
const two = (n: number): string => String(n).padStart(2, "0");
const day = (i: number): string => new Date(Date.UTC(2000, 0, 1) + (i % 5000) * 86_400_000).toISOString().slice(0, 10);
const clock = (i: number): string => `${two(Math.floor(i / 3600) % 24)}:${two(Math.floor(i / 60) % 60)}:${two(i % 60)}`;
const instant = (i: number, digits: string): string =>
  `${new Date(Date.UTC(2000, 0, 1) + i * 1000).toISOString().slice(0, 19)}${digits}Z`;
const hex = (text: string): string => Buffer.from(text).toString("hex");
const binary = (i: number): string => i.toString(2).padStart(17, "0");
/** DuckDB's bytes of a BIT: how many bits pad the first byte, then the bits behind ones. */
const bitBytes = (i: number): string =>
  `07${BigInt(`0b${"1".repeat(7)}${binary(i)}`)
    .toString(16)
    .padStart(6, "0")}`;
const pointBytes = (x: number): string => {
  const wkb = Buffer.alloc(21);
  wkb.writeUInt8(1, 0);
  wkb.writeUInt32LE(1, 1);
  wkb.writeDoubleLE(x, 5);
  wkb.writeDoubleLE(2, 13);
  return wkb.toString("hex");
};
const stamp = "TIMESTAMP '2000-01-01' + to_seconds(i)";
const time = "TIME '00:00:00' + to_seconds(i % 86400)";
const numbers = ["TINYINT", "SMALLINT", "INTEGER", "BIGINT"].flatMap((name, k): Sample[] => [
  {
    logical: name,
    sql: `CAST(i % 100 - 50 AS ${name})`,
    arrow: `Int${8 << k}`,
    text: (i) => String((i % 100) - 50),
  },
  {
    logical: `U${name}`,
    sql: `CAST(i % 200 AS U${name})`,
    arrow: `Uint${8 << k}`,
    text: (i) => String(i % 200),
  },
]);
const decimals = [
  [4, 2],
  [9, 3],
  [18, 5],
  [38, 10],
].map(([width = 0, scale = 0]): Sample => ({
  logical: "DECIMAL",
  sql: `CAST((i % 90 - 45) + 0.25 AS DECIMAL(${width}, ${scale}))`,
  arrow: `Decimal[${width}e+${scale}]`,
  text: (i) => ((i % 90) - 45 + 0.25).toFixed(scale),
}));

const samples: readonly Sample[] = [
  ...numbers,
  ...decimals,
  { logical: "BOOLEAN", sql: "i % 3 = 0", arrow: "Bool", text: (i) => String(i % 3 === 0) },
  { logical: "FLOAT", sql: "CAST(i AS FLOAT) / 4", arrow: "Float32", text: (i) => String(i / 4) },
  { logical: "DOUBLE", sql: "CAST(i AS DOUBLE) / 8", arrow: "Float64", text: (i) => String(i / 8) },
  {
    logical: "HUGEINT",
    sql: "(CAST(i AS HUGEINT) % 7 - 3) * 2305843009213693953",
    arrow: "Int64",
    text: (i) => String(BigInt((i % 7) - 3) * (2n ** 61n + 1n)),
  },
  {
    logical: "LIST",
    sql: "[CAST('-10000000000000000000000000000000000000' AS HUGEINT) + i]",
    arrow: "List<Decimal[38e0]>",
    text: (i) => `[${String(-(10n ** 37n) + BigInt(i))}]`,
  },
  {
    // DuckDB's bytes: sign and length, then the magnitude.
    logical: "BIGNUM",
    sql: "CAST(i AS BIGNUM)",
    arrow: "Binary",
    text: (i) => {
      const magnitude = i.toString(16);
      const even = magnitude.length % 2 === 0 ? magnitude : `0${magnitude}`;
      return `8000${two(even.length / 2)}${even}`;
    },
  },
  {
    logical: "VARCHAR",
    sql: "repeat('ä', i % 9) || i",
    arrow: "Utf8",
    text: (i) => `${"ä".repeat(i % 9)}${i}`,
  },
  {
    logical: "BLOB",
    sql: "encode('a blob of some length ' || i)",
    arrow: "Binary",
    text: (i) => hex(`a blob of some length ${i}`),
  },
  {
    logical: "BIT",
    sql: "CAST(lpad(bin(i), 17, '0') AS BIT)",
    arrow: "Binary",
    text: bitBytes,
  },
  {
    logical: "UUID",
    sql: "CAST('f0000000-0000-0000-0000-' || lpad(CAST(i AS VARCHAR), 12, '0') AS UUID)",
    arrow: "Utf8",
    text: (i) => `f0000000-0000-0000-0000-${String(i).padStart(12, "0")}`,
  },
  {
    logical: "ENUM",
    sql: "CAST(['green', 'red', ''][1 + i % 3] AS ENUM('red', '', 'green'))",
    arrow: "Dictionary<Uint8, Utf8>",
    text: (i) => ["green", "red", ""][i % 3] ?? "",
  },
  {
    logical: "DATE",
    sql: "DATE '2000-01-01' + CAST(i % 5000 AS INTEGER)",
    arrow: "Date32<DAY>",
    text: day,
  },
  {
    logical: "TIME",
    sql: time,
    arrow: "Time64<MICROSECOND>",
    text: (i) => `${clock(i % 86_400)}.000000`,
  },
  {
    logical: "TIME_NS",
    sql: `CAST(${time} AS TIME_NS)`,
    arrow: "Time64<NANOSECOND>",
    text: (i) => `${clock(i % 86_400)}.000000000`,
  },
  {
    logical: "TIME WITH TIME ZONE",
    sql: `CAST(CAST(${time} AS VARCHAR) || '+02:30' AS TIMETZ)`,
    arrow: "Time64<MICROSECOND>",
    text: (i) => `${clock(i % 86_400)}.000000`,
  },
  {
    logical: "TIMESTAMP_S",
    sql: `CAST(${stamp} AS TIMESTAMP_S)`,
    arrow: "Timestamp<SECOND>",
    text: (i) => instant(i, ""),
  },
  {
    logical: "TIMESTAMP_MS",
    sql: `CAST(${stamp} AS TIMESTAMP_MS)`,
    arrow: "Timestamp<MILLISECOND>",
    text: (i) => instant(i, ".000"),
  },
  {
    logical: "TIMESTAMP",
    sql: stamp,
    arrow: "Timestamp<MICROSECOND>",
    text: (i) => instant(i, ".000000"),
  },
  {
    logical: "TIMESTAMP_NS",
    sql: "make_timestamp_ns(946684800000000007 + i * 1000000000)",
    arrow: "Timestamp<NANOSECOND>",
    text: (i) => instant(i, ".000000007"),
  },
  {
    logical: "TIMESTAMP WITH TIME ZONE",
    sql: "TIMESTAMPTZ '2000-01-01 02:00:00+02' + to_seconds(i)",
    arrow: "Timestamp<MICROSECOND, UTC>",
    text: (i) => instant(i, ".000000"),
  },
  {
    logical: "INTERVAL",
    sql: "to_months(CAST(1 + i % 7 AS INTEGER)) + to_days(CAST(i % 40 AS INTEGER)) + to_microseconds(1 + i)",
    arrow: "Interval<MONTH_DAY_NANO>",
    text: (i) =>
      `P${1 + (i % 7)}M${i % 40 === 0 ? "" : `${i % 40}D`}T${Math.floor((i + 1) / 1e6)}.${String(((i + 1) % 1e6) * 1000).padStart(9, "0")}S`,
  },
  {
    logical: "LIST",
    sql: "list_resize([CAST(i AS INTEGER), NULL, 7], i % 4)",
    arrow: "List<Int32>",
    text: (i) => JSON.stringify([i, null, 7, null].slice(0, i % 4)),
  },
  {
    logical: "ARRAY",
    sql: "CAST(i AS INTEGER), NULL",
    // There is no CASE of arrays.
    nullable: (sql) => `CAST(CASE WHEN i % ${nullEvery} = 3 THEN NULL ELSE [${sql}] END AS INTEGER[2])`,
    arrow: "FixedSizeList[2]<Int32>",
    text: (i) => `[${i},null]`,
  },
  {
    logical: "STRUCT",
    sql: "{'a': i, 'b': CASE WHEN i % 2 = 0 THEN 'even' END}",
    arrow: "Struct<{a:Int64, b:Utf8}>",
    text: (i) => `{"a":${i},"b":${i % 2 === 0 ? '"even"' : "null"}}`,
  },
  {
    logical: "MAP",
    sql: "MAP {'k' || i: i, 'l': NULL}",
    arrow: "Map<{key:Utf8, value:Int64}>",
    text: (i) => `{"k${i}":${i},"l":null}`,
  },
  {
    logical: "UNION",
    sql: "CASE WHEN i % 3 = 0 THEN CAST(union_value(num := i) AS UNION(num BIGINT, word VARCHAR)) ELSE CAST(union_value(word := 'w' || i) AS UNION(num BIGINT, word VARCHAR)) END",
    arrow: "Union<Int64 | Utf8>",
    text: (i) => (i % 3 === 0 ? String(i) : `w${i}`),
  },
  {
    logical: "GEOMETRY",
    sql: "CAST('POINT(' || i || ' 2)' AS GEOMETRY)",
    arrow: "Binary",
    text: pointBytes,
  },
  {
    logical: "LIST",
    sql: "[{'m': MAP {'e': [CAST('x' || i % 2 AS ENUM('x0', 'x1')), NULL]}, 'u': CAST(union_value(d := CAST(1.5 AS DECIMAL(3, 1))) AS UNION(d DECIMAL(3, 1), t VARCHAR))}, NULL]",
    arrow: "List<Struct<{m:Map<{key:Utf8, value:List<Dictionary<Uint8, Utf8>>}>, u:Union<Decimal[3e+1] | Utf8>}>>",
    text: (i) => `[{"m":{"e":["x${i % 2}",null]},"u":1.5},null]`,
  },
  {
    logical: "UNION",
    sql: "CAST(union_value(l := [union_value(e := CAST('b' AS ENUM('a', 'b')))]) AS UNION(l UNION(e ENUM('a', 'b'))[], n INTEGER))",
    arrow: "Union<List<Union<Dictionary<Uint8, Utf8>>> | Int32>",
    text: () => '["b"]',
  },
];

/** Types of duckdb_types() that no query returns: they have no values, the gate refuses them, or the engine does. */
const valueless = ["NULL", "TYPE", "VARIANT", "UHUGEINT"];

const from = (rows: number): string => `FROM range(${rows}) r(i)`;
const value = ({ sql, nullable }: Sample): string =>
  nullable === undefined ? `CASE WHEN i % ${nullEvery} = 3 THEN NULL ELSE ${sql} END` : nullable(sql);

function wrongRows(table: Table, column: string, rows: number, text: (i: number) => string): string[] {
  const wrong: string[] = [];
  let i = 0;
  for (const data of table.getChild(column)?.data ?? []) {
    const read = cellReader(data);
    for (let row = 0; row < data.length; row++, i++) {
      const found = cellText(read(row));
      const wanted = i % nullEvery === 3 ? null : text(i);
      if (found !== wanted && wrong.length < 3) {
        wrong.push(`${i}: ${found} instead of ${wanted}`);
      }
    }
  }
  if (i !== rows) {
    wrong.push(`${i} rows`);
  }
  return wrong;
}

describe.each(rowPaths)("types of results, %s", (_, isInPlace) => {
  beforeAll(() => {
    inPlace = isInPlace;
  });

  it("are those that the installed DuckDB has", async () => {
    const { results } = await engine.run([
      { kind: "rows", sql: "SELECT DISTINCT logical_type FROM duckdb_types()", maxBytes: 10_000 },
    ]);
    const known = new Set([...samples.map(({ logical }) => logical), ...valueless]);
    const names = results[0]?.rows?.map(([name]) => String(name)) ?? [];
    expect(names.filter((name) => !known.has(name))).toEqual([]);
    expect([...known].filter((name) => !names.includes(name))).toEqual([]);
  });

  it.each(samples)("$logical as $arrow: $sql", async (sample) => {
    for (const [rows, messageBytes] of [
      [11, 1 << 20],
      [5000, 1000],
      [70_000, 1 << 20],
    ] as const) {
      const table = await query(`SELECT ${value(sample)} AS v ${from(rows)}`, messageBytes);
      expect(String(table.schema.fields[0]?.type)).toBe(sample.arrow);
      const { type } = table.schema.fields[0] ?? {};
      expect(DataType.isUnion(type) ? type.mode : UnionMode.Sparse).toBe(UnionMode.Sparse);
      expect(wrongRows(table, "v", rows, sample.text)).toEqual([]);
    }
  });

  it("of all kinds in one result, filtered and sorted, keep their rows apart", async () => {
    const rows = 4000;
    const columns = samples.map((sample, k) => `${value(sample)} AS c${k}`);
    const table = await query(
      `SELECT * FROM (SELECT i, ${columns.join(", ")} ${from(rows * 2)}) WHERE i < ${rows} ORDER BY i`,
    );
    const wrong = samples.flatMap(({ text }, k) => wrongRows(table, `c${k}`, rows, text));
    expect(wrong).toEqual([]);
  });

  it("of numbers alone keep their rows and nulls apart in chunks that a filter has thinned out", async () => {
    for (const [every, messageBytes] of [
      [10, 1 << 20],
      [3, 1000],
      [2, 1 << 20],
    ] as const) {
      const table = await query(
        `SELECT CASE WHEN i % 7 = 0 THEN NULL ELSE i END AS v, i::INTEGER AS i FROM range(30_000) t(i) WHERE i % ${every} <> 0`,
        messageBytes,
      );
      const expected = Array.from({ length: 30_000 }, (_, i) => i).filter((i) => i % every !== 0);
      expect(Array.from(table.getChild("i") ?? [], Number)).toEqual(expected);
      expect(Array.from(table.getChild("v") ?? [], (v) => (v === null ? null : Number(v)))).toEqual(
        expected.map((i) => (i % 7 === 0 ? null : i)),
      );
    }
  });

  it("are told before the rows, and when there are none: schemas of inspection and result agree", async () => {
    const columns = samples.map((sample, k) => `${value(sample)} AS c${k}`);
    for (const rows of [0, 3]) {
      const sql = `SELECT ${columns.join(", ")} ${from(rows)}`;
      const { messages } = await stream(sql);
      const { results } = await engine.run([{ kind: "describe", sql }]);
      const { header } = splitFlightData(messages[0] ?? new Uint8Array(0));
      expect(Buffer.from(header).toString("base64")).toBe(results[0]?.schema);
    }
    const empty = await query(`SELECT ${columns.join(", ")} ${from(0)}`);
    expect(empty.numRows).toBe(0);
    expect(empty.schema.fields.map(({ type }) => String(type))).toEqual(samples.map(({ arrow }) => arrow));
  });

  it("that only DuckDB understands say so in the field's metadata", async () => {
    const { schema } = await query(
      "SELECT 1::BIGNUM AS bignum, 'POINT(1 2)'::GEOMETRY AS geometry, [2::BIGNUM] AS nested",
    );
    const [bignum, geometry, nested] = schema.fields;
    const opaque = {
      "ARROW:extension:name": "arrow.opaque",
      "ARROW:extension:metadata": '{"type_name":"bignum","vendor_name":"DuckDB"}',
    };
    expect(Object.fromEntries(bignum?.metadata ?? [])).toEqual(opaque);
    expect(Object.fromEntries(nested?.type.children[0].metadata ?? [])).toEqual(opaque);
    expect(geometry?.metadata.get("ARROW:extension:name")).toBe("geoarrow.wkb");
  });

  it.each([
    "1::UHUGEINT",
    "NULL::UHUGEINT",
    "md5_number('a')",
    "[1::UHUGEINT]",
    "[[1::UHUGEINT]::UHUGEINT[1]]",
    "{'a': 1, 'b': {'c': 340282366920938463463374607431768211455}}",
    "MAP {1::UHUGEINT: 'x'}",
    "MAP {'x': 1::UHUGEINT}",
    "union_value(n := 1::UHUGEINT)",
  ])("%s is a number that Arrow would make negative: the column is named", async (sql) => {
    const sentence =
      'Not implemented Error: column "odd" is UHUGEINT, which Arrow has no type for; cast it to VARCHAR, DOUBLE or DECIMAL(38,0)';
    const { end, messages } = await stream(`SELECT 1 AS fine, ${sql} AS odd`);
    expect(end).toMatchObject({ kind: "duckdb", error: sentence });
    expect(messages).toEqual([]);
    const { end: described } = await engine.run([{ kind: "describe", sql: `SELECT ${sql} AS odd` }]);
    expect(described.error).toBe(sentence);
  });

  it.each(["9223372036854775807", "-9223372036854775808", "NULL"])("HUGEINT of %s has 64 bits", async (value) => {
    const column = (await query(`SELECT ${value}::HUGEINT AS n`)).getChild("n");
    expect(String(column?.get(0))).toBe(value.toLowerCase());
  });

  it.each([
    "9223372036854775808",
    "-9223372036854775809",
    "18446744073709551615",
    "170141183460469231731687303715884105727",
  ])("HUGEINT of %s is refused where it is a column, wherever it stands", async (value) => {
    const { end } = await stream(`SELECT CASE WHEN i = 4999 THEN ${value}::HUGEINT END AS odd FROM range(5000) t(i)`);
    expect(end).toMatchObject({
      kind: "duckdb",
      error: 'Out of Range Error: column "odd" has a value beyond 64 bits; cast it to DOUBLE, DECIMAL(38,0) or VARCHAR',
    });
  });

  it("a sum of integers is an int64, and nulls are none of its values", async () => {
    const table = await query(
      `SELECT i % 3 AS k, sum(CASE WHEN i % 3 > 0 THEN i END) AS total, sum(sum(i)) OVER () AS every
       FROM range(5000) t(i) GROUP BY k ORDER BY k`,
    );
    expect(table.schema.fields.map(({ type }) => String(type))).toEqual(["Int64", "Int64", "Int64"]);
    expect([...(table.getChild("total") ?? [])]).toEqual([null, 4167500n, 4164167n]);
    expect([...(table.getChild("every") ?? [])]).toEqual([12497500n, 12497500n, 12497500n]);
  });

  it.each(["NULL::TYPE", "[NULL::TYPE]", "sum(1) EXPORT_STATE"])(
    "%s has none in Arrow: the column is named",
    async (sql) => {
      const { end } = await stream(`SELECT 1 AS fine, ${sql} AS odd`);
      expect(end.kind).toBe("duckdb");
      expect(end.error).toMatch(/^Not implemented Error: .*"odd".*cast it to VARCHAR/u);
    },
  );
});

describe("enumerations", () => {
  it("of one kind share a dictionary, others have their own, with indices as wide as they need", async () => {
    const many = Array.from({ length: 300 }, (_, i) => `'v${i}'`).join(", ");
    const table = await query(
      `SELECT 'a'::ENUM('a', 'b') AS x, 'b'::ENUM('a', 'b') AS y, ['c'::ENUM('c')] AS z, 'v299'::ENUM(${many}) AS w`,
    );
    expect(table.schema.fields.map(({ type }) => String(type))).toEqual([
      "Dictionary<Uint8, Utf8>",
      "Dictionary<Uint8, Utf8>",
      "List<Dictionary<Uint8, Utf8>>",
      "Dictionary<Uint16, Utf8>",
    ]);
    const row = ["x", "y", "z", "w"].map((name) => {
      const data = table.getChild(name)?.data[0];
      return data === undefined ? null : cellText(cellReader(data)(0));
    });
    expect(row).toEqual(["a", "b", '["c"]', "v299"]);
    expect(table.schema.fields.map(({ type }) => DataType.isDictionary(type) && type.id)).toEqual([0, 0, false, 2]);
  });
});
