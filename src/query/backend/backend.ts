/** The seam between the protocol and what answers queries: engine processes here, a cluster elsewhere. */
import type { Executable, InspectOptions, Inspection } from "./inspect.js";
import type { BoundParameter } from "../gate/parameters.js";
import type { QueryOutcome, QuerySources } from "./run.js";

/**
 * A running query: FlightData messages, the schema's first. The memory of a message may be used again when the next one
 * is asked for. Leaving the loop gives the query up.
 */
export interface QueryStream extends AsyncIterable<Uint8Array> {
  /** Resolves when the query has ended, well or not, and returned its engine. Never rejects. */
  readonly ended: Promise<QueryOutcome>;
  /** Aborted when anybody gives the query up: its messages are no longer needed. */
  readonly signal: AbortSignal;
}

/** How something is asked of a backend. */
export interface AskOptions {
  /** Gives it up. */
  readonly signal: AbortSignal;
  /** Told about every engine that it has ended. */
  readonly onLoss?: (() => void) | undefined;
  /** What EXPLAIN says of the engine. */
  readonly note?: string;
}

/** What the expressions of the deny list see. */
export interface MatchContext {
  /** Email, subject or key, as audit columns record it. */
  readonly user: string;
  /** Empty when the caller has none. */
  readonly email: string;
  readonly client: string;
  readonly sql: string;
  readonly sql_hash: string;
}

/** Whether a rule's expression is true, or why it could not be evaluated. */
export type MatchResult = { readonly matches: boolean } | { readonly failure: string };

/** Something that answers queries. */
export interface QueryBackend {
  /**
   * Passes text through the gate and says what it reads and returns.
   * @throws ServiceError BAD_REQUEST with the reason
   */
  inspect(sql: string, ask: AskOptions, o?: InspectOptions): Promise<Inspection>;
  /**
   * The same for a prepared statement and several sets of values, one result for each; without fields.
   * @throws ServiceError BAD_REQUEST with the reason
   */
  inspectSets(
    sql: string,
    sets: readonly (readonly BoundParameter[])[],
    ask: AskOptions,
    admin: boolean,
  ): Promise<readonly Inspection[]>;
  /** Whether expressions of the deny list are true of a query; one result for each. */
  match(expressions: readonly string[], context: MatchContext, signal: AbortSignal): Promise<readonly MatchResult[]>;
  /**
   * Runs a query that `inspect` has let through over `sources`. Nothing is computed far ahead of the reader. An aborted
   * signal makes the iteration throw CANCELLED at once; the engine is interrupted.
   */
  run(query: Executable, sources: QuerySources, ask: AskOptions): QueryStream;
}
