/** What the handlers of the Flight service share. */
import type { Metadata } from "@grpc/grpc-js";

import type { Authenticator } from "../../auth/authenticator.js";
import type { QueryService } from "../../query/query-service.js";
import type { Clock } from "../../runtime/clock.js";
import type { Logger } from "../../runtime/log/log.js";
import type { Metrics } from "../../runtime/metrics.js";
import type { SpanSink } from "../../runtime/spans.js";
import type { BoundStatements } from "./bound-statements.js";
import type { MessageBuffers } from "./message-buffers.js";
import type { RunningResults } from "./running.js";

/** What the service is made of. */
export interface FlightServiceOptions {
  readonly authenticator: Authenticator;
  readonly queries: QueryService;
  /** Signs tickets; servers that share it serve each other's. */
  readonly ticketSecret: Uint8Array;
  /** Other servers share the secret: what is not known here may be known there. */
  readonly ticketsShared: boolean;
  /** Life of a ticket in milliseconds. */
  readonly ticketLifeMs: number;
  /** Longest time of one call in milliseconds (`SVC_QUERY_TIMEOUT_SECONDS`). */
  readonly timeoutMs: number;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** Told about every query. */
  readonly span?: SpanSink;
}

/** Options, and what there is of state: nothing that another server would miss. */
export interface FlightContext extends FlightServiceOptions {
  readonly running: RunningResults;
  readonly bound: BoundStatements;
  readonly buffers: MessageBuffers;
}

/** Where a call comes from, and its metadata. */
export interface CallHead {
  readonly metadata: Metadata;
  /** Address and port. */
  getPeer(): string;
}

/** What a handler knows about its call. */
export interface Call extends CallHead {
  /** Aborted when the client cancels or vanishes, or the time is over. */
  readonly signal: AbortSignal;
}
