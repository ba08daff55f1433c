/** Writes a Parquet file of the batches that the page sends, one after the other. */
import { ByteWriter, ParquetWriter } from "hyparquet-writer";

import type { Field } from "./column-data.js";
import type { FromParquetWorker, ToParquetWorker } from "./messages.js";
import { cellsOf, distinctNames, schemaOf } from "./parquet.js";

/** Rows that a row group has at least, but the last. */
const rowsOfGroup = 100_000;

let fields: readonly Field[] = [];
const bytes = new ByteWriter();
const parts: Blob[] = [];
let writer: ParquetWriter | null = null;
/** Cells of the columns that are not written yet. */
let cells: unknown[][] = [];

self.addEventListener("message", ({ data }: MessageEvent<ToParquetWorker>) => {
  try {
    post(take(data));
  } catch (error) {
    post({ kind: "failed", message: error instanceof Error ? error.message : String(error) });
  }
});

function post(message: FromParquetWorker): void {
  self.postMessage(message);
}

function take(message: ToParquetWorker): FromParquetWorker {
  if (message.kind === "begin") {
    const names = distinctNames(message.fields.map(({ name }) => name));
    fields = message.fields.map(({ type }, at) => ({ name: names[at] ?? "", type }));
    // Without bounds of values: the writer compares those without a sign as if they had one.
    writer = new ParquetWriter({
      writer: bytes,
      schema: schemaOf(fields),
      statistics: false,
      createdBy: "telemetry-service",
    });
    cells = fields.map(() => []);
  } else if (message.kind === "batch") {
    for (const [at, { type }] of fields.entries()) {
      const data = message.columns[at];
      for (const cell of data === undefined ? [] : cellsOf(type, data)) {
        cells[at]?.push(cell);
      }
    }
    if ((cells[0]?.length ?? 0) >= rowsOfGroup) {
      writeGroup();
    }
  } else {
    writeGroup();
    void writer?.finish();
    keepBytes();
    return { kind: "file", file: new Blob(parts, { type: "application/vnd.apache.parquet" }) };
  }
  return { kind: "ready" };
}

function writeGroup(): void {
  const rows = cells[0]?.length ?? 0;
  if (rows === 0) {
    return;
  }
  const columnData = fields.map(({ name }, at) => ({ name, data: cells[at] ?? [] }));
  void writer?.write({ columnData, rowGroupSize: rows });
  cells = fields.map(() => []);
  keepBytes();
}

/** Takes what was written out of the writer's memory. */
function keepBytes(): void {
  parts.push(new Blob([bytes.getBuffer()]));
  bytes.index = 0;
}
