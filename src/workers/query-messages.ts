/** What the query threads and their client say to each other. */
import type { MessagePort } from "node:worker_threads";

import type { MatchContext, MatchResult } from "../query/denials.js";
import type { ResultLimits } from "../query/batcher.js";
import type { EngineOptions } from "../query/engine.js";
import type { Executable, InspectOptions, Inspection } from "../query/inspect.js";
import type { QuerySources, QuerySummary } from "../query/run.js";
import type { ErrorRecord } from "../runtime/errors.js";

/** What every query thread is started with. */
export interface QueryWorkerData extends EngineOptions, ResultLimits {
  /** How much larger the process may get while a query runs. */
  readonly maxGrowthBytes: number;
}

/** A task of the pool. */
export type QueryTask =
  | { readonly kind: "inspect"; readonly sql: string; readonly options: InspectOptions }
  | {
      readonly kind: "match";
      readonly expressions: readonly string[];
      readonly context: MatchContext;
    }
  | {
      readonly kind: "run";
      readonly query: Executable;
      readonly sources: QuerySources;
      /** The result goes out by it and {@link QueryControl} comes in; transferred. */
      readonly port: MessagePort;
    };

/** The answer to a task. */
export type QueryAnswer =
  | { readonly kind: "inspection"; readonly inspection: Inspection }
  | { readonly kind: "matches"; readonly results: readonly MatchResult[] }
  | {
      readonly kind: "ended";
      readonly summary: QuerySummary;
      /** Why it ended before its end. */
      readonly error: ErrorRecord | null;
    };

/** By the port to the thread: one more message is welcome, or the query is given up. */
export type QueryControl = { readonly kind: "credit" } | { readonly kind: "cancel" };

/**
 * By the port from the thread: FlightData messages, the schema's first, whose memory is moved; then
 * `end`, also of a query that failed. The thread may fall asleep before a close of the port would get
 * through, so the end is a message.
 */
export type QueryMessage =
  | { readonly kind: "data"; readonly message: Uint8Array<ArrayBuffer> }
  | { readonly kind: "end" };

/** Messages that may be under way without a credit of their own. */
export const initialCredits = 2;
