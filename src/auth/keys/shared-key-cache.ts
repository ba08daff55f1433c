/**
 * The shared-memory key cache: what every acceptor thread reads to tell who is calling.
 *
 * Two tables (see shared-table.ts for the protocol): live keys with their identity, and hashes known not
 * to be live keys. They are apart so that no flood of unknown keys pushes out a live one. The audience
 * (at most 255 bytes of ASCII) is inline in the record, under the same sequence number as the hash, so
 * hash and audience always belong together.
 *
 * Each thread keeps a memo of what it decoded: by hash, the slot, the sequence it saw, expiry and outcome. A version of
 * a slot never changes, so one atomic load that finds the sequence unchanged proves that hash, expiry and identity in
 * shared memory still equal the memo: a withdrawn, replaced or evicted entry has another sequence. Atomics are calls in
 * this V8 (12 ns each, 16 of them in a full probe), hence the memo. A hit costs one SHA-256 (0.45 us) and about 0.2 us
 * more, and allocates nothing but the hash.
 */
import type { AuthOutcome } from "../authenticator.js";
import { invalidToken } from "../authenticator.js";
import type { SharedClock } from "../shared-clock.js";
import {
  createSharedTable,
  hashWords,
  hashToWords,
  SharedTableReader,
  SharedTableWriter,
  type SharedTableHandle,
} from "./shared-table.js";

const keyIdWords = 4;
const audienceLengthAt = keyIdWords;
const audienceAt = audienceLengthAt + 1;
const maxAudienceBytes = 255;
const payloadWords = audienceAt + Math.ceil(maxAudienceBytes / 4);
const noAudience = -1;
const emptyPayload = new Int32Array(0);

/** Kind of principal that the keys of a cache identify. */
export type KeyPrincipalKind = "ingestion_key" | "analytics_key";

/** All a thread needs to read the cache; structured-clonable, the memory is shared. */
export interface SharedKeyCacheHandle {
  readonly live: SharedTableHandle;
  readonly unknown: SharedTableHandle;
  readonly maxLive: number;
  readonly maxUnknown: number;
  readonly principalKind: KeyPrincipalKind;
  /** An entry used within this many milliseconds of its expiry is refreshed ahead. */
  readonly refreshWindowMs: number;
}

/**
 * Makes the memory of a cache, once per process and key table, on the thread that will write it.
 * @param o.maxLive most live keys (`SVC_API_KEY_CACHE_SIZE`, 400 bytes each);
 * @param o.maxUnknown most unknown ones (`SVC_API_KEY_UNKNOWN_CACHE_SIZE`, 70 bytes each);
 * @param o.refreshWindowMs how long before its expiry a used entry is refreshed.
 */
export function createSharedKeyCache(o: {
  readonly maxLive: number;
  readonly maxUnknown: number;
  readonly principalKind: KeyPrincipalKind;
  readonly refreshWindowMs: number;
}): SharedKeyCacheHandle {
  return {
    live: createSharedTable(o.maxLive, payloadWords),
    unknown: createSharedTable(o.maxUnknown, 0),
    maxLive: o.maxLive,
    maxUnknown: o.maxUnknown,
    principalKind: o.principalKind,
    refreshWindowMs: o.refreshWindowMs,
  };
}

/** Open a cache for reading; any thread, any number of times. */
export function openSharedKeyCache(
  handle: SharedKeyCacheHandle,
  o: { readonly clock: SharedClock; readonly requestRefresh: (hash: string) => void },
): SharedKeyCacheReader {
  return new SharedKeyCacheReader(handle, o);
}

interface Memo {
  readonly slot: number;
  readonly sequence: number;
  readonly expiresAtMs: number;
  readonly outcome: AuthOutcome;
  usedSecond: number;
}

