/** A mailbox with one reader: state that only one message at a time can touch. */

import { type Clock, systemClock } from "./clock.js";
import { ServiceError } from "./errors.js";
import type { Component } from "./lifecycle.js";
import type { Logger } from "./log/log.js";
import { Ring } from "./collections/ring.js";

interface ActorBaseOptions<M, S> {
  readonly name: string;
  /** Most messages that may wait; further ones are refused. */
  readonly capacity: number;
  readonly logger: Logger;
  /** Makes the state that the handler receives: at first use, and again after every failure of the handler. */
  readonly create?: () => S;
  /** Told of every message whose handler threw; must not throw. */
  readonly onError?: (message: M, error: unknown) => void;
  /** Failures in a row, within the window, that are tolerated before the actor is unhealthy. Default 5. */
  readonly maxRestarts?: number;
  /** Length of the window in milliseconds. Default 60000. */
  readonly restartWindowMs?: number;
  readonly clock?: Clock;
}

/** An actor that handles one message at a time. */
interface SingleActorOptions<M, S = undefined> extends ActorBaseOptions<M, S> {
  readonly handle: (message: M, state: S) => Promise<void> | void;
  readonly handleBatch?: never;
  readonly maxBatch?: never;
}

/** An actor that takes everything that waits, at most `maxBatch` messages (default: no bound), at once. */
interface BatchActorOptions<M, S = undefined> extends ActorBaseOptions<M, S> {
  readonly handle?: never;
  readonly handleBatch: (messages: M[], state: S) => Promise<void> | void;
  readonly maxBatch?: number;
}

/** Options of {@link Actor}: either `handle` or `handleBatch`. */
type ActorOptions<M, S = undefined> = SingleActorOptions<M, S> | BatchActorOptions<M, S>;

/** Synchronous handlers give the event loop a turn after this many steps. */
const stepsPerTurn = 512;

/**
 * States: idle -> running -> idle, and once `stop` is called -> draining -> stopped.
 *
 * - `tell` queues a message and, when idle, schedules the run loop as a microtask, so that everything
 *   told in the same turn can form one batch.
 * - The run loop takes a step (one message or one batch), waits until its handler is done, and takes
 *   the next; at no time do two handlers of one actor run.
 * - A handler that throws fails its message (or every message of its batch) through `onError`; the state
 *   is dropped and created again before the next step. More than `maxRestarts` failures in a row within
 *   the window make the actor unhealthy; it goes on, and one success makes it healthy again.
 * - Draining refuses new messages and handles the queued ones; stopped is reached when none is left.
 */
export class Actor<M, S = undefined> implements Component {
  readonly name: string;
  readonly #options: ActorOptions<M, S>;
  readonly #clock: Clock;
  readonly #maxRestarts: number;
  readonly #restartWindowMs: number;
  readonly #mailbox: Ring<M>;
  /** Rejections of messages that were sent with {@link ask}; a message leaves it with the message itself. */
  readonly #asked = new WeakMap<object, (error: unknown) => void>();
  #state: { readonly value: S } | null = null;
  #running = false;
  #stopped = false;
  #onDrained: (() => void) | null = null;
  #drained: Promise<void> | null = null;
  #failures = 0;
  #firstFailureMs = 0;

  constructor(o: ActorOptions<M, S>) {
    this.name = o.name;
    this.#options = o;
    this.#clock = o.clock ?? systemClock;
    this.#maxRestarts = o.maxRestarts ?? 5;
    this.#restartWindowMs = o.restartWindowMs ?? 60_000;
    this.#mailbox = new Ring(o.capacity);
  }

  /** Messages that wait; the ones being handled are not counted. */
  get depth(): number {
    return this.#mailbox.size;
  }

  /** False after more than `maxRestarts` failures in a row within the window, until a step succeeds. */
  get healthy(): boolean {
    return this.#failures <= this.#maxRestarts;
  }

  /** True once {@link stop} was called. */
  get stopped(): boolean {
    return this.#stopped;
  }

