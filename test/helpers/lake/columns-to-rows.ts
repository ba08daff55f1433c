/** Turns column builders back into plain rows, for comparison in tests. */
import type { Column, LeafColumn } from "../../../src/lake/tables/columns.js";
import {
  type ColumnDefinition,
  type ListDefinition,
  type LeafDefinition,
  type TableName,
  tables,
} from "../../../src/lake/tables/tables.js";

/** null, boolean, number (int32, double), bigint (64-bit, timestamps), string, or a list of those or structs. */
export type Cell = null | boolean | number | bigint | string | readonly unknown[];

/** A row by column name. */
export type PlainRow = Record<string, Cell>;

function wordsToBigInt(words: Uint32Array, index: number, signed: boolean): bigint {
  const bits = (BigInt(words[2 * index + 1] ?? 0) << 32n) | BigInt(words[2 * index] ?? 0);
  return signed ? BigInt.asIntN(64, bits) : bits;
}

function leafValues(column: LeafColumn, definition: LeafDefinition): Cell[] {
  if (column.kind === "run") {
    return runValues(column, definition);
  }
  const { bitmap, rows } = column.validity;
  const cells: Cell[] = [];
  let value = 0;
  for (let row = 0; row < rows; row++) {
    const isValid = bitmap === null || ((bitmap[row >> 3] ?? 0) & (1 << (row & 7))) !== 0;
    cells.push(isValid ? leafValue(column, definition, value++) : null);
  }
  if (value !== column.values) {
    throw new Error(`${value} valid rows, but ${column.values} values`);
  }
  return cells;
}

function leafValue(column: Exclude<LeafColumn, { kind: "run" }>, definition: LeafDefinition, index: number): Cell {
  switch (column.kind) {
    case "int64":
      return wordsToBigInt(column.words, index, definition.type !== "uint64");
    case "int32":
      return column.data[index] ?? 0;
    case "float64":
      return new Float64Array(
        Uint32Array.of(column.words[2 * index] ?? 0, column.words[2 * index + 1] ?? 0).buffer,
      )[0] as number;
    case "bool":
      return column.data[index] === 1;
    case "utf8": {
      const start = index === 0 ? 0 : (column.ends[index - 1] ?? 0);
      const bytes = column.bytes.subarray(start, column.ends[index]);
      return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    }
  }
}

function runValues(column: Extract<LeafColumn, { kind: "run" }>, definition: LeafDefinition): Cell[] {
  const { dictionary } = column;
  const cells: Cell[] = [];
  for (let run = 0; run < column.runs; run++) {
    const index = column.runIndex[run] ?? -1;
    let cell: Cell = null;
    if (index >= 0) {
      const bytes = dictionary.bytes.slice(dictionary.start(index), dictionary.ends[index]);
      cell =
        definition.type === "run_utf8"
          ? new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes)
          : new DataView(bytes.buffer).getBigInt64(0, true);
    }
    for (let row = 0; row < (column.runRows[run] ?? 0); row++) {
      cells.push(cell);
    }
  }
  if (cells.length !== column.rows) {
    throw new Error(`${cells.length} rows in runs, not ${column.rows}`);
  }
  return cells;
}

function listValues(column: Extract<Column, { kind: "list" }>, definition: ListDefinition): Cell[] {
  const names = Object.keys(definition.children);
  const children = names.map((name) => {
    const child = column.children[name];
    const childDefinition = definition.children[name];
    if (child === undefined || childDefinition === undefined) {
      throw new Error(`no child ${name}`);
    }
    return leafValues(child, childDefinition);
  });
  const cells: Cell[] = [];
  for (let row = 0; row < column.rows; row++) {
    const elements: unknown[] = [];
    for (let at = row === 0 ? 0 : (column.ends[row - 1] ?? 0); at < (column.ends[row] ?? 0); at++) {
      elements.push(
        names.length === 1 && names[0] === "element"
          ? children[0]?.[at]
          : Object.fromEntries(names.map((name, index) => [name, children[index]?.[at]])),
      );
    }
    cells.push(elements);
  }
  return cells;
}

/** All rows of a table. Throws when its columns disagree on how many there are, or break a promise of columns.ts. */
export function columnsToRows(
  table: TableName,
  content: { readonly rows: number; readonly columns: object },
): PlainRow[] {
  const rows: PlainRow[] = Array.from({ length: content.rows }, () => ({}));
  for (const [name, definition] of Object.entries(tables[table]) as [string, ColumnDefinition][]) {
    const column = (content.columns as Record<string, Column>)[name];
    if (column === undefined) {
      throw new Error(`${table} has no column ${name}`);
    }
    if (column.rows !== content.rows) {
      throw new Error(`${table}.${name} has ${column.rows} rows instead of ${content.rows}`);
    }
    const cells =
      column.kind === "list"
        ? listValues(column, definition as ListDefinition)
        : leafValues(column, definition as LeafDefinition);
    cells.forEach((cell, row) => {
      const target = rows[row];
      if (target !== undefined) {
        target[name] = cell;
      }
      if (cell === null && "nullable" in definition && !definition.nullable) {
        throw new Error(`${table}.${name} is null in row ${row}`);
      }
    });
  }
  return rows;
}
