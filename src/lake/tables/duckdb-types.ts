/** The tables of the lake in DuckDB's words. */
import { quoteName } from "../../runtime/text/sql-text.js";
import { type ColumnDefinition, type LeafDefinition, type TableName, tables } from "./tables.js";

/** Columns of a view or table: names and DuckDB types. */
export type RowColumns = readonly (readonly [name: string, type: string])[];

/** Columns of a lake table as DuckDB types. */
export function columnsOfTable(table: TableName): RowColumns {
  return Object.entries(tables[table] as Record<string, ColumnDefinition>).map(
    ([name, column]) => [name, duckdbType(column)] as const,
  );
}

/** A column's type in DuckDB. */
export function duckdbType(column: ColumnDefinition): string {
  if (column.type !== "list") {
    return duckdbLeaf(column);
  }
  const children = Object.entries(column.children);
  const [only] = children;
  if (children.length === 1 && only !== undefined && only[0] === "element") {
    return `${duckdbLeaf(only[1])}[]`;
  }
  return `STRUCT(${children.map(([name, leaf]) => `${quoteName(name)} ${duckdbLeaf(leaf)}`).join(", ")})[]`;
}

/** A leaf's type in DuckDB. */
export function duckdbLeaf(leaf: LeafDefinition): string {
  switch (leaf.type) {
    case "timestamp_ns":
    case "run_timestamp_ns":
      return "TIMESTAMP_NS";
    case "int64":
    case "run_int64":
      return "BIGINT";
    case "uint64":
      return "UBIGINT";
    case "int32":
      return "INTEGER";
    case "float64":
      return "DOUBLE";
    case "bool":
      return "BOOLEAN";
    case "utf8":
    case "run_utf8":
      return "VARCHAR";
  }
}
