/** Prepared statements and their parameters, call by call. */
import { createHash } from "node:crypto";

import { status } from "@grpc/grpc-js";
import {
  Binary,
  BinaryView,
  Bool,
  DateMillisecond,
  type DataType,
  Decimal,
  Dictionary,
  DurationMicrosecond,
  DurationNanosecond,
  Field,
  FixedSizeBinary,
  FixedSizeList,
  Float16,
  Float64,
  Int32,
  Int64,
  Int8,
  LargeBinary,
  LargeUtf8,
  List,
  Null,
  RecordBatch,
  Schema,
  Table,
  tableFromIPC,
  TimestampMicrosecond,
  TimestampMillisecond,
  TimestampNanosecond,
  Uint16,
  Utf8,
  Utf8View,
} from "apache-arrow";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { startTestAnalytics, type TestAnalytics } from "../../helpers/servers/analytics.js";
import { addPartition } from "../../helpers/lake/lake.js";
import {
  any,
  decode,
  descriptor,
  encode,
  type FlightCalls,
  flightCalls,
} from "../../helpers/flight/flight-standard.js";
import {
  bindWith,
  command,
  flightData,
  type Prepared,
  prepareWith,
  rows,
  table,
} from "../../helpers/flight/prepared-statements.js";
import { until } from "../../helpers/until.js";
import { noon, noonMs } from "../../helpers/noon.js";

const shared = "a secret of all the servers";
const item = <T extends DataType>(type: T): Field<T> => new Field("item", type, true);

let t: TestAnalytics;
let calls: FlightCalls;

beforeAll(async () => {
  t = await startTestAnalytics({ SVC_ANALYTICS_TICKET_SECRET: shared });
  calls = flightCalls(t.port, t.key);
});

afterAll(async () => {
  calls.close();
  await t.stop();
});

const prepare = (query: string): Promise<Prepared> => prepareWith(calls, query);
const bind = (handle: Uint8Array, values: Table): Promise<Buffer> => bindWith(calls, handle, values);

