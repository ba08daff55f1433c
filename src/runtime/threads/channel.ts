/**
 * Two threads that serve each other: each end offers an interface (api.ts) and reaches that of the other. The messages
 * of both directions share one port, so they arrive in the order in which they were sent.
 */
import type { TransferListItem } from "node:worker_threads";

import { fromErrorRecord, ServiceError, toServiceError } from "../errors.js";
import {
  type AnswerOf,
  type ArgumentOf,
  type Asked,
  callNamed,
  failedOutcome,
  type NamedMethods,
  type Notice,
  type Outcome,
} from "./api.js";

/** A `Worker` or a `MessagePort`. */
export interface ChannelPort {
  postMessage(message: unknown, transfer: readonly TransferListItem[]): void;
  on(event: string, listener: (message: unknown) => void): unknown;
}

type Message =
  | {
      readonly kind: "ask";
      readonly id: number;
      readonly method: string;
      readonly argument: unknown;
    }
  | { readonly kind: "answer"; readonly id: number; readonly outcome: Outcome<unknown> };

interface Waiting {
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: ServiceError) => void;
}

/** One end. `Local` is what it offers, without methods of the names `ask` and `answer`; `Remote` is what it reaches. */
export class Channel<Local extends object, Remote> {
  readonly #port: ChannelPort;
  readonly #peer: string;
  readonly #local: NamedMethods;
  readonly #waiting = new Map<number, Waiting>();
  #nextId = 0;
  #ended = false;

  /**
   * Serves from the next turn of the event loop on.
   * @param peer who is at the other end, for errors: "an acceptor thread"
   */
  constructor(port: ChannelPort, peer: string, local: Local) {
    this.#port = port;
    this.#peer = peer;
    this.#local = local as NamedMethods;
    port.on("message", (message) => {
      this.#receive(message as Message);
    });
    port.on("exit", () => {
      this.#end();
    });
    port.on("close", () => {
      this.#end();
    });
  }

  /** Tells; there is no answer, and none that says that the other end is gone. */
  tell(notice: Notice<Remote>, transfer: readonly TransferListItem[] = []): void {
    this.#port.postMessage(notice, transfer);
  }

  /**
   * Asks.
   * @throws ServiceError what the method threw (anything else as INTERNAL with its cause); UNAVAILABLE when the
   *   other end is gone, or goes.
   */
  ask<M extends Asked<Remote>>(method: M, argument: ArgumentOf<Remote, M>): Promise<AnswerOf<Remote, M>> {
    return new Promise((resolve, reject) => {
      if (this.#ended) {
        reject(this.#gone());
        return;
      }
      const id = this.#nextId++;
      try {
        this.#post({ kind: "ask", id, method, argument });
      } catch (error) {
        reject(toServiceError(error));
        return;
      }
      this.#waiting.set(id, { resolve: resolve as Waiting["resolve"], reject });
    });
  }

  #receive(message: Message): void {
    switch (message.kind) {
      case "ask":
        void this.#serve(message.id, message.method, message.argument);
        break;
      case "answer":
        this.#settle(message.id, message.outcome);
        break;
      default: {
        const notice: { readonly kind: string } = message;
        callNamed(this.#local, notice.kind, notice);
      }
    }
  }

  /** Never rejects. */
  async #serve(id: number, method: string, argument: unknown): Promise<void> {
    try {
      const value = await callNamed(this.#local, method, argument);
      this.#post({ kind: "answer", id, outcome: { kind: "ok", value } });
    } catch (error) {
      this.#post({ kind: "answer", id, outcome: failedOutcome(error) });
    }
  }

  #settle(id: number, outcome: Outcome<unknown>): void {
    const waiting = this.#waiting.get(id);
    this.#waiting.delete(id);
    if (outcome.kind === "ok") {
      waiting?.resolve(outcome.value);
    } else {
      waiting?.reject(fromErrorRecord(outcome.error));
    }
  }

  #end(): void {
    this.#ended = true;
    for (const { reject } of this.#waiting.values()) {
      reject(this.#gone());
    }
    this.#waiting.clear();
  }

  #gone(): ServiceError {
    return new ServiceError("UNAVAILABLE", `${this.#peer} ended`, { retryAfterSeconds: 1 });
  }

  #post(message: Message): void {
    this.#port.postMessage(message, []);
  }
}
