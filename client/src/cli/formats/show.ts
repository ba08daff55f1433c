/** Answers in JSON on a terminal, or as they are. */
import { escapeControlsOfJson } from "../../shared/escape-controls.js";
import { isObject } from "../../shared/is-object.js";
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

/** One line per member. @param rewritten how members are shown that are not shown as they are */
export async function showFields(
  answer: unknown,
  terminal: Terminal,
  rewritten: Readonly<Record<string, (member: unknown) => unknown>> = {},
): Promise<void> {
  const fields = Object.entries(isObject(answer) ? answer : { answer });
  await print(
    fieldList(Object.fromEntries(fields.map(([name, value]) => [name, rewritten[name]?.(value) ?? value]))),
    terminal,
  );
}

async function print(text: string, terminal: Terminal): Promise<void> {
  const output = createOutput(terminal);
  await output.write(text);
  await output.flush();
}
