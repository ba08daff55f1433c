import {
  Binary,
  Bool,
  type DataType,
  DateDay,
  Decimal,
  Dictionary,
  Field,
  Float64,
  Int32,
  Int64,
  List,
  RecordBatch,
  Schema,
  Struct,
  TimestampNanosecond,
  Utf8,
  Vector,
  makeData,
  tableFromIPC,
  vectorFromArray,
} from "apache-arrow";
import { describe, expect, it } from "vitest";

import { cellJson, cellReader, cellText } from "../../src/values/arrow-values.js";
import { arrowStream } from "../../src/cli/formats/arrow.js";
import { csvFormat } from "../../src/cli/formats/csv.js";
import { expandedFormat } from "../../src/cli/formats/expanded.js";
import type { ResultFormat } from "../../src/cli/formats/format.js";
import { jsonFormat } from "../../src/cli/formats/json.js";
import { fitWidths } from "../../src/cli/formats/grid.js";
import { tableFormat } from "../../src/cli/formats/table.js";

type Columns = readonly (readonly [name: string, vector: Vector])[];

function batchOf(columns: Columns): RecordBatch {
  const fields = columns.map(([name, vector]) => new Field(name, vector.type as DataType, true));
  const children = columns.map(([, vector]) => {
    const data = vector.data[0];
    if (data === undefined) {
      throw new Error("a vector without data");
    }
    return data;
  });
  const data = makeData({ type: new Struct(fields), length: children[0]?.length ?? 0, children });
  return new RecordBatch(new Schema(fields), data);
}

function render(format: ResultFormat, batches: readonly RecordBatch[]): string {
  const schema = batches[0]?.schema ?? new Schema([]);
  return format.begin(schema) + batches.map((b) => format.batch(b)).join("") + format.end();
}

const ns = 1_732_186_800_123_456_789n;

function nanoseconds(values: readonly (bigint | null)[]): Vector {
  const data = BigInt64Array.from(values.map((v) => v ?? 0n));
  const bits = values.reduce((sum, v, i) => sum | (v === null ? 0 : 1 << i), 0);
  return new Vector([
    makeData({
      type: new TimestampNanosecond(),
      length: values.length,
      data,
      nullBitmap: Uint8Array.of(bits),
    }),
  ]);
}

const sample = batchOf([
  ["time", nanoseconds([ns, null])],
  ["level", vectorFromArray([4, 2], new Int32())],
  ["msg", vectorFromArray(['say "hi", you', "two\nlines\u001b[31m"], new Utf8())],
]);

describe("values of Arrow columns", () => {
  const read = (vector: Vector, row = 0): unknown => {
    const data = vector.data[0];
    if (data === undefined) {
      throw new Error("no data");
    }
    return cellReader(data)(row);
  };

  it("keep all nine digits of a nanosecond time", () => {
    expect(read(nanoseconds([ns]))).toBe("2024-11-21T11:00:00.123456789Z");
    expect(read(nanoseconds([-1n]))).toBe("1969-12-31T23:59:59.999999999Z");
  });

  it("keep every digit of 64-bit integers and decimals", () => {
    const max = 9_223_372_036_854_775_807n;
    expect(read(vectorFromArray([max], new Int64()))).toBe(max);
    const words = Uint32Array.of(0xffff_fb2e, 0xffff_ffff, 0xffff_ffff, 0xffff_ffff); // -1234
    const data = makeData({ type: new Decimal(2, 38), length: 1, data: words });
    const value = cellReader(data)(0);
    expect(cellText(value)).toBe("-12.34");
    expect(cellJson(value)).toBe("-12.34");
  });

  it("show binary as hex, dates as days, and nested values as JSON", () => {
    expect(read(vectorFromArray([Uint8Array.of(0, 0xab)], new Binary()))).toBe("00ab");
    expect(read(vectorFromArray([new Date("2026-11-21T00:00:00Z")], new DateDay()))).toBe("2026-11-21");
    const list = vectorFromArray([[1, null, 3]], new List(new Field("item", new Int32(), true)));
    expect(cellText(read(list) as never)).toBe("[1,null,3]");
    const struct = vectorFromArray(
      [{ a: 1, b: "x" }],
      new Struct([new Field("a", new Int32()), new Field("b", new Utf8())]),
    );
    expect(cellText(read(struct) as never)).toBe('{"a":1,"b":"x"}');
  });

  it("keep the fields of a struct that share a name, as those of row(1, 2) do", () => {
    const type = new Struct([new Field("", new Int32(), true), new Field("", new Int32(), true)]);
    const children = [1, 2].map((value) => makeData({ type: new Int32(), data: Int32Array.of(value) }));
    expect(cellJson(cellReader(makeData({ type, length: 1, children }))(0))).toBe('{"":1,"_2":2}');
  });

  it("keep the sign of a zero", () => {
    const read = cellReader(makeData({ type: new Float64(), data: Float64Array.of(-0, 0) }));
    expect([0, 1].map((row) => [cellText(read(row)), cellJson(read(row))])).toEqual([
      ["-0", "-0"],
      ["0", "0"],
    ]);
  });

  it("look dictionary columns up", () => {
    const vector = vectorFromArray(["b", "a", null, "b"], new Dictionary(new Utf8(), new Int32()));
    expect([0, 1, 2, 3].map((row) => read(vector, row))).toEqual(["b", "a", null, "b"]);
  });

  it("give JSON for numbers that JSON cannot write", () => {
    expect(cellJson(Number.NaN)).toBe('"NaN"');
    expect(cellJson(Number.NEGATIVE_INFINITY)).toBe('"-Infinity"');
  });
});

