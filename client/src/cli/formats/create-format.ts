/** The formats of results by name. Loads apache-arrow, which takes its time: import it when a query is under way. */
import type { RecordBatch, Schema } from "apache-arrow";

import type { OutputStream } from "../terminal.js";
import { arrowStream } from "./arrow.js";
import { csvFormat } from "./csv.js";
import { expandedFormat } from "./expanded.js";
import type { ResultFormat } from "./format.js";
import { jsonFormat } from "./json.js";
import type { QueryFormat } from "./names.js";
import { tableFormat } from "./table.js";

/** How a result is to look. */
export interface FormatChoice {
  readonly format: QueryFormat;
  /** Ends the lines of CSV with CRLF instead of LF. */
  readonly crlf: boolean;
}

/** The pieces of a result in a format, as its batches come in. */
export async function* formatted(
  { format: name, crlf }: FormatChoice,
  schema: Schema,
  batches: AsyncIterable<RecordBatch>,
  stdout: OutputStream,
): AsyncGenerator<string | Uint8Array> {
  if (name === "arrow") {
    yield* arrowStream(schema, batches);
    return;
  }
  const format = createFormat(name, crlf, stdout.isTTY === true ? (stdout.columns ?? 80) : null);
  yield format.begin(schema);
  for await (const batch of batches) {
    yield format.batch(batch);
  }
  yield format.end();
}

function createFormat(name: Exclude<QueryFormat, "arrow">, crlf: boolean, columns: number | null): ResultFormat {
  switch (name) {
    case "table":
      return tableFormat(columns);
    case "expanded":
      return expandedFormat();
    case "json":
      return jsonFormat();
    case "csv":
      return csvFormat(crlf ? "\r\n" : "\n", columns !== null);
  }
}
