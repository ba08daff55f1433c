/** The seam between the protocol and the engine: DuckDB in threads here, another engine elsewhere. */
import type { MatchContext, MatchResult } from "./denials.js";
import type { Executable, InspectOptions, Inspection } from "./inspect.js";
import type { QueryOutcome, QuerySources } from "./run.js";

/** A running query: FlightData messages, the schema's first. Leaving the loop gives the query up. */
export interface QueryStream extends AsyncIterable<Uint8Array> {
  /**
   * Resolves when the query has ended, well or not, and let go of its thread; rejects when it had none, or
   * nothing more is heard of it.
   */
  readonly ended: Promise<QueryOutcome>;
}

/** Something that answers queries. */
export interface QueryBackend {
  /**
   * Passes text through the gate and says what it reads and returns.
   * @throws ServiceError BAD_REQUEST with the reason
   */
  inspect(sql: string, signal?: AbortSignal, o?: InspectOptions): Promise<Inspection>;
  /** Whether expressions of the deny list are true of a query; one result for each. */
  match(
    expressions: readonly string[],
    context: MatchContext,
    signal: AbortSignal,
  ): Promise<readonly MatchResult[]>;
  /**
   * Runs a query that `inspect` has let through over `sources`. Nothing is computed far ahead of the reader. An aborted signal makes
   * the iteration throw CANCELLED at once; the engine is interrupted.
   */
  run(query: Executable, sources: QuerySources, signal: AbortSignal): QueryStream;
}
