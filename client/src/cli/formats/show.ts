/** Answers in JSON on a terminal, or as they are. */
import { escapeControlsOfJson } from "../../shared/escape-controls.js";
import { type Terminal, createOutput } from "../terminal.js";
import { type RowColumn, fieldList, rowsTable } from "./rows.js";

/** Prints nothing for null: there was nothing to say. */
export async function showJson(answer: unknown, terminal: Terminal): Promise<void> {
  await print(answer === null ? "" : `${escapeControlsOfJson(JSON.stringify(answer, null, 2))}\n`, terminal);
}

/** An aligned table, as wide as the terminal at most. */
export async function showRows(
  columns: readonly RowColumn[],
  rows: readonly unknown[],
  terminal: Terminal,
): Promise<void> {
  const width = terminal.stdout.isTTY === true ? (terminal.stdout.columns ?? 80) : null;
  await print(rowsTable(columns, rows.filter(isObject), width), terminal);
}

/** One line per member. */
export async function showFields(answer: unknown, terminal: Terminal): Promise<void> {
  await print(fieldList(isObject(answer) ? answer : { answer }), terminal);
}

async function print(text: string, terminal: Terminal): Promise<void> {
  const output = createOutput(terminal);
  await output.write(text);
  await output.flush();
}

/** A JSON object. */
export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
