/** What the page and the worker that decodes results say to each other. */
import type { ColumnData, Field } from "./column-data.js";

/** The end of a complete stream. */
export interface QuerySummary {
  readonly rows: number;
  readonly bytes: number;
  readonly milliseconds: number;
  /** Rows were left out because there is a limit. */
  readonly cut: boolean;
}

export interface QueryProgress {
  readonly rows: number;
  readonly bytes: number;
  /** 0 to 1; null when it is not known. */
  readonly fraction: number | null;
}

/** Why a query has no complete result. */
export interface QueryFailure {
  /** Of the HTTP answer; 200 when the query failed after it had begun, 0 when no answer came. */
  readonly status: number;
  /** For example `BAD_REQUEST`; `BROKEN` when the stream ended in between, `OFFLINE` when no answer came. */
  readonly code: string;
  readonly message: string;
  readonly requestId: string | null;
  readonly retryAfterSeconds: number | null;
}

export type ToWorker =
  | { readonly kind: "start"; readonly id: number; readonly url: string; readonly body: string }
  | { readonly kind: "cancel"; readonly id: number };

export type FromWorker =
  | { readonly kind: "schema"; readonly id: number; readonly fields: readonly Field[] }
  | { readonly kind: "batch"; readonly id: number; readonly rows: number; readonly columns: readonly ColumnData[] }
  | { readonly kind: "progress"; readonly id: number; readonly progress: QueryProgress }
  | { readonly kind: "done"; readonly id: number; readonly summary: QuerySummary }
  | { readonly kind: "failed"; readonly id: number; readonly failure: QueryFailure };

/** What the page and the worker that writes Parquet say to each other: each message has one answer. */
export type ToParquetWorker =
  | { readonly kind: "begin"; readonly fields: readonly Field[] }
  | { readonly kind: "batch"; readonly columns: readonly ColumnData[] }
  | { readonly kind: "end" };

export type FromParquetWorker =
  | { readonly kind: "ready" }
  | { readonly kind: "file"; readonly file: Blob }
  | { readonly kind: "failed"; readonly message: string };