/** The reading side; one per thread. Hot: `recall` first, `lookup` when it gave null. */
export class SharedKeyCacheReader {
  readonly #live: SharedTableReader;
  readonly #unknown: SharedTableReader;
  readonly #clock: SharedClock;
  readonly #requestRefresh: (hash: string) => void;
  readonly #principalKind: KeyPrincipalKind;
  readonly #refreshWindowMs: number;
  readonly #hash = new Int32Array(hashWords);
  readonly #payload = new Int32Array(payloadWords);
  readonly #payloadBytes = Buffer.from(this.#payload.buffer);
  readonly #memo = new Map<string, Memo>();
  // The hash whose memo belongs to a slot: at most one per slot, so the memo is bounded.
  readonly #memoOfSlot: (string | undefined)[];

  constructor(
    handle: SharedKeyCacheHandle,
    o: { readonly clock: SharedClock; readonly requestRefresh: (hash: string) => void },
  ) {
    this.#live = new SharedTableReader(handle.live);
    this.#unknown = new SharedTableReader(handle.unknown);
    this.#clock = o.clock;
    this.#requestRefresh = o.requestRefresh;
    this.#principalKind = handle.principalKind;
    this.#refreshWindowMs = handle.refreshWindowMs;
    this.#memoOfSlot = Array.from({ length: this.#live.slots });
  }

  /**
   * The outcome for a live key that this thread has met before, or null. The hot path: what it
   * returns is as current as what `lookup` returns, it only gives up earlier.
   */
  recall(hash: string): AuthOutcome | null {
    const memo = this.#memo.get(hash);
    if (memo === undefined) {
      return null;
    }
    const nowMs = this.#clock();
    if (nowMs >= memo.expiresAtMs || !this.#live.isAt(memo.slot, memo.sequence)) {
      return null;
    }
    this.#used(hash, memo, nowMs);
    return memo.outcome;
  }

