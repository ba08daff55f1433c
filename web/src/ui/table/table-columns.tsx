/** Columns of tables, and those that a result of a query makes. */
import type { ReactNode } from "react";

import type { QueryResult } from "../../api/query.js";
import type { Column, Value } from "../../arrow/column.js";
import type { ColumnType } from "../../arrow/column-data.js";
import { formatDate, formatDuration, formatNumber, formatTime, formatTimeExact, nothing } from "../format.js";

interface Brief {
  readonly width: number;
  readonly text: (whole: string) => string;
}

/** Of a time: without year and seconds; of a clock: without the fraction. */
export const briefTime: Brief = {
  width: 104,
  text: (whole) => whole.replace(/^\d{4}-(\S+ \d\d:\d\d).*/, "$1").replace(/\.\d+$/, ""),
};

/** A column of a table with rows 0 to n. */
export interface TableColumn {
  /** Unique in its table, and in the address. */
  readonly id: string;
  readonly title: string;
  /** Pixels at first. */
  readonly width?: number;
  /** Pixels in a narrow table, at the expense of columns right of it; what tells rows apart needs them. */
  readonly leastWidth?: number;
  /** Stays, when a narrow table has no room for all; so does the first. */
  readonly keep?: boolean;
  /** What is shown of the text where there is no room for all of it, and its pixels. */
  readonly brief?: Brief;
  readonly align?: "left" | "right";
  /** Set in the font for data. */
  readonly mono?: boolean;
  /** The cell as text: shown, copied, filtered by. Null: there is no value. */
  readonly text: (row: number) => string | null;
  /** Shown in place of the text. */
  readonly cell?: (row: number) => ReactNode;
  /** Shown when the cell is pointed at; the text unless given. */
  readonly hint?: (row: number) => string | null;
  /** What rows are sorted by; left out: they cannot be. */
  readonly sortBy?: (row: number) => string | number | bigint | null;
  /** The value that F and X filter by, when it is not the text. */
  readonly filterValue?: (row: number) => string | null;
}

/** How columns of numbers look. */
export const figures = { align: "right", mono: true } as const satisfies Partial<TableColumn>;

const shownCharacters = 400;

/** The columns of a result. `over` changes some of them, by name. */
export function resultColumns(
  result: QueryResult | null,
  over: Readonly<Record<string, Partial<TableColumn>>> = {},
): TableColumn[] {
  const columns = result?.columns ?? [];
  const ids = uniqueNames(columns);
  return columns.map((column, at) => {
    const id = ids[at] ?? column.name;
    return { ...ofColumn(column, id), ...over[id] };
  });
}

/** Names of columns; SQL gives several the same, of which the second becomes `name 2`. */
export function uniqueNames(columns: readonly { readonly name: string }[]): readonly string[] {
  const seen = new Map<string, number>();
  return columns.map(({ name }) => {
    const count = (seen.get(name) ?? 0) + 1;
    seen.set(name, count);
    return count === 1 ? name : `${name} ${count}`;
  });
}

function ofColumn(column: Column, id: string): TableColumn {
  const { type, name } = column;
  const numeric = isNumeric(type);
  const isTime = type.kind === "timestamp";
  const text = (row: number): string | null => cellText(column.value(row), type);
  return {
    id,
    title: name,
    width: widthOf(column),
    align: numeric ? "right" : "left",
    mono: numeric || type.kind !== "text" || isIdName(name),
    text: (row) => {
      const whole = text(row);
      return whole !== null && whole.length > shownCharacters ? `${whole.slice(0, shownCharacters)}…` : whole;
    },
    hint: (row) => {
      const value = column.value(row);
      return isTime && typeof value === "bigint" ? formatTimeExact(value) : (text(row)?.slice(0, 2000) ?? null);
    },
    filterValue: (row) => filterText(column.value(row), type),
    ...(isTime ? { brief: briefTime } : {}),
    ...(type.kind === "list" || type.kind === "struct" || type.kind === "map"
      ? {}
      : { sortBy: (row: number) => sortKey(column.value(row), type) }),
  };
}

export function isNumeric(type: ColumnType): boolean {
  return ["int", "float", "decimal", "duration"].includes(type.kind);
}

const isIdName = (name: string): boolean => /(?:_|^)id$/.test(name);

/** A guess from the type and the first rows. */
function widthOf(column: Column): number {
  if (column.type.kind === "timestamp") {
    return 194;
  }
  let characters = column.name.length + 3;
  for (let row = 0; row < Math.min(column.length, 30); row++) {
    characters = Math.max(characters, cellText(column.value(row), column.type)?.length ?? 0);
  }
  return Math.min(420, Math.max(70, Math.round(characters * 7.4) + 20));
}

/** A value as it is shown; null where there is none. */
export function cellText(value: Value, type: ColumnType): string | null {
  if (value === null) {
    return null;
  }
  if (type.kind === "dictionary") {
    return cellText(value, type.values);
  }
  if (typeof value === "bigint") {
    return bigintText(value, type);
  }
  if (typeof value === "number") {
    return type.kind === "int" || Math.abs(value) < 1e15 ? formatNumber(value) : String(value);
  }
  if (typeof value === "string" || typeof value === "boolean") {
    return String(value);
  }
  return value instanceof Uint8Array ? hex(value) : JSON.stringify(value, plain);
}

function bigintText(value: bigint, type: ColumnType): string {
  if (type.kind === "timestamp") {
    return formatTime(value, { digits: type.unit === "s" ? 0 : 3 });
  }
  if (type.kind === "date") {
    return formatDate(value);
  }
  if (type.kind === "time") {
    return formatTimeExact(value).slice(11, -1);
  }
  return type.kind === "duration" ? formatDuration(Number(value)) : formatNumber(value);
}

/** As SQL would write it, without quotes: for filters and variables. */
export function filterText(value: Value, type: ColumnType): string | null {
  if (typeof value === "bigint" && type.kind === "timestamp") {
    return formatTimeExact(value);
  }
  const isNumber = typeof value === "number" || typeof value === "bigint";
  return isNumber && type.kind !== "date" && type.kind !== "time" ? String(value) : cellText(value, type);
}

function sortKey(value: Value, type: ColumnType): string | number | bigint | null {
  if (type.kind === "decimal" && typeof value === "string") {
    return BigInt(value.replace(".", "")); // all cells of a column have as many digits behind the point
  }
  return typeof value === "boolean" ? Number(value) : typeof value === "object" ? null : value;
}

/** For JSON.stringify: what JSON has no form for becomes text. */
export function plain(_key: string, value: unknown): unknown {
  return typeof value === "bigint" ? value.toString() : value instanceof Uint8Array ? hex(value) : value;
}

function hex(bytes: Uint8Array): string {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** A cell, or the sign for none. */
export const shownText = (text: string | null): string => text ?? nothing;
