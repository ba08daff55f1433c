/**
 * Statements that have ended engines: who has sent one twice within an hour is not let to send it again for a while,
 * unless it reads far less by then.
 */
import { LRUMap } from "../runtime/collections/lru-map.js";

import type { Clock } from "../runtime/clock.js";
import { ServiceError } from "../runtime/errors.js";
import type { Metrics } from "../runtime/metrics.js";

const tolerated = 2;
const withinMs = 3_600_000;
/** Most statements that are remembered; the oldest losses go first. */
const maxStatements = 10_000;

/** An engine that ended. */
interface Loss {
  readonly atMs: number;
  /** Rows of the lake that the statement was about to read. */
  readonly rows: number;
}

/**
 * Counts engines by caller and statement. Each caller counts alone; otherwise one could have another's
 * statements refused, by sending one of the same shape with constants that do harm.
 */
export class LethalStatements {
  readonly #clock: Clock;
  readonly #refused: { inc(): void };
  /** When engines ended, the last one last. */
  readonly #losses = new LRUMap<string, readonly Loss[]>(maxStatements);

  constructor(clock: Clock, metrics: Metrics) {
    this.#clock = clock;
    this.#refused = metrics.counter(
      "query_lethal_refused_total",
      "Queries that were refused because their statement had ended engines before",
    );
  }

  /**
   * Told that an engine ended with a statement.
   * @param statement its fingerprint, or the hash of its text
   * @param rows of the lake that it was about to read
   */
  lost(identity: string, statement: string, rows = 0): void {
    const key = `${identity} ${statement}`;
    const loss = { atMs: this.#clock.monotonicMs(), rows };
    this.#losses.set(key, [...(this.#losses.get(key) ?? []), loss].slice(-tolerated));
  }

  /**
   * @param rows of the lake that it is about to read: less than half of what it read when it ended engines is another try
   * @throws ServiceError PAYLOAD_TOO_LARGE while a statement is refused
   */
  check(identity: string, statement: string, rows = Infinity): void {
    const losses = this.#losses.peek(`${identity} ${statement}`) ?? [];
    const sinceMs = this.#clock.monotonicMs() - withinMs;
    const recent = losses.filter(({ atMs }) => atMs > sinceMs);
    const [first] = recent;
    const fewest = Math.min(...recent.map((loss) => loss.rows));
    if (first === undefined || recent.length < tolerated || rows * 2 < fewest) {
      return;
    }
    this.#refused.inc();
    const minutes = Math.ceil((first.atMs - sinceMs) / 60_000);
    const narrow = fewest > 0 ? ", narrow its time range until it reads less than half of the rows" : "";
    throw new ServiceError(
      "PAYLOAD_TOO_LARGE",
      `This statement has ended the process that ran it ${tolerated} times within an hour; change more of it than its constants${narrow}, or try again in ${minutes} minutes.`,
    );
  }
}