describe("a prepared statement", () => {
  it("tells the schemas of its parameters and its result", async () => {
    const prepared = await prepare("SELECT msg, ? AS x FROM log_entries WHERE level = ? LIMIT ?");
    expect(prepared.parameters).toEqual(["1: Utf8", "2: Int32", "3: Int64"]);
    expect(prepared.columns).toEqual(["msg: Utf8", "x: Utf8"]);
    const schema = await calls.unary("GetSchema", descriptor(command(prepared.handle)));
    const { fields } = tableFromIPC(decode("SchemaResult", schema)["schema"] as Uint8Array).schema;
    expect(fields.map(({ name }) => name)).toEqual(["msg", "x"]);
  });

  it("runs with values of every kind that can be bound", async () => {
    const { handle } = await prepare(
      "SELECT $1 AS i, $2 AS s, $3 AS b, $4 AS d, $5 AS n, hex($6) AS x, epoch_ns($7) AS t",
    );
    const bound = await bind(
      handle,
      table(
        [-(2n ** 62n), new Int64()],
        ["o'clock 🕐", new Utf8()],
        [true, new Bool()],
        [0.1, new Float64()],
        [null, new Null()],
        [Uint8Array.of(0, 255), new Binary()],
        [noonMs, new TimestampNanosecond()],
      ),
    );
    const expected = [
      {
        i: -(2n ** 62n),
        s: "o'clock 🕐",
        b: true,
        d: 0.1,
        n: null,
        x: "00FF",
        t: noon,
      },
    ];
    expect(await rows(calls, bound)).toEqual(expected);
    // A client that does not know of the new handle goes on with the first one.
    expect(await rows(calls, handle)).toEqual(expected);
  });

  it("runs once for each row of values, and again with others", async () => {
    const { handle } = await prepare("SELECT ?::INTEGER * 2 AS v");
    const first = await bind(handle, table([[1, null, 3], new Int32()]));
    expect(await rows(calls, first)).toEqual([{ v: 2 }, { v: null }, { v: 6 }]);
    const second = await bind(first, table([[5], new Int32()]));
    expect(await rows(calls, second)).toEqual([{ v: 10 }]);
    expect(await rows(calls, first)).toEqual([{ v: 10 }]);
  });

  it("takes other values by the handle that holds the largest", async () => {
    const { handle } = await prepare("SELECT octet_length(?) AS n");
    const large = await bind(handle, table([new Uint8Array(1_000_000), new Binary()]));
    expect(large.length).toBeGreaterThan(1 << 20);
    const small = await bind(large, table([new Uint8Array(5), new Binary()]));
    expect(small.length).toBeLessThan(handle.length + 100);
    expect(await rows(calls, small)).toEqual([{ n: 5n }]);
    const again = await bind(large, table([new Uint8Array(1_000_000), new Binary()]));
    expect(await rows(calls, again)).toEqual([{ n: 1_000_000n }]);
  });

  it.each([
    ["SELECT date_part(?, TIMESTAMP '2020-01-01') AS v", ["year", "epoch"]],
    ["SELECT struct_extract({'a': 1, 'b': 'xyz'}, ?) AS v", ["a", "b"]],
    ["SELECT date_part([?], DATE '2020-01-01') AS v", ["year", "month"]],
    ["SELECT COLUMNS(?) FROM (SELECT 1 AS a, 2 AS b)", ["a", "a|b"]],
    ["SELECT json_transform('{\"a\": 1}', ?) AS v", ['{"a": "INTEGER"}', '{"a": "VARCHAR"}']],
  ])("%s: is refused when a later row gives other columns", async (sql, values) => {
    const { handle } = await prepare(sql);
    const bound = await bind(handle, table([values, new Utf8()]));
    await expect(rows(calls, bound)).rejects.toMatchObject({
      code: status.INVALID_ARGUMENT,
      details: expect.stringContaining("row 2 give other columns") as unknown,
    });
    const same = await bind(handle, table([[values[0], values[0]], new Utf8()]));
    expect(await rows(calls, same)).toHaveLength(2);
  });

  it("has the columns of the first row of values", async () => {
    const { handle } = await prepare("SELECT (SELECT count(*) FROM log_entries WHERE time > ?::TIMESTAMP)");
    const bound = await bind(handle, table([["2025-01-01", "2025-01-02"], new Utf8()]));
    const info = await calls.info(command(bound));
    const { schema, numRows } = await calls.read(info);
    expect(numRows).toBe(2);
    expect(schema.names).toEqual(tableFromIPC(info["schema"] as Uint8Array).schema.names);
  });

  it.each([
    "SELECT round(1.2345::DECIMAL(10,4), ?::INTEGER) AS v",
    "SELECT json_transform('{\"a\": 1}', ?) AS v",
    "SELECT date_part(?, DATE '2020-01-01') AS v",
    "SELECT struct_extract({'a': 1, 'b': 'x'}, ?) AS v",
  ])("%s: does not announce columns that depend on the values", async (sql) => {
    expect((await prepare(sql)).columns).toEqual([]);
  });

  it("is one query, whatever the number of rows: of one state of the lake, and with one record", async () => {
    const add = (): Promise<unknown> =>
      addPartition(t.lake, t.sql, {
        table: "log_entries",
        audience: "public",
        rowsSql: "SELECT make_timestamp_ns(i) AS time, 'm' AS msg FROM range(10) t(i)",
      });
    await add();
    const sql = "SELECT count(*) AS n, ? AS i FROM log_entries WHERE time >= make_timestamp_ns(?)";
    const { handle } = await prepare(sql);
    const times = Array.from({ length: 60 }, (_, i) => -1 - i);
    const bound = await bind(handle, table([times, new Int32()], [times, new Int32()]));
    const over = new AbortController();
    const adding = (async () => {
      while (!over.signal.aborted) {
        await add();
      }
    })();
    try {
      const found = (await rows(calls, bound)) as { n: bigint; i: number }[];
      expect(found.map(({ i }) => i)).toEqual(times);
      expect(new Set(found.map(({ n }) => n)).size).toBe(1);
    } finally {
      over.abort();
      await adding;
    }
    const logged = async () =>
      t.sql<{ rows: number; outcome: string }[]>`
        select row_count::int as rows, outcome from query_log where sql = ${sql}`;
    await until(async () => (await logged()).length > 0);
    expect(await logged()).toEqual([{ rows: 60, outcome: "OK" }]);
  });

  it("without values is refused until they are bound, and after it was closed", async () => {
    const { handle } = await prepare("SELECT ?::INTEGER");
    const unbound = { code: status.INVALID_ARGUMENT, details: /none are bound/u };
    const expected = { ...unbound, details: expect.stringMatching(unbound.details) as unknown };
    await expect(calls.info(command(handle))).rejects.toMatchObject(expected);
    await bind(handle, table([1, new Int32()]));
    expect(await rows(calls, handle)).toHaveLength(1);
    const close = any("ActionClosePreparedStatementRequest", { prepared_statement_handle: handle });
    expect(await calls.action("ClosePreparedStatement", close)).toEqual([]);
    await expect(calls.info(command(handle))).rejects.toMatchObject(expected);
  });

  it("names its columns by what the statement says, not by the values", async () => {
    const { handle, columns } = await prepare(`
      SELECT $1::INTEGER, upper($2), $1::INTEGER + 1, length($2) IN (SELECT length($3)), count(*), n."abs(CAST($4 AS INTEGER))"
      FROM (SELECT abs($4::INTEGER)) AS n GROUP BY ALL`);
    const names = [
      "CAST($1 AS INTEGER)",
      "upper($2)",
      "(CAST($1 AS INTEGER) + 1)",
      "(length($2) = ANY(SELECT length($3)))",
      "count_star()",
      "abs(CAST($4 AS INTEGER))",
    ];
    expect(columns.map((column) => column.replace(/: \S+$/u, ""))).toEqual(names);
    const secret = "x".repeat(100_000);
    const values = table(
      [[7, 8], new Int32()],
      [[secret, "b"], new Utf8()],
      [["c", "d"], new Utf8()],
      [[-4, -5], new Int32()],
    );
    const info = await calls.info(command(await bind(handle, values)));
    const { schema } = await calls.read(info);
    expect(schema.names).toEqual(names);
    expect(tableFromIPC(info["schema"] as Uint8Array).schema.names).toEqual(names);
  });

  it("has no schema while only values would tell it", async () => {
    const { handle, columns } = await prepare("SELECT ? + 1 AS x");
    expect(columns).toEqual([]);
    const schema = async (): Promise<Buffer> => calls.unary("GetSchema", descriptor(command(handle)));
    await expect(schema()).rejects.toMatchObject({
      code: status.INVALID_ARGUMENT,
      details: expect.stringMatching(/none are bound/u) as unknown,
    });
    await bind(handle, table([1, new Int32()]));
    const { fields } = tableFromIPC(decode("SchemaResult", await schema())["schema"] as Uint8Array).schema;
    expect(fields.map(({ name }) => name)).toEqual(["x"]);
  });

  it.each([
    ["too few", table([1, new Int32()])],
    ["too many", table([1, new Int32()], [1, new Int32()], [1, new Int32()])],
    ["none", new Table({})],
    ["text for a number", table(["1", new Utf8()], [1, new Int32()])],
    ["a boolean for a number", table([1, new Int32()], [true, new Bool()])],
    ["a dictionary", table([1, new Int32()], ["x", new Dictionary(new Utf8(), new Int32())])],
    ["no rows", table([[], new Int32()], [[], new Int32()])],
  ])("refuses values: %s", async (_name, values) => {
    const { handle } = await prepare("SELECT ?::INTEGER, ?::INTEGER");
    await expect(bind(handle, values)).rejects.toMatchObject({ code: status.INVALID_ARGUMENT });
  });

  it("refuses a second schema in the stream of its values", async () => {
    const { handle } = await prepare("SELECT ?");
    const messages = [table([1, new Int32()]), table(["x", new Utf8()])].flatMap((values) =>
      flightData(handle, values),
    );
    await expect(calls.duplex("DoPut", messages)).rejects.toMatchObject({
      code: status.INVALID_ARGUMENT,
      details: expect.stringMatching(/second schema/u) as unknown,
    });
  });

  it("refuses values out of range when it is run, and too many of them when they are bound", async () => {
    const { handle } = await prepare("SELECT ?::TINYINT");
    const bound = await bind(handle, table([1000n, new Int64()]));
    await expect(rows(calls, bound)).rejects.toMatchObject({ code: status.INVALID_ARGUMENT });
    const many = Array.from({ length: 1001 }, () => 1);
    await expect(bind(handle, table([many, new Int32()]))).rejects.toMatchObject({
      code: status.RESOURCE_EXHAUSTED,
    });
    const { handle: text } = await prepare("SELECT ?");
    const escaped = table(["\u0001".repeat(500_000), new Utf8()]);
    await expect(bind(text, escaped)).rejects.toMatchObject({
      code: status.RESOURCE_EXHAUSTED,
      details: expect.stringMatching(/as a handle/u) as unknown,
    });
    await expect(bind(text, table(["x".repeat(2 << 20), new Utf8()]))).rejects.toMatchObject({
      code: status.RESOURCE_EXHAUSTED,
    });
    await expect(bind(Buffer.alloc(2 << 20), table([1, new Int32()]))).rejects.toMatchObject({
      code: status.RESOURCE_EXHAUSTED,
      details: expect.stringMatching(/as a handle/u) as unknown,
    });
  });

  it("fits into the messages of a client with large values", async () => {
    const { handle } = await prepare("SELECT octet_length(?) AS n, md5(?) AS hash, md5(?) AS text");
    const bytes = Uint8Array.from({ length: 400_000 }, (_, i) => i % 251);
    const text = 'it\'s "quoted" \\ ü\n'.repeat(10_000);
    const md5 = (value: Uint8Array | string): string => createHash("md5").update(value).digest("hex");
    const bound = await bind(handle, table([bytes, new Binary()], [bytes, new Binary()], [text, new Utf8()]));
    const info = await calls.unary("GetFlightInfo", descriptor(command(bound)));
    expect(info.length).toBeLessThan(4 << 20);
    expect(await rows(calls, bound)).toEqual([{ n: 400_000n, hash: md5(bytes), text: md5(text) }]);
  });

  it("takes decimals that fit", async () => {
    const { handle } = await prepare("SELECT CAST(?::DECIMAL(10,3) AS VARCHAR) AS v");
    const bound = await bind(handle, table([Uint32Array.of(12_345, 0, 0, 0), new Decimal(3, 10, 128)]));
    expect(await rows(calls, bound)).toEqual([{ v: "12.345" }]);
  });
});

