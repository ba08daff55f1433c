/** A result as a file. */
import { answer } from "../api/call.js";
import { bodyOf, type QueryRequest, type QueryResult } from "../api/query.js";
import type { Column, Value } from "../arrow/column.js";
import type { FromParquetWorker, ToParquetWorker } from "../arrow/messages.js";
import { formatDate, formatTimeExact } from "../ui/format.js";
import { plain, uniqueNames } from "../ui/table/table-columns.js";

/** Rows that become text at once, so that the page stays alive in between. */
const rowsAtOnce = 20_000;

/**
 * The rows as they are here, by RFC 4180 with a line of names. A cell that a spreadsheet would take for a formula gets a
 * quote in front: whoever opens the file must not run what somebody logged.
 */
export async function toCsv({ columns, rows }: QueryResult): Promise<Blob> {
  const lineOf = (cells: readonly string[]): string => `${cells.map(csvCell).join(",")}\r\n`;
  const lines = await textOf(rows, (row) => lineOf(columns.map((column) => cellOf(column, row))));
  return new Blob([lineOf(columns.map(({ name }) => name)), ...lines], { type: "text/csv" });
}

/** One object a line. */
export async function toJsonLines({ columns, rows }: QueryResult): Promise<Blob> {
  const lineOf = jsonLines(columns);
  return new Blob(await textOf(rows, (row) => `${lineOf(row)}\n`), { type: "application/x-ndjson" });
}

/** The text of all rows, in pieces. */
async function textOf(rows: number, lineOf: (row: number) => string): Promise<string[]> {
  const parts: string[] = [];
  for (let begin = 0; begin < rows; begin += rowsAtOnce) {
    let text = "";
    for (let row = begin; row < Math.min(rows, begin + rowsAtOnce); row++) {
      text += lineOf(row);
    }
    parts.push(text);
    await pause();
  }
  return parts;
}

/** Writes rows as JSON objects, by names that tell the columns apart. */
export function jsonLines(columns: readonly Column[]): (row: number) => string {
  const names = uniqueNames(columns);
  return (row) => JSON.stringify(Object.fromEntries(columns.map((each, at) => [names[at], exact(each, row)])), plain);
}

/**
 * The rows as they are here, with their types. A worker of its own writes them, and gets a batch when it is done with
 * the one before. @throws Error for a type that Parquet lacks.
 */
export async function toParquet({ columns }: QueryResult): Promise<Blob> {
  const worker = new Worker(new URL("../arrow/parquet-worker.ts", import.meta.url), {
    type: "module",
    name: "parquet",
  });
  const ask = (message: ToParquetWorker): Promise<FromParquetWorker> =>
    new Promise((resolve, reject) => {
      const hear = ({ data }: MessageEvent<FromParquetWorker>): void =>
        data.kind === "failed" ? reject(new Error(data.message)) : resolve(data);
      const fail = (): void => reject(new Error("The part that writes Parquet has failed. Load the page again."));
      worker.addEventListener("message", hear, { once: true });
      worker.addEventListener("error", fail, { once: true });
      worker.postMessage(message);
    });
  try {
    await ask({ kind: "begin", fields: columns.map(({ name, type }) => ({ name, type })) });
    const batches = columns[0]?.parts.length ?? 0;
    for (let batch = 0; batch < batches; batch++) {
      await ask({ kind: "batch", columns: columns.flatMap(({ parts }) => parts[batch] ?? []) });
    }
    const end = await ask({ kind: "end" });
    if (end.kind !== "file") {
      throw new Error("The part that writes Parquet has given no file.");
    }
    return end.file;
  } finally {
    worker.terminate();
  }
}

/** Runs the query again and gives the server's own Arrow stream. @throws ApiError. */
export async function fetchArrow(request: QueryRequest): Promise<Blob> {
  const response = await answer("api/query", {
    method: "POST",
    body: JSON.parse(bodyOf(request)) as unknown,
    accept: "application/vnd.apache.arrow.stream",
  });
  return response.blob();
}

function csvCell(text: string): string {
  const safe = /^[=+\-@\t\r]/.test(text) && !/^[+-]?(?:[\d.]+(?:e[+-]?\d+)?|Infinity)$/i.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

function cellOf(column: Column, row: number): string {
  const value = exact(column, row);
  return value === null ? "" : typeof value === "object" ? JSON.stringify(value, plain) : String(value);
}

/** Times in ISO 8601 with all their digits. */
function exact(column: Column, row: number): Value {
  const value = column.value(row);
  if (typeof value !== "bigint") {
    return value;
  }
  const { kind } = column.type;
  return kind === "timestamp" ? formatTimeExact(value) : kind === "date" ? formatDate(value) : value;
}

function pause(): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, 0);
  });
}
