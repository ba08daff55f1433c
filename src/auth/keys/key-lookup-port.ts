/**
 * Look-ups from other threads. The main thread serves a MessagePort with the key-lookup actor; the thread at the other
 * end holds a client. A message carries all look-ups of one turn of the event loop, so a flood costs few messages. When
 * the port ends, pending look-ups answer `unavailable`; nobody waits for ever.
 */
import type { MessagePort } from "node:worker_threads";
import type { AuthOutcome } from "../authenticator.js";
import type { KeyLookupReply, KeyLookupRequest } from "./key-lookup-messages.js";

/** The two questions a reader of the cache can ask of its writer, on the same thread or another. */
export interface KeyLookupClient {
  lookup(hash: string): Promise<AuthOutcome>;
  refresh(hash: string): void;
}

const maxPending = 8192;
const patienceMs = 10_000;
const sweepMs = 1000;
const unavailable: AuthOutcome = Object.freeze({ kind: "unavailable", retryAfterSeconds: 1 });

/** Serve `port` from the thread of the actor. Closing the port ends it. */
export function serveKeyLookups(port: MessagePort, lookups: KeyLookupClient): void {
  let hashes: string[] = [];
  let outcomes: AuthOutcome[] = [];
  const flush = (): void => {
    const reply: KeyLookupReply = { kind: "outcomes", hashes, outcomes };
    hashes = [];
    outcomes = [];
    port.postMessage(reply, []);
  };
  const answer = async (hash: string): Promise<void> => {
    const outcome = await lookups.lookup(hash);
    // The actor answers a whole batch in one turn; one message carries it.
    if (hashes.length === 0) {
      queueMicrotask(flush);
    }
    hashes.push(hash);
    outcomes.push(outcome);
  };
  port.on("message", (request: KeyLookupRequest) => {
    for (const hash of request.hashes) {
      if (request.kind === "refresh") {
        lookups.refresh(hash);
        continue;
      }
      void answer(hash);
    }
  });
  port.unref();
}

interface Pending {
  readonly answer: Promise<AuthOutcome>;
  readonly resolve: (outcome: AuthOutcome) => void;
  readonly sinceMs: number;
}

/** The end of a reading thread. Concurrent look-ups of one hash share one question. */
export class RemoteKeyLookup implements KeyLookupClient {
  readonly #port: MessagePort;
  readonly #pending = new Map<string, Pending>();
  #outbox: string[] = [];
  #sweep: NodeJS.Timeout | null = null;
  #closed = false;

  constructor(port: MessagePort) {
    this.#port = port;
    port.on("message", (reply: KeyLookupReply) => {
      reply.hashes.forEach((hash, i) => this.#settle(hash, reply.outcomes[i] ?? unavailable));
    });
    port.on("close", () => this.#end());
    // Alive only while somebody waits; a thread with nothing else to do may end.
    port.unref();
  }

  lookup(hash: string): Promise<AuthOutcome> {
    const known = this.#pending.get(hash);
    if (known !== undefined) {
      return known.answer;
    }
    if (this.#closed || this.#pending.size >= maxPending) {
      return Promise.resolve(unavailable);
    }
    let resolve: (outcome: AuthOutcome) => void = () => undefined;
    const answer = new Promise<AuthOutcome>((r) => {
      resolve = r;
    });
    if (this.#pending.size === 0) {
      this.#port.ref();
    }
    this.#pending.set(hash, { answer, resolve, sinceMs: performance.now() });
    if (this.#outbox.length === 0) {
      queueMicrotask(() => this.#send());
    }
    this.#outbox.push(hash);
    this.#sweep ??= setInterval(() => this.#giveUpOnOld(), sweepMs).unref();
    return answer;
  }

  refresh(hash: string): void {
    if (this.#closed) {
      return;
    }
    const request: KeyLookupRequest = { kind: "refresh", hashes: [hash] };
    this.#port.postMessage(request, []);
  }

  /** Closes the port; pending look-ups answer `unavailable`. */
  close(): void {
    this.#port.close();
    this.#end();
  }

  #send(): void {
    const request: KeyLookupRequest = { kind: "lookup", hashes: this.#outbox };
    this.#outbox = [];
    if (!this.#closed) {
      this.#port.postMessage(request, []);
    }
  }

  #settle(hash: string, outcome: AuthOutcome): void {
    const pending = this.#pending.get(hash);
    if (pending === undefined) {
      return;
    }
    this.#pending.delete(hash);
    pending.resolve(outcome);
    if (this.#pending.size > 0) {
      return;
    }
    this.#port.unref();
    if (this.#sweep !== null) {
      clearInterval(this.#sweep);
    }
    this.#sweep = null;
  }

  #giveUpOnOld(): void {
    const limitMs = performance.now() - patienceMs;
    for (const [hash, pending] of this.#pending) {
      // Insertion order is age order.
      if (pending.sinceMs > limitMs) {
        return;
      }
      this.#settle(hash, unavailable);
    }
  }

  #end(): void {
    this.#closed = true;
    for (const hash of this.#pending.keys()) {
      this.#settle(hash, unavailable);
    }
  }
}