  /**
   * What the cache knows about `hash` (32 one-byte characters): ok, rejected, or null for a miss.
   * A hit marks the key as used and, close to its expiry, asks once for a refresh.
   */
  lookup(hash: string): AuthOutcome | null {
    const words = this.#hash;
    hashToWords(hash, words);
    const nowMs = this.#clock();
    const live = this.#live;
    const slot = live.find(words, nowMs);
    if (slot < 0) {
      return this.#unknown.find(words, nowMs) < 0 ? null : invalidToken;
    }
    const { sequence, expiresAtMs } = live;
    if (!live.readPayload(slot, sequence, this.#payload)) {
      return null;
    }
    const memo: Memo = { slot, sequence, expiresAtMs, usedSecond: -1, outcome: this.#decode() };
    const before = this.#memoOfSlot[slot];
    if (before !== undefined) {
      this.#memo.delete(before);
    }
    // The hash may have moved here from another slot; then that slot no longer speaks for it.
    const elsewhere = this.#memo.get(hash);
    if (elsewhere !== undefined) {
      this.#memoOfSlot[elsewhere.slot] = undefined;
    }
    this.#memo.set(hash, memo);
    this.#memoOfSlot[slot] = hash;
    this.#used(hash, memo, nowMs);
    return memo.outcome;
  }

  #used(hash: string, memo: Memo, nowMs: number): void {
    const second = (nowMs / 1000) | 0;
    if (memo.usedSecond !== second) {
      memo.usedSecond = second;
      this.#live.markUsed(memo.slot, second);
    }
    if (memo.expiresAtMs - nowMs <= this.#refreshWindowMs && this.#live.claimRefresh(memo.slot)) {
      this.#requestRefresh(hash);
    }
  }

  #decode(): AuthOutcome {
    const bytes = this.#payloadBytes;
    const hex = bytes.toString("hex", 0, keyIdWords * 4);
    const keyId = `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
    const length = this.#payload[audienceLengthAt] as number;
    const from = audienceAt * 4;
    const audience = length === noAudience ? null : bytes.toString("latin1", from, from + length);
    return liveOutcome(this.#principalKind, keyId, audience);
  }
}

/** The outcome for a live key. */
export function liveOutcome(kind: KeyPrincipalKind, keyId: string, audience: string | null): AuthOutcome {
  return Object.freeze({
    kind: "ok",
    principal: Object.freeze({ kind, keyId, issuer: null, subject: null, email: null, name: null, audience }),
  });
}

/** A key and the second (of the shared clock) in which it was last used. */
export type KeyUse = readonly [keyId: string, usedSecond: number];

/** The writing side; exactly one per cache, owned by the key-lookup actor. */
export class SharedKeyCacheWriter {
  readonly #live: SharedTableWriter;
  readonly #unknown: SharedTableWriter;
  readonly #hash = new Int32Array(hashWords);
  readonly #payload = new Int32Array(payloadWords);
  readonly #payloadBytes = Buffer.from(this.#payload.buffer);
  // What usage needs, kept beside the shared slots: whose slot it is, and what was taken already.
  readonly #keyIds: (string | undefined)[];
  readonly #takenSecond: Int32Array;
  readonly #onUnseenUse: (use: KeyUse) => void;

  /** @param onUnseenUse told of a key that leaves the cache with a use that `takeUses` has not returned. */
  constructor(handle: SharedKeyCacheHandle, onUnseenUse: (use: KeyUse) => void) {
    this.#onUnseenUse = onUnseenUse;
    this.#live = new SharedTableWriter(handle.live, handle.maxLive, (slot) => {
      const keyId = this.#keyIds[slot];
      const second = this.#live.usedSecond(slot);
      if (keyId !== undefined && second !== this.#takenSecond[slot]) {
        this.#onUnseenUse([keyId, second]);
      }
      this.#keyIds[slot] = undefined;
    });
    this.#unknown = new SharedTableWriter(handle.unknown, handle.maxUnknown);
    this.#keyIds = Array.from({ length: this.#live.slots });
    this.#takenSecond = new Int32Array(this.#live.slots);
  }

  /** Store a live key; `audience` is null for analytics keys. Times are of the shared clock. */
  setLive(
    hash: string,
    key: { readonly keyId: string; readonly audience: string | null },
    expiresAtMs: number,
    usedSecond: number,
  ): void {
    hashToWords(hash, this.#hash);
    this.#payload.fill(0);
    this.#payloadBytes.write(key.keyId.replaceAll("-", ""), 0, "hex");
    if (key.audience === null) {
      this.#payload[audienceLengthAt] = noAudience;
    } else {
      if (key.audience.length > maxAudienceBytes) {
        throw new RangeError("audience too long");
      }
      this.#payload[audienceLengthAt] = key.audience.length;
      this.#payloadBytes.write(key.audience, audienceAt * 4, "latin1");
    }
    const known = this.#live.slotOf(this.#hash) >= 0;
    const slot = this.#live.set(this.#hash, expiresAtMs, usedSecond, this.#payload);
    if (!known) {
      this.#takenSecond[slot] = usedSecond - 1;
    }
    this.#keyIds[slot] = key.keyId;
    this.#unknown.delete(this.#hash);
  }

  /** Store that `hash` is no live key. A live entry goes first: nobody may use it from here on. */
  setUnknown(hash: string, expiresAtMs: number, nowSecond: number): void {
    hashToWords(hash, this.#hash);
    this.#live.delete(this.#hash);
    this.#unknown.set(this.#hash, expiresAtMs, nowSecond, emptyPayload);
  }

  /** A refresh of `hash` failed: let a later use ask again. */
  releaseRefresh(hash: string): void {
    hashToWords(hash, this.#hash);
    this.#live.releaseRefresh(this.#hash);
  }

  /** Every cached key used since the last call, once each. */
  takeUses(): KeyUse[] {
    const uses: KeyUse[] = [];
    for (let slot = 0; slot < this.#live.slots; slot++) {
      const keyId = this.#keyIds[slot];
      if (keyId === undefined) {
        continue;
      }
      const second = this.#live.usedSecond(slot);
      if (second === this.#takenSecond[slot]) {
        continue;
      }
      this.#takenSecond[slot] = second;
      uses.push([keyId, second]);
    }
    return uses;
  }
}
