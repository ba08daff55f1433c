/**
 * Statements that have ended engines: who has sent one twice within an hour is not let to send it again for a while.
 */
import { LRUMap } from "../runtime/collections/lru-map.js";

import type { Clock } from "../runtime/clock.js";
import { ServiceError } from "../runtime/errors.js";
import type { Metrics } from "../runtime/metrics.js";

const tolerated = 2;
const withinMs = 3_600_000;
/** Most statements that are remembered; the oldest losses go first. */
const maxStatements = 10_000;

/**
 * Counts engines by caller and statement. Each caller counts alone; otherwise one could have another's
 * statements refused, by sending one of the same shape with constants that do harm.
 */
export class LethalStatements {
  readonly #clock: Clock;
  readonly #refused: { inc(): void };
  /** When engines ended, the last one last. */
  readonly #losses = new LRUMap<string, readonly number[]>(maxStatements);

  constructor(clock: Clock, metrics: Metrics) {
    this.#clock = clock;
    this.#refused = metrics.counter(
      "query_lethal_refused_total",
      "Queries that were refused because their statement had ended engines before",
    );
  }

  /** Told that an engine ended with a statement. @param statement its fingerprint, or the hash of its text */
  lost(identity: string, statement: string): void {
    const key = `${identity} ${statement}`;
    const losses = [...(this.#losses.get(key) ?? []), this.#clock.monotonicMs()].slice(-tolerated);
    this.#losses.set(key, losses);
  }

  /** @throws ServiceError PAYLOAD_TOO_LARGE while a statement is refused */
  check(identity: string, statement: string): void {
    const losses = this.#losses.peek(`${identity} ${statement}`) ?? [];
    const sinceMs = this.#clock.monotonicMs() - withinMs;
    const recent = losses.filter((atMs) => atMs > sinceMs);
    const [first] = recent;
    if (first === undefined || recent.length < tolerated) {
      return;
    }
    this.#refused.inc();
    const minutes = Math.ceil((first - sinceMs) / 60_000);
    throw new ServiceError(
      "PAYLOAD_TOO_LARGE",
      `This statement has ended the process that ran it ${tolerated} times within an hour; change it, or try again in ${minutes} minutes.`,
    );
  }
}
