/** What an acceptor thread and the main thread say to each other. Requests and results travel as flat numbers, many in a message. */

import type { AuthOutcome } from "../auth/authenticator.js";
import type { KeyAuthenticatorHandle } from "../auth/keys/key-authenticator.js";
import type { KeyHourUsage } from "../auth/keys/usage-counts.js";
import type { IngestResult } from "../ingest/request.js";
import type { ErrorRecord } from "../runtime/errors.js";

/** Numbers per request: id, offset, length, request code, audience index (-1: none). */
export const HANDOVER_WORDS = 5;

/** Numbers per result: id, kind, records, rejected, dropped attributes, seconds until a retry. */
const RESULT_WORDS = 6;

const resultKinds = { stored: 0, badRequest: 1, payloadTooLarge: 2, unavailable: 3, internal: 4 };

/** How an acceptor thread checks credentials. */
export type AcceptorAuth =
  | { readonly kind: "anonymous" }
  /** @property oidc tokens that look like JWTs are asked of the main thread. */
  | { readonly kind: "keys"; readonly handle: KeyAuthenticatorHandle; readonly oidc: boolean };

/** What an acceptor thread is started with. */
export interface AcceptorWorkerData {
  /** URL of the module with the front end (see {@link AcceptorModule}); this folder does not know it. */
  readonly module: string;
  readonly host: string;
  readonly port: number;
  readonly arenaBytes: number;
  readonly maxBodyBytes: number;
  readonly bodyTimeoutMs: number;
  readonly maxConnections: number;
  readonly auth: AcceptorAuth;
  /** Memory of the counters, which outlives the thread. */
  readonly counters: SharedArrayBuffer;
  readonly logLevel: string;
  readonly metricsContentType: string;
  /** One word, set to 1 and notified once every socket of the thread is closed. */
  readonly closed: Int32Array;
}

/** Questions to the main thread, answered with a text (null: all is well), or an outcome. */
export type Question =
  | { readonly kind: "ready" }
  | { readonly kind: "metrics" }
  | { readonly kind: "authenticate"; readonly authorization: string };

/** From an acceptor thread. */
export type FromAcceptor =
  | { readonly kind: "listening"; readonly port: number; readonly arena: SharedArrayBuffer }
  | { readonly kind: "failed"; readonly error: ErrorRecord }
  | {
      readonly kind: "requests";
      readonly words: Float64Array;
      readonly audiences: readonly string[];
    }
  | { readonly kind: "question"; readonly id: number; readonly question: Question }
  /** What keys were used for since the last one; the last comes before "drained". */
  | { readonly kind: "usage"; readonly usages: readonly KeyHourUsage[] }
  | { readonly kind: "drained" }
  /** No socket is open any more; the thread may be terminated. */
  | { readonly kind: "closed" };

/** What answers a {@link Question}. */
export type QuestionAnswer =
  | { readonly kind: "text"; readonly text: string | null }
  | { readonly kind: "outcome"; readonly outcome: AuthOutcome }
  | { readonly kind: "error"; readonly error: ErrorRecord };

/** To an acceptor thread. */
export type ToAcceptor =
  | {
      readonly kind: "results";
      readonly words: Float64Array;
      readonly texts: readonly ResultText[];
    }
  | { readonly kind: "answer"; readonly id: number; readonly answer: QuestionAnswer }
  | { readonly kind: "state"; readonly accepting: boolean; readonly problem: string | null }
  | { readonly kind: "drain" }
  | { readonly kind: "close" };

/** The text that belongs to the result at `index` of a message. */
export interface ResultText {
  readonly index: number;
  readonly text: string;
}

/** Gathers results for one message. */
export class ResultWriter {
  #words: number[] = [];
  #texts: ResultText[] = [];

  get empty(): boolean {
    return this.#words.length === 0;
  }

  push(id: number, result: IngestResult): void {
    const index = this.#words.length / RESULT_WORDS;
    switch (result.kind) {
      case "stored":
        this.#words.push(
          id,
          resultKinds.stored,
          result.records,
          result.rejected,
          result.droppedAttributes,
          0,
        );
        if (result.rejectedReason !== null)
          this.#texts.push({ index, text: result.rejectedReason });
        break;
      case "failed":
        this.#words.push(
          id,
          result.code === "BAD_REQUEST" ? resultKinds.badRequest : resultKinds.payloadTooLarge,
          0,
          0,
          0,
          0,
        );
        this.#texts.push({ index, text: result.message });
        break;
      case "unavailable":
        this.#words.push(id, resultKinds.unavailable, 0, 0, 0, result.retryAfterSeconds);
        break;
      case "internal":
        this.#words.push(id, resultKinds.internal, 0, 0, 0, 0);
        this.#texts.push({ index, text: result.requestId });
        break;
    }
  }

  take(): Extract<ToAcceptor, { kind: "results" }> {
    const message = {
      kind: "results",
      words: Float64Array.from(this.#words),
      texts: this.#texts,
    } as const;
    this.#words = [];
    this.#texts = [];
    return message;
  }
}

/** Calls `each` with every result of a message. */
export function readResults(
  message: Extract<ToAcceptor, { kind: "results" }>,
  each: (id: number, result: IngestResult) => void,
): void {
  const texts = new Map(message.texts.map(({ index, text }) => [index, text]));
  const { words } = message;
  for (let at = 0, index = 0; at < words.length; at += RESULT_WORDS, index++) {
    each(words[at] ?? 0, resultAt(words, at, texts.get(index) ?? null));
  }
}

function resultAt(words: Float64Array, at: number, text: string | null): IngestResult {
  switch (words[at + 1] ?? resultKinds.unavailable) {
    case resultKinds.stored:
      return {
        kind: "stored",
        records: words[at + 2] ?? 0,
        rejected: words[at + 3] ?? 0,
        rejectedReason: text,
        droppedAttributes: words[at + 4] ?? 0,
      };
    case resultKinds.badRequest:
      return { kind: "failed", code: "BAD_REQUEST", message: text ?? "" };
    case resultKinds.payloadTooLarge:
      return { kind: "failed", code: "PAYLOAD_TOO_LARGE", message: text ?? "" };
    case resultKinds.internal:
      return { kind: "internal", requestId: text ?? "" };
    default:
      return { kind: "unavailable", retryAfterSeconds: words[at + 5] ?? 1 };
  }
}
