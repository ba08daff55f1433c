/** Spans as plain data: code that does the work says what it did, without knowing who listens. */

/** One finished piece of work. */
export interface FinishedSpan {
  /** Low cardinality, for example `query` or `commit batch`. */
  readonly name: string;
  /** Milliseconds since the Unix epoch; fractions count. */
  readonly startMs: number;
  /** Milliseconds since the Unix epoch; fractions count. */
  readonly endMs: number;
  readonly attributes: Readonly<Record<string, string | number | boolean>>;
  /** One public sentence when the work failed, else null. */
  readonly error: string | null;
}

/**
 * Takes a finished span; cheap and never throws. Not to be called for work on the service's own
 * telemetry, or reporting would report itself.
 */
export type SpanSink = (span: FinishedSpan) => void;