describe("the table format", () => {
  it("aligns columns, numbers to the right, shows nulls and escapes control characters", () => {
    expect(render(tableFormat(null), [sample])).toBe(
      [
        "time                           │ level │ msg",
        "───────────────────────────────┼───────┼───────────────────",
        '2024-11-21T11:00:00.123456789Z │     4 │ say "hi", you',
        "NULL                           │     2 │ two\\nlines\\x1b[31m",
        "",
      ].join("\n"),
    );
  });

  it("counts wide characters as two columns", () => {
    const batch = batchOf([
      ["a", vectorFromArray(["日本", "e\u0301x", "🙂"], new Utf8())],
      ["b", vectorFromArray(["1", "2", "3"], new Utf8())],
    ]);
    expect(render(tableFormat(null), [batch]).split("\n").slice(2, 5)).toEqual([
      "日本 │ 1",
      "e\u0301x   │ 2",
      "🙂   │ 3",
    ]);
  });

  it("cuts long cells on a narrow terminal and never elsewhere", () => {
    const long = "x".repeat(300);
    const batch = batchOf([
      ["id", vectorFromArray([1], new Int32())],
      ["msg", vectorFromArray([long], new Utf8())],
    ]);
    expect(render(tableFormat(null), [batch])).toContain(long);
    const lines = render(tableFormat(40), [batch]).trimEnd().split("\n");
    expect(lines.slice(1).map((line) => line.length)).toEqual([40, 40]);
    expect(lines[2]?.endsWith("…")).toBe(true);
  });

  it("pads no line to one long text, which shifts its own line", () => {
    const long = "x".repeat(100_000);
    const batch = batchOf([
      ["msg", vectorFromArray(["short", long], new Utf8())],
      ["n", vectorFromArray([1, 2], new Int32())],
    ]);
    const lines = render(tableFormat(null), [batch]).trimEnd().split("\n");
    expect(lines.map((line) => line.length)).toEqual([204, 204, 204, 100_004]);
    expect(lines.slice(2)).toEqual([`${"short".padEnd(200)} │ 1`, `${long} │ 2`]);
  });

  it("keeps no more than a megabyte of text before it prints", () => {
    const batch = batchOf([["msg", vectorFromArray(["x".repeat(600_000)], new Utf8())]]);
    const format = tableFormat(null);
    format.begin(batch.schema);
    expect([batch, batch, batch].map((each) => format.batch(each).length > 0)).toEqual([false, true, true]);
  });

  it("prints the heading of an empty result", () => {
    const empty = sample.slice(0, 0);
    expect(render(tableFormat(null), [empty])).toBe("time │ level │ msg\n─────┼───────┼────\n");
  });

  it("goes on printing rows beyond the sampled ones", () => {
    const numbers = vectorFromArray(
      Array.from({ length: 2500 }, (_, i) => i),
      new Int32(),
    );
    const lines = render(tableFormat(null), [batchOf([["n", numbers]])])
      .trimEnd()
      .split("\n");
    expect(lines).toHaveLength(2502);
    expect(lines.at(-1)?.trim()).toBe("2499");
  });

  it("shrinks only text columns, and of these only the widest", () => {
    const all = [true, true, true];
    expect(fitWidths([5, 10, 200], all, 60)).toEqual([5, 10, 39]);
    expect(fitWidths([5, 10, 20], all, 60)).toEqual([5, 10, 20]);
    expect(fitWidths([50, 50, 50], all, 4)).toEqual([6, 6, 6]);
    expect(fitWidths([30, 40, 200], [false, true, true], 80)).toEqual([30, 22, 22]);
    expect(fitWidths([30, 5], [false, true], 20)).toEqual([30, 5]);
  });
});

