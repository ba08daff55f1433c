/**
 * Logs senders whose data is refused: one line a minute for each address, path and status, and a bounded
 * number in all. The next line counts those that were left out.
 */
import { LRUMap } from "../../runtime/collections/lru-map.js";

import type { Logger } from "../../runtime/log/log.js";

const windowMs = 60_000;
const linesPerWindow = 20;
const maxRemembered = 1000;
const maxPathCharacters = 200;

/** See the head of this file. */
export class RefusalLog {
  readonly #logger: Logger;
  readonly #nowMs: () => number;
  /** When a line about a sender was written last. */
  readonly #lastMs = new LRUMap<string, number>(maxRemembered);
  #windowStartMs = Number.NEGATIVE_INFINITY;
  #lines = 0;
  #unwritten = 0;

  constructor(logger: Logger, nowMs: () => number = () => performance.now()) {
    this.#logger = logger;
    this.#nowMs = nowMs;
  }

  /**
   * @param address asked only while lines are left in this minute: it costs something.
   * @param ownTelemetry of the service itself: the line is not exported (see LogTap), or it would be refused as well and
   * bring about the next one.
   */
  add(status: number, reason: string, path: string, address: () => string, ownTelemetry = false): void {
    const nowMs = this.#nowMs();
    if (nowMs - this.#windowStartMs >= windowMs) {
      this.#windowStartMs = nowMs;
      this.#lines = 0;
    }
    if (this.#lines >= linesPerWindow) {
      this.#unwritten++;
      return;
    }
    const from = address();
    const shown = path.slice(0, maxPathCharacters);
    const sender = `${from} ${status} ${shown}`;
    if (nowMs - (this.#lastMs.get(sender) ?? Number.NEGATIVE_INFINITY) < windowMs) {
      this.#unwritten++;
      return;
    }
    this.#lastMs.set(sender, nowMs);
    this.#lines++;
    this.#logger.warn(
      {
        from,
        path: shown,
        status,
        reason,
        unwritten: this.#unwritten,
        ...(ownTelemetry ? { selfTelemetry: true } : {}),
      },
      `refused telemetry from ${from}: ${reason}`,
    );
    this.#unwritten = 0;
  }
}
