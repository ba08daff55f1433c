/** Rows of JSON as an aligned table, and one object as a list of its fields. */
import { escapeControls } from "../../shared/escape-controls.js";
import { isObject } from "../../shared/is-object.js";
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

/**
 * One line per field: a list becomes `a, b`, and the members of an object lines of their own, `report.notes`. A list of
 * objects becomes a table below, a column per member.
 */
export function fieldList(value: Readonly<Record<string, unknown>>): string {
  const fields = flatten(value);
  const plain = fields.filter(([, field]) => !isTable(field));
  const width = Math.max(0, ...plain.map(([name]) => textWidth(name)));
  return [
    ...plain.map(([name, field]) => `${escapeControls(name).padEnd(width)}  ${cellText(field)}`.trimEnd() + "\n"),
    ...fields.flatMap(([name, field]) =>
      isTable(field) ? [`\n${escapeControls(name)}\n`, rowsTable(columnsOf(field), field, null)] : [],
    ),
  ].join("");
}

function flatten(value: Readonly<Record<string, unknown>>): (readonly [name: string, field: unknown])[] {
  return Object.entries(value).flatMap(([name, field]) =>
    isObject(field)
      ? flatten(field).map(([member, of]) => [`${name}.${member}`, of] as const)
      : [[name, field] as const],
  );
}

function isTable(field: unknown): field is Readonly<Record<string, unknown>>[] {
  return Array.isArray(field) && field.length > 0 && field.every(isObject);
}

function columnsOf(rows: readonly Readonly<Record<string, unknown>>[]): RowColumn[] {
  const names = new Set(rows.flatMap((row) => Object.keys(row)));
  return Array.from(names, (name) => ({ title: name, value: (row) => row[name] }));
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
  if (isObject(value)) {
    return Object.entries(value)
      .map(([name, member]) => `${escapeControls(name)}=${cellText(member)}`)
      .join(" ");
  }
  return JSON.stringify(value);
}
