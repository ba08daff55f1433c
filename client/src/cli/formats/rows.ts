/** Rows of JSON as an aligned table, and one object as a list of its fields. */
import { escapeControls } from "../../shared/escape-controls.js";
import { type GridColumn, layOut } from "./grid.js";
import { textWidth } from "./text-width.js";

/** A column of {@link rowsTable}. */
export interface RowColumn extends GridColumn {
  readonly value: (row: Readonly<Record<string, unknown>>) => unknown;
}

/** @param terminalColumns width of the terminal, or null when nothing is to be cut. */
export function rowsTable(
  columns: readonly RowColumn[],
  rows: readonly Readonly<Record<string, unknown>>[],
  terminalColumns: number | null,
): string {
  const cells = rows.map((row) => columns.map((column) => cellText(column.value(row))));
  const { head, line } = layOut(columns, cells, terminalColumns);
  return `${[head, ...cells.map(line)].join("\n")}\n`;
}

/** One line per field; a list becomes `a, b`. */
export function fieldList(value: Readonly<Record<string, unknown>>): string {
  const entries = Object.entries(value);
  const width = Math.max(0, ...entries.map(([name]) => textWidth(name)));
  return entries
    .map(([name, field]) => `${escapeControls(name).padEnd(width)}  ${cellText(field)}`.trimEnd())
    .map((line) => `${line}\n`)
    .join("");
}

function cellText(value: unknown): string {
  if (value === null || value === undefined) {
    return "";
  }
  if (Array.isArray(value)) {
    return value.map(cellText).join(", ");
  }
  if (typeof value === "string") {
    return escapeControls(value);
  }
  return escapeControls(JSON.stringify(value));
}
