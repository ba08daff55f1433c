/**
 * What each ingestion key was used for, counted on the thread that answers: plain additions, one map look-up per
 * request. About every second hourly-usage.ts collects the counts, so a map holds no more than the keys of that time.
 */

/** What a key was used for in (a part of) one hour. */
export interface KeyHourUsage {
  readonly keyId: string;
  /** Start of the hour in seconds since the epoch. */
  readonly hourSeconds: number;
  /** Requests whose body came in whole, whatever they were answered. */
  readonly requests: number;
  /** Bytes of those bodies as sent. */
  readonly bytes: number;
  /** Records stored. */
  readonly records: number;
}

/** Counts that change; once collected, they no longer change. */
interface Counting {
  readonly keyId: string;
  readonly hourSeconds: number;
  requests: number;
  bytes: number;
  records: number;
}

const hourMs = 3_600_000;

/** See the head of the file; one per thread. */
export class UsageCounts {
  readonly #nowMs: () => number;
  #hourStartMs = Number.NEGATIVE_INFINITY;
  #byKey = new Map<string, Counting>();
  #taken: Counting[] = [];

  /** @param nowMs milliseconds since the epoch. */
  constructor(nowMs: () => number = Date.now) {
    this.#nowMs = nowMs;
  }

  /** One request. Hot. */
  add(keyId: string, bytes: number, records: number): void {
    const nowMs = this.#nowMs();
    if (nowMs - this.#hourStartMs >= hourMs || nowMs < this.#hourStartMs) {
      this.#turnHour(nowMs);
    }
    let counting = this.#byKey.get(keyId);
    if (counting === undefined) {
      const hourSeconds = this.#hourStartMs / 1000;
      counting = { keyId, hourSeconds, requests: 0, bytes: 0, records: 0 };
      this.#byKey.set(keyId, counting);
      this.#taken.push(counting);
    }
    counting.requests++;
    counting.bytes += bytes;
    counting.records += records;
  }

  /** What was counted since the last call. */
  take(): readonly KeyHourUsage[] {
    const taken = this.#taken;
    if (taken.length > 0) {
      this.#taken = [];
      this.#byKey = new Map();
    }
    return taken;
  }

  #turnHour(nowMs: number): void {
    this.#hourStartMs = Math.floor(nowMs / hourMs) * hourMs;
    this.#byKey = new Map();
  }
}
