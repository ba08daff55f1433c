/** Cells of a result by the names of its columns. */
import type { Value } from "../arrow/column.js";
import type { QueryResult } from "./query.js";

interface Cells {
  /** Null where there is no such column. */
  readonly value: (name: string, row: number) => Value;
  /** Empty for null, and where there is no such column. */
  readonly text: (name: string, row: number) => string;
  /** NaN where there is none. */
  readonly number: (name: string, row: number) => number;
}

export function cellsOf(result: QueryResult): Cells {
  const columns = new Map(result.columns.map((column) => [column.name, column]));
  return {
    value: (name, row) => columns.get(name)?.value(row) ?? null,
    text: (name, row) => columns.get(name)?.text(row) ?? "",
    number: (name, row) => columns.get(name)?.number(row) ?? Number.NaN,
  };
}