/** The type of a time as it is asked for. */
const inMilliseconds = (type: string): string =>
  type.replace(/^Time64<\w+/u, "Time32<MILLISECOND").replace(/^Timestamp<\w+/u, "Timestamp<MILLISECOND");

describe("a parameter", () => {
  it("of another kind is refused with a cast that takes it", async () => {
    const { handle } = await prepare("SELECT ?::VARCHAR AS v");
    await expect(bind(handle, table([7, new Int32()]))).rejects.toMatchObject({
      code: status.INVALID_ARGUMENT,
      details: expect.stringContaining("or cast what you bind: ?::INTEGER::VARCHAR.") as unknown,
    });
    const cast = await prepare("SELECT ?::INTEGER::VARCHAR AS v");
    expect(await rows(calls, await bind(cast.handle, table([7, new Int32()])))).toEqual([{ v: "7" }]);
  });

  it("beside a time is asked for in milliseconds, and as what it is cast to", async () => {
    const asked = async (condition: string): Promise<readonly string[]> =>
      (await prepare(`SELECT 1 AS one FROM log_entries WHERE ${condition}`)).parameters;
    expect(await asked("time >= ?")).toEqual(["1: Timestamp<MILLISECOND>"]);
    expect(await asked("time >= ?::TIMESTAMP")).toEqual(["1: Timestamp<MILLISECOND>"]);
    expect(await asked("time >= CAST($x AS DATE) AND msg = $y")).toEqual(["x: Date32<DAY>", "y: Utf8"]);
    expect(await asked("time >= ?::VARCHAR::TIMESTAMP")).toEqual(["1: Utf8"]);
  });

  it.each([
    ["list_contains(?, level)", table([[[2, null]], new List(item(new Int32()))])],
    ["level = ANY(?::INTEGER[])", table([[[2n, 9n]], new List(item(new Int64()))])],
    ["level IN (SELECT unnest(?))", table([[[1, 2]], new FixedSizeList(2, item(new Int32()))])],
    ["list_contains(?, msg)", table([[['a "b\\c", d', null]], new List(item(new Utf8()))])],
    ["list_contains(?, time)", table([[[noonMs]], new List(item(new TimestampMillisecond()))])],
  ])("is a list: %s", async (condition, values) => {
    const { handle } = await prepare(
      `SELECT count(*)::INTEGER AS n FROM (VALUES (TIMESTAMP_NS '2025-11-21 12:00:00', 2, 'a "b\\c", d'), (NULL, 3, 'x')) AS t(time, level, msg) WHERE ${condition}`,
    );
    expect(await rows(calls, await bind(handle, values))).toEqual([{ n: 1 }]);
  });

  it("that is a list takes empty ones and nulls", async () => {
    const { handle } = await prepare("SELECT len(?::VARCHAR[]) AS n");
    const values = table([[[], null, [null]], new List(item(new Utf8()))]);
    expect(await rows(calls, await bind(handle, values))).toEqual([{ n: 0n }, { n: null }, { n: 1n }]);
  });

  it.each(["INTEGER", "TIMESTAMP_NS", "BOOLEAN", "DECIMAL(9,2)", "VARCHAR"])(
    "that is a list of %s takes one whose values have no type",
    async (type) => {
      const { handle } = await prepare(`SELECT len(?::${type}[]) AS n`);
      const empty = table([[[]], new List(item(new Null()))]);
      expect(await rows(calls, await bind(handle, empty))).toEqual([{ n: 0n }]);
      for (const values of [new Utf8(), new Null()]) {
        const nulls = table([[[null, null]], new List(item<DataType>(values))]);
        expect(await rows(calls, await bind(handle, nulls))).toEqual([{ n: 2n }]);
      }
    },
  );

  it.each([
    [
      "lists of lists",
      table([[[[1]]], new List(item(new List(item(new Int32()))))]),
      /not taken: send numbers, .* or lists of numbers/u,
    ],
    ["lists of bytes", table([[[new Uint8Array(1)]], new List(item(new Binary()))]), /do not take/u],
    ["another kind", table([[["x"]], new List(item(new Utf8()))]), /does not take a VARCHAR\[\]/u],
  ])("that is a list refuses %s", async (_name, values, details) => {
    const { handle } = await prepare("SELECT ?::INTEGER[]");
    await expect(bind(handle, values)).rejects.toMatchObject({
      code: status.INVALID_ARGUMENT,
      details: expect.stringMatching(details) as unknown,
    });
  });

  it.each([
    ["BOOLEAN", "true"],
    ["TINYINT", "-128"],
    ["UBIGINT", "18446744073709551615"],
    ["HUGEINT", "-99999999999999999999999999999999999999"],
    ["UHUGEINT", "99999999999999999999999999999999999999"],
    ["DECIMAL(38,10)", "-1234567890.0123456789"],
    ["FLOAT", "0.5"],
    ["DOUBLE", "-1e-300"],
    ["VARCHAR", "ü"],
    ["UUID", "01234567-89ab-cdef-0123-456789abcdef"],
    ["BLOB", String.raw`\x00\xFFa`],
    ["DATE", "2024-02-29"],
    ["TIME", "23:59:59.999999"],
    ["TIME_NS", "23:59:59.999999999"],
    ["TIMESTAMP_S", "2024-02-29 12:34:56"],
    ["TIMESTAMP_MS", "2024-02-29 12:34:56.789"],
    ["TIMESTAMP", "2024-02-29 12:34:56.789012"],
    ["TIMESTAMP_NS", "2024-02-29 12:34:56.789012345"],
    ["TIMESTAMP WITH TIME ZONE", "2024-02-29 12:34:56.789012+00"],
    ["INTERVAL", "-1 months 40 days -25:00:00.000001"],
  ])("of type %s takes what it is announced as", async (type, text) => {
    const literal = `CAST('${text}' AS ${type})`;
    // No result is one, so it is announced as the decimal that it is cast to.
    const shown = type.endsWith("HUGEINT") ? `CAST(${literal} AS DECIMAL(38,0))` : literal;
    const value = await calls.table(
      any("CommandStatementQuery", {
        query: `SELECT ${shown} AS "1", CAST(${literal} AS VARCHAR) AS v`,
      }),
    );
    const { handle, parameters } = await prepare(`SELECT CAST(x AS VARCHAR) AS v FROM (SELECT ?::${type} AS x)`);
    const column = value.select(["1"]);
    expect(parameters).toEqual(
      column.schema.fields.map((field) => `${field.name}: ${inMilliseconds(String(field.type))}`),
    );
    const bound = await bind(handle, column);
    expect(await rows(calls, bound)).toEqual([{ v: value.getChild("v")?.get(0) as unknown }]);
  });

  it.each([
    ["INTERVAL", table(["1 month 2 days", new Utf8()]), "1 month 2 days"],
    ["INTERVAL", table([-1_500_000n, new DurationMicrosecond()]), "-00:00:01.5"],
    ["TIME", table(["12:34", new Utf8()]), "12:34:00"],
  ])("of type %s takes text and durations", async (type, value, expected) => {
    const { handle } = await prepare(`SELECT CAST(x AS VARCHAR) AS v FROM (SELECT ?::${type} AS x)`);
    expect(await rows(calls, await bind(handle, value))).toEqual([{ v: expected }]);
  });

  const noon = 1_709_208_000_000;
  const day = 1_709_164_800_000;

  it.each([
    ["milliseconds of whole days", table([day, new DateMillisecond()]), "DATE", "2024-02-29"],
    ["milliseconds within a day", table([noon, new DateMillisecond()]), "TIMESTAMP_MS", "2024-02-29 12:00:00"],
    ["an instant, as UTC", table([noon, new TimestampMicrosecond("Asia/Tokyo")]), "TIMESTAMP", "2024-02-29 12:00:00"],
  ])("that says no type has that of its value: %s", async (_name, value, type, text) => {
    const { handle } = await prepare("SELECT typeof(x) AS t, x::VARCHAR AS v FROM (SELECT ? AS x)");
    expect(await rows(calls, await bind(handle, value))).toEqual([{ t: type, v: text }]);
  });

  it("that is an instant compares with the times of the lake", async () => {
    const { handle } = await prepare(
      "SELECT count(*) AS n FROM log_entries WHERE time >= ? - INTERVAL '1 hour' AND time < ?",
    );
    const instant = [noon, new TimestampMicrosecond("Europe/Berlin")] as const;
    expect(await rows(calls, await bind(handle, table(instant, instant)))).toEqual([{ n: 0n }]);
  });

  const texts = ["short", null, "longer than what fits into a view", "", "ü🕐 longer than that, too"];

  it.each([
    ["LargeUtf8", () => new LargeUtf8()],
    ["Utf8View", () => new Utf8View()],
    ["Dictionary", () => new Dictionary(new Utf8(), new Int8())],
    ["Dictionary of large texts", () => new Dictionary(new LargeUtf8(), new Uint16())],
    ["Dictionary of views", () => new Dictionary(new Utf8View(), new Int32())],
  ])("takes texts as %s", async (_name, typeOf) => {
    const { handle } = await prepare("SELECT ? AS v, ? AS w");
    const values = table([texts, typeOf()], [texts.toReversed(), typeOf()]);
    const found = await rows(calls, await bind(handle, values));
    expect(found).toEqual(texts.map((v, i) => ({ v, w: texts.at(-1 - i) })));
  });

  it("takes bytes with large offsets and as views, and floats of 16 bits", async () => {
    const { handle } = await prepare("SELECT hex(?) AS a, hex(?) AS b, ? AS f, ? AS g");
    const values = table(
      [Uint8Array.of(0, 255), new LargeBinary()],
      [new Uint8Array(20).fill(7), new BinaryView()],
      [-0.25, new Float16()],
      [2 ** -24, new Float16()],
    );
    expect(await rows(calls, await bind(handle, values))).toEqual([
      { a: "00FF", b: "07".repeat(20), f: -0.25, g: 2 ** -24 },
    ]);
  });

  it("takes UUIDs as text, also in lists, and other values of 16 bytes as bytes", async () => {
    const { handle } = await prepare(
      "SELECT ? AS u, list_contains(?, '00010203-0405-0607-0809-0a0b0c0d0eff') AS c, ? AS b",
    );
    const bytes = Uint8Array.from({ length: 16 }, (_, i) => (i === 15 ? 255 : i));
    const type = new FixedSizeBinary(16);
    const uuid = new Map([["ARROW:extension:name", "arrow.uuid"]]);
    const listed = new List(new Field("item", type, true, uuid));
    const { schema, batches } = table([bytes, type], [[[bytes]], listed], [bytes, type]);
    const [, ...others] = schema.fields;
    const marked = new Schema([new Field("1", type, true, uuid), ...others]);
    const values = new Table(marked, ...batches.map(({ data }) => new RecordBatch(marked, data)));
    expect(await rows(calls, await bind(handle, values))).toEqual([
      { u: "00010203-0405-0607-0809-0a0b0c0d0eff", c: true, b: bytes },
    ]);
  });

  it.each([32, 64] as const)("takes decimals of %s bits", async (bits) => {
    const { handle } = await prepare("SELECT CAST(x AS VARCHAR) AS v FROM (SELECT ? AS x)");
    const words = Uint32Array.of(-12_345, ...(bits === 64 ? [-1] : []));
    const bound = await bind(handle, table([words, new Decimal(3, 9, bits)]));
    expect(await rows(calls, bound)).toEqual([{ v: "-12.345" }]);
  });

  it("takes dictionaries that grow and are replaced between batches", async () => {
    const type = new Dictionary(new Utf8(), new Int32());
    const { handle } = await prepare("SELECT ? AS v");
    const batches = [["a"], ["b", "a"], ["c"]].map((values) => table([values, type]));
    const messages = batches.flatMap((batch, i) => flightData(handle, batch).filter((_, at) => i === 0 || at > 0));
    const [result] = await calls.duplex("DoPut", messages);
    expect(result).toBeDefined();
    expect((await rows(calls, handle)).map((row) => (row as { readonly v: string }).v)).toEqual(["a", "b", "a", "c"]);
  });

  it("refuses values that many rows share when they are long as text", async () => {
    const { handle } = await prepare("SELECT ?");
    const shared = Array.from({ length: 1000 }, () => "x".repeat(10_000));
    const values = table([shared, new Dictionary(new Utf8(), new Int32())]);
    await expect(bind(handle, values)).rejects.toMatchObject({ code: status.RESOURCE_EXHAUSTED });
  });

  it.each([
    ["INTERVAL", table([1n, new DurationNanosecond()]), /finer than a microsecond/u],
    ["UHUGEINT", table([new Uint32Array(8).fill(1), new Decimal(1, 39, 256)]), /38 digits/u],
    ["INTERVAL", table([1, new Int32()]), /does not take a INTEGER/u],
  ])("of type %s refuses what it would change", async (type, value, details) => {
    const { handle } = await prepare(`SELECT CAST(x AS VARCHAR) AS v FROM (SELECT ?::${type} AS x)`);
    await expect(bind(handle, value)).rejects.toMatchObject({
      code: status.INVALID_ARGUMENT,
      details: expect.stringMatching(details) as unknown,
    });
  });
});

