/**
 * Requests and their results as numbers, many in one message between threads: to clone an object for each would cost
 * more than its body does. Only this file knows where a number is. Texts travel beside the numbers.
 */
import type { IngestResult, PendingRequest } from "./request.js";

/** Where the numbers of a request are; `source` is an id, or the index of a buffer. */
const requestAt = { source: 0, offset: 1, length: 2, code: 3, audience: 4, size: 5 } as const;

/** Where the numbers of a result are. */
const resultAt = {
  id: 0,
  kind: 1,
  records: 2,
  rejected: 3,
  droppedAttributes: 4,
  retryAfterSeconds: 5,
  size: 6,
} as const;

const resultKind = {
  stored: 0,
  BAD_REQUEST: 1,
  PAYLOAD_TOO_LARGE: 2,
  unavailable: 3,
  internal: 4,
} as const;

const noAudience = -1;

/** Requests on their way. */
export interface RequestBatch {
  readonly kind: "requests";
  readonly words: Float64Array<ArrayBuffer>;
  readonly audiences: readonly string[];
}

/** Results on their way. */
export interface ResultBatch {
  readonly kind: "results";
  readonly words: Float64Array<ArrayBuffer>;
  /** Of those results that have one, by their place in the batch. */
  readonly texts: { readonly index: number; readonly text: string }[];
}

/** A batch of these requests; `sourceOf` numbers what is not a number of theirs. */
export function writeRequests(
  requests: readonly PendingRequest[],
  sourceOf: (request: PendingRequest, index: number) => number,
): RequestBatch {
  const words = new Float64Array(requests.length * requestAt.size);
  const audiences: string[] = [];
  const indexes = new Map<string, number>();
  // Neighbours are of one sender as a rule.
  let lastAudience: string | null = null;
  let lastIndex: number = noAudience;
  requests.forEach((request, index) => {
    const { offset, length, code, audience } = request;
    if (audience !== lastAudience) {
      lastAudience = audience;
      lastIndex = audience === null ? noAudience : indexIn(audiences, indexes, audience);
    }
    const at = index * requestAt.size;
    words[at + requestAt.source] = sourceOf(request, index);
    words[at + requestAt.offset] = offset;
    words[at + requestAt.length] = length;
    words[at + requestAt.code] = code;
    words[at + requestAt.audience] = lastIndex;
  });
  return { kind: "requests", words, audiences };
}

function indexIn(audiences: string[], indexes: Map<string, number>, audience: string): number {
  const known = indexes.get(audience);
  if (known !== undefined) {
    return known;
  }
  indexes.set(audience, audiences.length);
  return audiences.push(audience) - 1;
}

/** Requests in a batch. */
export function requestCount({ words }: Pick<RequestBatch, "words">): number {
  return words.length / requestAt.size;
}

/** Calls `each` with every request of a batch, in order; numbers one by one, because an object for each costs. */
export function eachRequest(
  { words, audiences }: Pick<RequestBatch, "words" | "audiences">,
  each: (source: number, offset: number, length: number, code: number, audience: string | null) => void,
): void {
  for (let at = 0; at < words.length; at += requestAt.size) {
    each(
      word(words, at + requestAt.source),
      word(words, at + requestAt.offset),
      word(words, at + requestAt.length),
      word(words, at + requestAt.code),
      audiences[word(words, at + requestAt.audience)] ?? null,
    );
  }
}

/** A batch with room for so many results. */
export function createResults(count: number): ResultBatch {
  return { kind: "results", words: new Float64Array(count * resultAt.size), texts: [] };
}

/** Sets the result at `index` of a batch. */
export function writeResult({ words, texts }: ResultBatch, index: number, id: number, result: IngestResult): void {
  const at = index * resultAt.size;
  words[at + resultAt.id] = id;
  words[at + resultAt.kind] = resultKind[result.kind === "failed" ? result.code : result.kind];
  let text: string | null = null;
  switch (result.kind) {
    case "stored":
      words[at + resultAt.records] = result.records;
      words[at + resultAt.rejected] = result.rejected;
      words[at + resultAt.droppedAttributes] = result.droppedAttributes;
      text = result.rejectedReason;
      break;
    case "failed":
      text = result.message;
      break;
    case "unavailable":
      words[at + resultAt.retryAfterSeconds] = result.retryAfterSeconds;
      text = result.reason ?? null;
      break;
    case "internal":
      text = result.requestId;
      break;
  }
  if (text !== null) {
    texts.push({ index, text });
  }
}

/** A batch of these results, each under the id at the same place. */
export function writeResults(ids: readonly number[], results: readonly IngestResult[]): ResultBatch {
  const batch = createResults(results.length);
  results.forEach((result, index) => {
    writeResult(batch, index, word(ids, index), result);
  });
  return batch;
}

/** Calls `each` with every result of a batch, in order. */
export function eachResult(batch: ResultBatch, each: (id: number, result: IngestResult) => void): void {
  const read = resultReader(batch);
  const { words } = batch;
  for (let at = 0, index = 0; at < words.length; at += resultAt.size, index++) {
    each(word(words, at + resultAt.id), read(index));
  }
}

/** Reads results of a batch by their place in it. */
export function resultReader({ words, texts }: Pick<ResultBatch, "words" | "texts">): (index: number) => IngestResult {
  const textAt = new Map(texts.map(({ index, text }) => [index, text]));
  return (index) => {
    const at = index * resultAt.size;
    const text = textAt.get(index);
    switch (word(words, at + resultAt.kind)) {
      case resultKind.stored:
        return {
          kind: "stored",
          records: word(words, at + resultAt.records),
          rejected: word(words, at + resultAt.rejected),
          rejectedReason: text ?? null,
          droppedAttributes: word(words, at + resultAt.droppedAttributes),
        };
      case resultKind.BAD_REQUEST:
        return { kind: "failed", code: "BAD_REQUEST", message: text ?? "" };
      case resultKind.PAYLOAD_TOO_LARGE:
        return { kind: "failed", code: "PAYLOAD_TOO_LARGE", message: text ?? "" };
      case resultKind.internal:
        return { kind: "internal", requestId: text ?? "" };
      default: {
        const retryAfterSeconds = word(words, at + resultAt.retryAfterSeconds);
        return { kind: "unavailable", retryAfterSeconds, ...(text === undefined ? {} : { reason: text }) };
      }
    }
  };
}

function word(words: ArrayLike<number>, at: number): number {
  const value = words[at];
  if (value === undefined) {
    throw new RangeError(`there is no word ${at} among ${words.length}`);
  }
  return value;
}
