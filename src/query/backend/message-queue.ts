/** FlightData messages on their way from an engine to the reader, who decides the pace. */
import { followSignals } from "telemetry-service-client/shared/abort";
import { abortReason, type ServiceError } from "../../runtime/errors.js";
import type { QueryStream } from "./backend.js";
import type { QueryOutcome } from "./run.js";

/**
 * The messages of one query. It may begin again as long as nothing but the schema has come: the reader, who may have it
 * already, gets it once.
 */
export class MessageQueue {
  /** Aborted with the signal that was given. */
  readonly #followed: ReturnType<typeof followSignals>;
  readonly #waiting: { readonly message: Uint8Array; readonly done: () => void }[] = [];
  #schema: Uint8Array | null = null;
  #schemaComes = true;
  #ended: { readonly failure: ServiceError | null } | null = null;
  #batches = 0;
  #bytes = 0;
  #wake: () => void = () => undefined;

  constructor(signal: AbortSignal) {
    this.#followed = followSignals([signal]);
  }

  /** Aborted when the query is given up: by its signal, or because the reader has left. */
  get signal(): AbortSignal {
    return this.#followed.controller.signal;
  }

  /** Messages with rows that came. */
  get batches(): number {
    return this.#batches;
  }

  /** Of the messages with rows. */
  get bytes(): number {
    return this.#bytes;
  }

  /** The next message is a schema. */
  begin(): void {
    this.#schemaComes = true;
  }

  /** @param done called when the reader is done with the message */
  push(message: Uint8Array, done: () => void = () => undefined): void {
    if (this.#schemaComes) {
      this.#schemaComes = false;
      if (this.#schema !== null) {
        done();
        return;
      }
      this.#schema = message;
    } else {
      this.#batches++;
      this.#bytes += message.length;
    }
    this.#waiting.push({ message, done });
    this.#wake();
  }

  #end(failure: ServiceError | null): void {
    this.#ended = { failure };
    this.#followed.release();
    this.#wake();
  }

  /** What the reader of the query is given. @param running resolves with what became of it */
  stream(running: Promise<QueryOutcome>): QueryStream {
    const ended = running.then((outcome) => {
      this.#end(outcome.failure);
      return outcome;
    });
    return { ended, signal: this.signal, [Symbol.asyncIterator]: () => this.#read() };
  }

  /** What comes, until the query has ended. Leaving the loop gives it up. */
  async *#read(): AsyncGenerator<Uint8Array, void, undefined> {
    const wake = (): void => {
      this.#wake();
    };
    this.signal.addEventListener("abort", wake);
    try {
      for (;;) {
        if (this.signal.aborted) {
          throw abortReason(this.signal);
        }
        const next = this.#waiting.shift();
        if (next !== undefined) {
          yield next.message;
          // Asked for the next one: the reader is done with this one.
          next.done();
        } else if (this.#ended !== null) {
          if (this.#ended.failure !== null) {
            throw this.#ended.failure;
          }
          return;
        } else {
          await new Promise<void>((resolve) => {
            this.#wake = resolve;
          });
        }
      }
    } finally {
      this.signal.removeEventListener("abort", wake);
      if (this.#ended === null) {
        this.#followed.controller.abort();
      }
      this.#waiting.length = 0;
    }
  }
}
