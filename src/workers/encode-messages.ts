/** What the batcher and an encode thread say to each other. Flat arrays, because a batch may hold thousands of requests. */

import type { IngestResult } from "../ingest/request.js";
import type { SegmentCommit } from "../lake/catalogue-rows.js";

/** Numbers per request in {@link EncodeRequest.requests}: buffer index, offset, length, request code, audience index (-1: none). */
export const REQUEST_WORDS = 5;

/** Numbers per request in {@link EncodeResponse.outcomes}: kind (see below), records, rejected, dropped attributes, inflated bytes. */
export const OUTCOME_WORDS = 5;

/** First number of an outcome; failures and reasons have their text in {@link EncodeResponse.texts}. */
export const outcomeKind = { stored: 0, badRequest: 1, payloadTooLarge: 2, overloaded: 3 } as const;

/** One batch: bodies in shared memory, which stay in place until the answer. */
export interface EncodeRequest {
  readonly buffers: readonly SharedArrayBuffer[];
  readonly audiences: readonly string[];
  /** {@link REQUEST_WORDS} numbers per request. */
  readonly requests: Float64Array;
  /** Time of receipt: `insert_time` of every row, and of the objects' catalogue rows. */
  readonly receivedUnixNano: bigint;
  /** Blocks (UUID text) already committed, which are left out. */
  readonly excludedBlocks: readonly string[];
}

/** The text that belongs to one request of the batch. */
export interface OutcomeText {
  readonly index: number;
  readonly text: string;
}

/** An encoded batch: every object in `commit.partitions` is durable, none is published yet. */
export interface EncodeResponse {
  /** {@link OUTCOME_WORDS} numbers per request, in the order of the requests. */
  readonly outcomes: Float64Array;
  readonly texts: readonly OutcomeText[];
  readonly commit: SegmentCommit;
}

/** What every encode thread is started with. */
export interface EncodeWorkerData {
  readonly objectStoreUri: string;
  readonly maxInflatedBytes: number;
  /** Deepest nesting: 100. */
  readonly maxDepth: number;
  readonly compression: "lz4" | "none";
}

/** The result of request `index` if its batch is committed. */
export function resultOf(
  response: EncodeResponse,
  index: number,
  text: string | null,
): IngestResult {
  const at = index * OUTCOME_WORDS;
  const { outcomes } = response;
  const kind = outcomes[at];
  if (kind === outcomeKind.stored) {
    return {
      kind: "stored",
      records: outcomes[at + 1] ?? 0,
      rejected: outcomes[at + 2] ?? 0,
      rejectedReason: text,
      droppedAttributes: outcomes[at + 3] ?? 0,
    };
  }
  if (kind === outcomeKind.overloaded) {
    return { kind: "unavailable", retryAfterSeconds: 1 };
  }
  return {
    kind: "failed",
    code: kind === outcomeKind.payloadTooLarge ? "PAYLOAD_TOO_LARGE" : "BAD_REQUEST",
    message: text ?? "the request is malformed",
  };
}
