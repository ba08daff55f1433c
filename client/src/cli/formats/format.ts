import type { RecordBatch, Schema } from "apache-arrow";

/** Turns a result into text, piece by piece; the pieces in order are the output. */
export interface ResultFormat {
  /** Called once, before any batch, even for an empty result. */
  begin(schema: Schema): string;
  /** Called for every batch; may hold text back until {@link end}. */
  batch(batch: RecordBatch): string;
  /** Called once, at the end of a complete result. */
  end(): string;
}
