/**
 * Several tabs refresh at the same time with the same cookie. Providers that rotate refresh tokens treat
 * the second use of one as theft and end the session. So requests with one cookie share one refresh, and
 * its answer also serves those that arrive later, before the browser has the new cookie or because the answer got lost.
 */
import { createHash } from "node:crypto";

/** Longer than a page waits for an answer that was held up on its way (`lateAfterMs` of web/src/api/http.ts). */
const keptMs = 60_000;
const maxEntries = 1000;

interface Entry<T> {
  readonly answer: Promise<T>;
  /** Infinite while under way. */
  staleAtMs: number;
}

/** See the head of the file. Failures are shared while under way and then forgotten. */
export class RefreshSharing<T> {
  readonly #nowMs: () => number;
  readonly #entries = new Map<string, Entry<T>>();

  constructor(o: { readonly nowMs: () => number }) {
    this.#nowMs = o.nowMs;
  }

  /** Runs `refresh`, or gives the answer of another run for the same cookie. */
  run(cookie: string, refresh: () => Promise<T>): Promise<T> {
    const key = createHash("sha256").update(cookie).digest("base64url");
    const nowMs = this.#nowMs();
    this.#forgetStale(nowMs);
    const known = this.#entries.get(key);
    if (known !== undefined) {
      return known.answer;
    }
    const entry: Entry<T> = { answer: refresh(), staleAtMs: Number.POSITIVE_INFINITY };
    this.#entries.set(key, entry);
    void this.#settle(key, entry);
    return entry.answer;
  }

  async #settle(key: string, entry: Entry<T>): Promise<void> {
    try {
      await entry.answer;
      entry.staleAtMs = this.#nowMs() + keptMs;
    } catch {
      // The caller has the error; the next one tries again.
      this.#entries.delete(key);
    }
  }

  #forgetStale(nowMs: number): void {
    for (const [key, { staleAtMs }] of this.#entries) {
      if (nowMs >= staleAtMs || this.#entries.size >= maxEntries) {
        this.#entries.delete(key);
      }
    }
  }
}