  /**
   * Queues a message. Returns false, and leaves the message to the caller, when the mailbox is full or the actor
   * stopped.
   */
  tell(message: M): boolean {
    if (this.#stopped || !this.#mailbox.push(message)) {
      return false;
    }
    if (!this.#running) {
      this.#running = true;
      queueMicrotask(() => void this.#run());
    }
    return true;
  }

  /**
   * Queues a message that carries its reply; used by {@link ask}. `reject` is called when the
   * handler throws over this message.
   */
  tellAsked(message: M & object, reject: (error: unknown) => void): boolean {
    this.#asked.set(message, reject);
    return this.tell(message);
  }

  /**
   * Refuses new messages, handles the queued ones, and resolves when the last handler is done. Not
   * to be awaited by the actor's own handler, which it would wait for.
   */
  stop(): Promise<void> {
    this.#stopped = true;
    this.#drained ??= this.#running
      ? new Promise((resolve) => {
          this.#onDrained = resolve;
        })
      : Promise.resolve();
    return this.#drained;
  }

  /** Never rejects: a failing step is accounted for in #fail. */
  async #run(): Promise<void> {
    let steps = 0;
    while (this.#mailbox.size > 0) {
      if (this.#options.handle === undefined) {
        await this.#stepBatch(this.#options);
      } else {
        const pending = this.#stepOne(this.#options);
        if (pending !== null) {
          await pending;
        }
      }
      steps++;
      if (steps % stepsPerTurn === 0) {
        await new Promise((resolve) => {
          setImmediate(resolve);
        });
      }
    }
    this.#running = false;
    this.#onDrained?.();
  }

  /** Returns null when the handler was synchronous, which saves a turn of the microtask queue per message. */
  #stepOne(o: SingleActorOptions<M, S>): Promise<void> | null {
    const message = this.#mailbox.take();
    try {
      const result = o.handle(message, this.#currentState());
      if (result === undefined) {
        this.#failures = 0;
        return null;
      }
      return this.#settleOne(message, result);
    } catch (error) {
      this.#fail([message], error);
      return null;
    }
  }

  async #settleOne(message: M, result: Promise<void>): Promise<void> {
    try {
      await result;
      this.#failures = 0;
    } catch (error) {
      this.#fail([message], error);
    }
  }

  async #stepBatch(o: BatchActorOptions<M, S>): Promise<void> {
    const messages = this.#mailbox.takeMany(o.maxBatch ?? Number.MAX_SAFE_INTEGER);
    // The handler may empty or reorder its array; who learns of a failure must not depend on that.
    const failing = messages.slice();
    try {
      await o.handleBatch(messages, this.#currentState());
      this.#failures = 0;
    } catch (error) {
      this.#fail(failing, error);
    }
  }

  #currentState(): S {
    // Without create, S is undefined by the options' types; the cast only says so.
    this.#state ??= { value: this.#options.create?.() as S };
    return this.#state.value;
  }

  #fail(messages: readonly M[], error: unknown): void {
    this.#state = null;
    const nowMs = this.#clock.monotonicMs();
    if (this.#failures === 0 || nowMs - this.#firstFailureMs > this.#restartWindowMs) {
      this.#failures = 0;
      this.#firstFailureMs = nowMs;
    }
    this.#failures++;
    this.#options.logger.error(
      { actor: this.name, err: error, messages: messages.length, failuresInARow: this.#failures },
      this.healthy ? "actor failed and restarts" : "actor keeps failing",
    );
    for (const message of messages) {
      this.#failMessage(message, error);
    }
  }

  #failMessage(message: M, error: unknown): void {
    if (typeof message === "object" && message !== null) {
      this.#asked.get(message)?.(error);
    }
    try {
      this.#options.onError?.(message, error);
    } catch (second) {
      this.#options.logger.error({ actor: this.name, err: second }, "onError of the actor threw");
    }
  }
}

/** How a handler answers a message sent with {@link ask}. The first call counts, later ones do nothing. */
export interface Reply<R> {
  readonly resolve: (value: R) => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Sends a message that expects an answer. `build` puts the reply into the message. The handler answers
 * it, or passes it on to be answered. A handler that throws rejects the answer.
 * @throws ServiceError OVERLOADED when the mailbox is full, UNAVAILABLE when the actor has stopped.
 */
export function ask<M extends object, R, S = undefined>(actor: Actor<M, S>, build: (reply: Reply<R>) => M): Promise<R> {
  return new Promise<R>((resolve, reject) => {
    if (actor.tellAsked(build({ resolve, reject }), reject)) {
      return;
    }
    reject(
      actor.stopped
        ? new ServiceError("UNAVAILABLE", `${actor.name} has stopped`)
        : new ServiceError("OVERLOADED", `${actor.name} is overloaded; try again later`, {
            retryAfterSeconds: 1,
          }),
    );
  });
}