describe("the expanded format", () => {
  it("prints a line per value, and cuts nothing", () => {
    const batch = batchOf([
      ["short", vectorFromArray(["a\nb", null], new Utf8())],
      ["a longer name", vectorFromArray(["x".repeat(200), "é"], new Utf8())],
    ]);
    expect(render(expandedFormat(), [batch])).toBe(
      [
        "─ row 1 ─",
        "short         │ a\\nb",
        `a longer name │ ${"x".repeat(200)}`,
        "─ row 2 ─",
        "short         │ NULL",
        "a longer name │ é",
        "",
      ].join("\n"),
    );
  });
});

describe("the json format", () => {
  it("prints one object per line that JSON.parse reads back", () => {
    const lines = render(jsonFormat(), [sample, sample]).trimEnd().split("\n");
    expect(lines).toHaveLength(4);
    expect(JSON.parse(lines[0] ?? "")).toEqual({
      time: "2024-11-21T11:00:00.123456789Z",
      level: 4,
      msg: 'say "hi", you',
    });
    expect(JSON.parse(lines[3] ?? "")).toEqual({
      time: null,
      level: 2,
      msg: "two\nlines\u001b[31m",
    });
  });

  it("steers no terminal", () => {
    const batch = batchOf([["\u009b1m", vectorFromArray(["\u009b31m\u202e"], new Utf8())]]);
    expect(render(jsonFormat(), [batch])).toBe(String.raw`{"\u009b1m":"\u009b31m\u202e"}` + "\n");
  });

  it("writes all digits of a 64-bit integer", () => {
    const batch = batchOf([["n", vectorFromArray([9_007_199_254_740_993n], new Int64())]]);
    expect(render(jsonFormat(), [batch])).toBe('{"n":9007199254740993}\n');
  });

  it("keeps both of two columns that share a name", () => {
    const column = vectorFromArray([true], new Bool());
    const batch = batchOf([
      ["a", column],
      ["a", column],
      ["a_2", column],
    ]);
    expect(render(jsonFormat(), [batch])).toBe('{"a":true,"a_2":true,"a_2_2":true}\n');
  });
});

describe("the csv format", () => {
  it("quotes what RFC 4180 wants quoted and tells an empty text from a null", () => {
    const batch = batchOf([
      ["a,b", vectorFromArray(["", null, 'q"q', "l\nl", "plain"], new Utf8())],
      ["n", vectorFromArray([1.5, 2, 3, 4, 5], new Float64())],
    ]);
    expect(render(csvFormat("\r\n"), [batch])).toBe('"a,b",n\r\n"",1.5\r\n,2\r\n"q""q",3\r\n"l\nl",4\r\nplain,5\r\n');
    expect(render(csvFormat("\n"), [batch])).toBe('"a,b",n\n"",1.5\n,2\n"q""q",3\n"l\nl",4\nplain,5\n');
  });

  it("keeps what a spreadsheet would take for a formula", () => {
    const batch = batchOf([["a", vectorFromArray(["=1+1", "+1", "-5", "@a", "\tb"], new Utf8())]]);
    expect(render(csvFormat("\n"), [batch])).toBe("a\n=1+1\n+1\n-5\n@a\n\tb\n");
  });

  it("escapes what a terminal would do, and keeps it in a file", () => {
    const batch = batchOf([["\u001b[2J", vectorFromArray(["a\u001b]0;title\u0007", "l\nl"], new Utf8())]]);
    expect(render(csvFormat("\n", true), [batch])).toBe(String.raw`\x1b[2J
a\x1b]0;title\x07
l\nl
`);
    expect(render(csvFormat("\n"), [batch])).toBe('\u001b[2J\na\u001b]0;title\u0007\n"l\nl"\n');
  });
});

describe("the arrow format", () => {
  const collect = async (batches: readonly RecordBatch[], schema: Schema): Promise<Buffer> => {
    const pieces: Uint8Array[] = [];
    async function* source(): AsyncGenerator<RecordBatch> {
      yield* batches;
    }
    for await (const piece of arrowStream(schema, source())) {
      pieces.push(piece);
    }
    return Buffer.concat(pieces);
  };

  it("is an IPC stream that holds every batch", async () => {
    const dictionary = batchOf([["d", vectorFromArray(["x", "y", "x"], new Dictionary(new Utf8(), new Int32(), 7))]]);
    const table = tableFromIPC(await collect([dictionary, dictionary.slice(1, 3)], dictionary.schema));
    expect(table.toArray().map((row: { d: string }) => row.d)).toEqual(["x", "y", "x", "y", "x"]);
  });

  it("holds the schema of an empty result", async () => {
    const table = tableFromIPC(await collect([], sample.schema));
    expect(table.schema.names).toEqual(["time", "level", "msg"]);
    expect(table.numRows).toBe(0);
  });
});
