/**
 * Results that are being sent, by the id of their ticket, so that an action can cancel them. A ticket that is cancelled
 * before it is fetched is remembered until it has expired with all its renewals: they share its id, none is issued
 * after the cancelling, and the last one before it lives no longer than a ticket.
 */
import { underSignals } from "telemetry-service-client/shared/abort";
import { ServiceError } from "../../runtime/errors.js";
import type { Clock } from "../../runtime/clock.js";

/** Most cancelled tickets that are remembered; the oldest go first. */
const maxCancelled = 10_000;

/** Results under way on this server. */
export class RunningResults {
  readonly #clock: Clock;
  readonly #ticketLifeMs: number;
  readonly #running = new Map<string, Set<AbortController>>();
  /** Id to when it may be forgotten, in milliseconds of the monotonic clock. */
  readonly #cancelled = new Map<string, number>();

  constructor(clock: Clock, ticketLifeMs: number) {
    this.#clock = clock;
    this.#ticketLifeMs = ticketLifeMs;
  }

  /**
   * Runs something that `cancel` can abort.
   * @throws ServiceError CANCELLED when it was cancelled; whatever `body` throws
   */
  async run<T>(id: string, signal: AbortSignal, body: (signal: AbortSignal) => Promise<T>): Promise<T> {
    this.check(id);
    const controller = new AbortController();
    const group = this.#running.get(id) ?? new Set();
    this.#running.set(id, group.add(controller));
    try {
      return await underSignals([signal, controller.signal], body);
    } catch (error) {
      throw controller.signal.aborted && !signal.aborted ? cancelled(error) : error;
    } finally {
      group.delete(controller);
      if (group.size === 0) {
        this.#running.delete(id);
      }
    }
  }

  /** @throws ServiceError CANCELLED when the ticket was cancelled */
  check(id: string): void {
    if (this.#cancelled.has(id)) {
      throw cancelled();
    }
  }

  /** Cancels what runs with a ticket, now and later; says whether anything ran. */
  cancel(id: string): boolean {
    const nowMs = this.#clock.monotonicMs();
    for (const [oldest, forgetMs] of this.#cancelled) {
      if (forgetMs > nowMs && this.#cancelled.size < maxCancelled) {
        break;
      }
      this.#cancelled.delete(oldest);
    }
    // Behind the others, which are in the order of their time.
    this.#cancelled.delete(id);
    this.#cancelled.set(id, nowMs + this.#ticketLifeMs);
    const group = this.#running.get(id);
    for (const controller of group ?? []) {
      controller.abort(cancelled());
    }
    return group !== undefined;
  }
}

function cancelled(cause?: unknown): ServiceError {
  return new ServiceError("CANCELLED", "The query was cancelled.", { cause });
}