describe("servers behind a balancer", () => {
  /** A statement and its values from one server, and another server. */
  async function meet(secret: string, test: (there: FlightCalls, bound: Buffer) => Promise<void>) {
    const { handle } = await prepare("SELECT ?::INTEGER + 1 AS v");
    const bound = await bind(handle, table([41, new Int32()]));
    const other = await t.another({ SVC_ANALYTICS_TICKET_SECRET: secret });
    const there = flightCalls(other.port, t.key);
    try {
      await test(there, bound);
    } finally {
      there.close();
      await other.stop();
    }
  }

  it("that share a secret serve each other's tickets, statements and values", async () => {
    await meet(shared, async (there, bound) => {
      const info = await calls.info(command(bound));
      expect((await there.read(info)).get(0)?.toJSON()).toEqual({ v: 42 });
      expect(await rows(there, bound)).toEqual([{ v: 42 }]);
      // Nothing runs there; another server may know.
      await expect(there.action("CancelFlightInfo", encode("CancelFlightInfoRequest", { info }))).rejects.toMatchObject(
        { code: status.NOT_FOUND },
      );
    });
  });

  it("that do not share it refuse them", async () => {
    await meet("a secret of another group", async (there, bound) => {
      const info = await calls.info(command(bound));
      const refused = { code: status.INVALID_ARGUMENT };
      await expect(there.read(info)).rejects.toMatchObject(refused);
      await expect(rows(there, bound)).rejects.toMatchObject(refused);
    });
  });
});
