import {
  tableFromIPC,
  tableToIPC,
  Table,
  vectorFromArray,
  Utf8,
  Dictionary,
  Int32,
  RecordBatchReader,
  Decimal,
  Timestamp,
  TimeUnit,
  List,
  Field,
  Float64,
  makeData,
  Bool,
} from "apache-arrow";
import { expect, it } from "vitest";

import { Column } from "./column.js";
import { columnDataOf, fieldOf } from "./convert.js";

/** The columns of a table as the page has them, after a way through bytes. */
function columnsOf(table: Table, parts: number): Map<string, Column> {
  const columns = new Map<string, Column>();
  for (let part = 0; part < parts; part++) {
    const reader = RecordBatchReader.from(tableToIPC(table, "stream"));
    reader.open();
    for (const batch of reader) {
      batch.schema.fields.forEach((field, at) => {
        const column = columns.get(field.name) ?? new Column(field.name, fieldOf(field).type);
        columns.set(field.name, column);
        const data = batch.data.children[at];
        if (data !== undefined) {
          column.append(columnDataOf(data, new Map()));
        }
      });
    }
  }
  return columns;
}

function rows(column: Column | undefined): unknown[] {
  return Array.from({ length: column?.length ?? 0 }, (_, row) => column?.value(row));
}

it("reads what apache-arrow reads, over several batches and in any order", () => {
  const table = new Table({
    text: vectorFromArray(["a", null, "ü漢"], new Utf8()),
    word: vectorFromArray(["x", "y", "x"], new Dictionary(new Utf8(), new Int32())),
    number: vectorFromArray([1.5, null, -0.5], new Float64()),
    flag: vectorFromArray([true, false, null], new Bool()),
    whole: vectorFromArray([1n, 2n ** 60n, -3n]),
    time: vectorFromArray([1, 2, null], new Timestamp(TimeUnit.MILLISECOND)),
    list: vectorFromArray([[1, 2], null, []], new List(new Field("item", new Float64()))),
  });
  const columns = columnsOf(tableFromIPC(tableToIPC(table)), 2);
  expect(rows(columns.get("text"))).toEqual(["a", null, "ü漢", "a", null, "ü漢"]);
  expect(rows(columns.get("word"))).toEqual(["x", "y", "x", "x", "y", "x"]);
  expect(rows(columns.get("number"))).toEqual([1.5, null, -0.5, 1.5, null, -0.5]);
  expect(rows(columns.get("flag"))).toEqual([true, false, null, true, false, null]);
  expect(rows(columns.get("whole"))).toEqual([1, 2n ** 60n, -3, 1, 2n ** 60n, -3]);
  expect(rows(columns.get("time"))).toEqual([1_000_000n, 2_000_000n, null, 1_000_000n, 2_000_000n, null]);
  expect(rows(columns.get("list"))).toEqual([[1, 2], null, [], [1, 2], null, []]);
  expect([5, 0, 3, 2].map((row) => columns.get("text")?.value(row))).toEqual(["ü漢", "a", "a", "ü漢"]);
  expect([columns.get("text")?.value(-1), columns.get("text")?.value(6)]).toEqual([null, null]);
});

it("keeps the digits of decimals", () => {
  const type = new Decimal(2, 38, 128);
  const values = Uint32Array.of(12_345, 0, 0, 0, 0xffff_ffff, 0xffff_ffff, 0xffff_ffff, 0xffff_ffff);
  const column = new Column("d", fieldOf(new Field("d", type)).type);
  column.append(columnDataOf(makeData({ type, length: 2, data: values }), new Map()));
  expect(rows(column)).toEqual(["123.45", "-0.01"]);
  expect(column.number(0)).toBe(123.45);
});
