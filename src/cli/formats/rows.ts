/** Rows of JSON as an aligned table, and one object as a list of its fields. */
import { escapeControls, textWidth, truncate } from "./text-width.js";
import { fitWidths } from "./table.js";

const separator = " │ ";

/** A column of {@link rowsTable}. */
export interface RowColumn {
  readonly title: string;
  readonly value: (row: Readonly<Record<string, unknown>>) => unknown;
  /** Numbers stand on the right. */
  readonly right?: boolean;
  /** May be cut where the terminal is too narrow; never what somebody has to copy. */
  readonly shrinks?: boolean;
}

/** @param terminalColumns width of the terminal, or null when nothing is to be cut. */
export function rowsTable(
  columns: readonly RowColumn[],
  rows: readonly Readonly<Record<string, unknown>>[],
  terminalColumns: number | null,
): string {
  const cells = rows.map((row) => columns.map((column) => cellText(column.value(row))));
  let widths = columns.map((column, i) =>
    Math.max(textWidth(column.title), ...cells.map((line) => textWidth(line[i] ?? ""))),
  );
  if (terminalColumns !== null) {
    const shrinkable = columns.map((column) => column.shrinks === true);
    widths = fitWidths(widths, shrinkable, terminalColumns);
  }
  const line = (texts: readonly string[]): string =>
    columns
      .map((column, i) => {
        const width = widths[i] ?? 0;
        const text = texts[i] ?? "";
        const shown = column.shrinks === true ? truncate(text, Math.max(1, width)) : text;
        const missing = " ".repeat(Math.max(0, width - textWidth(shown)));
        return column.right === true ? missing + shown : shown + missing;
      })
      .join(separator)
      .trimEnd();
  const rule = widths.map((width) => "─".repeat(width)).join("─┼─");
  return `${[line(columns.map((column) => column.title)), rule, ...cells.map(line)].join("\n")}\n`;
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
  if (value === null || value === undefined) return "";
  if (Array.isArray(value)) return value.map(cellText).join(", ");
  if (typeof value === "string") return escapeControls(value);
  return escapeControls(JSON.stringify(value));
}
