/**
 * A hash table in shared memory: many lock-free readers on any thread, exactly one writer.
 *
 * Layout, all 32-bit words: `tags[slots]`, `used[slots]`, then `slots` records of
 *   sequence | expiry high | expiry low | refresh flag | 8 words of SHA-256 | payload words
 * Buckets hold 8 slots. A hash may live in one of two buckets, chosen by two independent words of
 * the hash, in at most one slot; the table has a quarter more slots than entries. So practically
 * every entry finds room (two choices of eight), and a look-up sees 16 slots at most.
 *
 * Protocol (one seqlock per slot):
 *
 *   Writer:  sequence := s + 1 (odd) ; write words ; sequence := s + 2 (even)
 *   Reader:  a := sequence, odd -> give up ; read words ; b := sequence, a != b -> give up
 *
 * Every access by either side is an `Atomics` load or store. JavaScript orders all of those in one sequentially
 * consistent order that agrees with program order on each thread (ECMA-262 29.10), so neither compiler nor processor
 * can move a data load past the second load of the sequence, which is the flaw of seqlocks over plain loads. If a
 * reader saw the same even sequence twice, no store of the writer lies between, and every word it read is of one
 * version: a torn read is impossible. On the machine an atomic load is a plain load (x64), but V8 makes it a call of
 * some 12 ns; readers that must be faster remember what they read and check the sequence alone (`isAt`).
 *
 * Giving up is a miss, never an error and never a wait: readers are wait-free. A false miss costs a
 * look-up, which the writer answers with what it knows; there are no false hits, because the full
 * 32 bytes are compared inside the protected section. A writer that dies half way through a slot
 * leaves it odd, hence unreadable, until the next writer resets it.
 *
 * `tags` (one word of the hash, so that a probe reads 8 adjacent words) and `used` (second of last
 * use) are hints outside the protocol: whatever they hold, a reader decides by the record alone. A
 * reader that marks `used` after its slot changed hands credits the new entry with a use, which it
 * has just had, since an entry is written when somebody asks for it.
 *
 * The sequence wraps after 2^31 writes of one slot; a reader would have to sleep through exactly
 * that many between two loads to be fooled.
 */

/** What another thread needs to read the table; structured-clonable. */
export interface SharedTableHandle {
  readonly buffer: SharedArrayBuffer;
  readonly buckets: number;
  readonly payloadWords: number;
}

/** Words of a SHA-256. */
export const hashWords = 8;

const bucketSlots = 8;
const sequenceAt = 0;
const expiryHighAt = 1;
const expiryLowAt = 2;
const refreshAt = 3;
const hashAt = 4;
const payloadAt = hashAt + hashWords;
const expirySplit = 2 ** 30;

/** Memory for a table of up to `entries` entries of `payloadWords` 32-bit words each. */
export function createSharedTable(entries: number, payloadWords: number): SharedTableHandle {
  if (!Number.isSafeInteger(entries) || entries < 1) {
    throw new RangeError("a shared table takes at least one entry");
  }
  const buckets = Math.max(2, Math.ceil((entries * 1.25) / bucketSlots));
  const words = buckets * bucketSlots * (2 + payloadAt + payloadWords);
  return { buffer: new SharedArrayBuffer(words * 4), buckets, payloadWords };
}

/** Word positions of a table; shared by reader and writer. */
interface Layout {
  readonly words: Int32Array;
  readonly buckets: number;
  readonly slots: number;
  readonly recordWords: number;
  readonly used: number;
  readonly records: number;
}

function layoutOf(handle: SharedTableHandle): Layout {
  const slots = handle.buckets * bucketSlots;
  return {
    words: new Int32Array(handle.buffer),
    buckets: handle.buckets,
    slots,
    recordWords: payloadAt + handle.payloadWords,
    used: slots,
    records: 2 * slots,
  };
}

/** Put a hash given as 32 one-byte characters into 8 words. */
export function hashToWords(hash: string, into: Int32Array): void {
  for (let i = 0; i < hashWords; i++) {
    const at = i * 4;
    into[i] =
      hash.charCodeAt(at) |
      (hash.charCodeAt(at + 1) << 8) |
      (hash.charCodeAt(at + 2) << 16) |
      (hash.charCodeAt(at + 3) << 24);
  }
}

// SHA-256 words are uniform, so any of them serves as bucket number or tag. Zero marks a free slot.
const firstBucket = (h: Int32Array, buckets: number): number => ((h[0] as number) >>> 0) % buckets;
function secondBucket(h: Int32Array, buckets: number): number {
  const first = firstBucket(h, buckets);
  const step = 1 + (((h[1] as number) >>> 0) % (buckets - 1));
  return (first + step) % buckets;
}
const tagOf = (h: Int32Array): number => ((h[2] as number) === 0 ? 1 : (h[2] as number));

/**
 * Read side of a table, one per thread. After `find` returned a slot, `sequence` and `expiresAtMs`
 * describe the version it saw; they are fields so that the hot path allocates nothing.
 */
export class SharedTableReader {
  readonly slots: number;
  /** Version of the slot that the last successful `find` saw; always even. */
  sequence = 0;
  /** Expiry of that version, in milliseconds of the table's clock. */
  expiresAtMs = 0;
  readonly #layout: Layout;

  constructor(handle: SharedTableHandle) {
    this.#layout = layoutOf(handle);
    this.slots = this.#layout.slots;
  }

  /** Slot of the entry of `hash` that is live at `nowMs` (`now < expiry`), or -1. */
  find(hash: Int32Array, nowMs: number): number {
    const { words, buckets } = this.#layout;
    const tag = tagOf(hash);
    const first = firstBucket(hash, buckets);
    for (let round = 0; round < 2; round++) {
      const base = (round === 0 ? first : secondBucket(hash, buckets)) * bucketSlots;
      for (let slot = base; slot < base + bucketSlots; slot++) {
        if (Atomics.load(words, slot) === tag && this.#matches(slot, hash, nowMs)) {
          return slot;
        }
      }
    }
    return -1;
  }

  #matches(slot: number, hash: Int32Array, nowMs: number): boolean {
    const { words, records, recordWords } = this.#layout;
    const at = records + slot * recordWords;
    const sequence = Atomics.load(words, at + sequenceAt);
    if ((sequence & 1) !== 0) {
      return false;
    }
    for (let i = 0; i < hashWords; i++) {
      if (Atomics.load(words, at + hashAt + i) !== hash[i]) {
        return false;
      }
    }
    const expiresAtMs = Atomics.load(words, at + expiryHighAt) * expirySplit + Atomics.load(words, at + expiryLowAt);
    if (Atomics.load(words, at + sequenceAt) !== sequence || nowMs >= expiresAtMs) {
      return false;
    }
    this.sequence = sequence;
    this.expiresAtMs = expiresAtMs;
    return true;
  }

  /**
   * True while `slot` is at version `sequence` (even, as `find` gave it). Then everything read from
   * that version is still what the slot holds.
   */
  isAt(slot: number, sequence: number): boolean {
    const { words, records, recordWords } = this.#layout;
    return Atomics.load(words, records + slot * recordWords + sequenceAt) === sequence;
  }

  /** Copy the payload of `slot`; false when it is no longer at version `sequence`. */
  readPayload(slot: number, sequence: number, into: Int32Array): boolean {
    const { words, records, recordWords } = this.#layout;
    const at = records + slot * recordWords;
    for (let i = 0; i < into.length; i++) {
      into[i] = Atomics.load(words, at + payloadAt + i);
    }
    return Atomics.load(words, at + sequenceAt) === sequence;
  }

  /** Note that `slot` was used in second `second`; a store at most once a second and slot. */
  markUsed(slot: number, second: number): void {
    const { words, used } = this.#layout;
    if (Atomics.load(words, used + slot) !== second) {
      Atomics.store(words, used + slot, second);
    }
  }

  /** True for exactly one caller per version, which then asks the writer for a refresh. */
  claimRefresh(slot: number): boolean {
    const { words, records, recordWords } = this.#layout;
    const at = records + slot * recordWords + refreshAt;
    return Atomics.load(words, at) === 0 && Atomics.exchange(words, at, 1) === 0;
  }
}

/**
 * Write side. There must be one per table in the whole process; opening it empties the table, which also
 * repairs what a writer that died half way left.
 */
export class SharedTableWriter {
  readonly slots: number;
  readonly #onRemove: (slot: number) => void;
  readonly #layout: Layout;
  readonly #maxEntries: number;
  #entries = 0;
  #hand = 0;

  /**
   * @param maxEntries never exceeded; what `createSharedTable` was made for.
   * @param onRemove called with the slot of an entry about to leave the table, still readable.
   */
  constructor(handle: SharedTableHandle, maxEntries: number, onRemove: (slot: number) => void = () => undefined) {
    this.#layout = layoutOf(handle);
    this.slots = this.#layout.slots;
    this.#maxEntries = maxEntries;
    this.#onRemove = onRemove;
    const { words, records, recordWords } = this.#layout;
    for (let slot = 0; slot < this.slots; slot++) {
      // Never written: the memory of a fresh table is not touched, and so takes no room.
      const isFresh =
        Atomics.load(words, slot) === 0 && Atomics.load(words, records + slot * recordWords + sequenceAt) === 0;
      if (!isFresh) {
        this.#clear(slot);
      }
    }
    this.#entries = 0;
  }

  /** Entries held, expired ones included. */
  get size(): number {
    return this.#entries;
  }

  /**
   * Slot that holds `hash`, expired or not, or -1. It searches as a reader does, in a loop of its own: what a slot is
   * asked would be a closure, and readers allocate nothing.
   */
  slotOf(hash: Int32Array): number {
    const { words, buckets } = this.#layout;
    const tag = tagOf(hash);
    const first = firstBucket(hash, buckets);
    for (let round = 0; round < 2; round++) {
      const base = (round === 0 ? first : secondBucket(hash, buckets)) * bucketSlots;
      for (let slot = base; slot < base + bucketSlots; slot++) {
        if (Atomics.load(words, slot) === tag && this.#holds(slot, hash)) {
          return slot;
        }
      }
    }
    return -1;
  }

  /**
   * Insert or replace the entry of `hash`; bounded work. When the table is full, the entry used
   * longest ago among at most 32 candidates makes room.
   * @returns the slot written.
   */
  set(hash: Int32Array, expiresAtMs: number, usedSecond: number, payload: Int32Array): number {
    const { words, records, recordWords, used } = this.#layout;
    let slot = this.slotOf(hash);
    if (slot < 0) {
      slot = this.#makeRoom(hash);
      this.#entries++;
      Atomics.store(words, used + slot, usedSecond);
    }
    const at = records + slot * recordWords;
    const odd = Atomics.load(words, at + sequenceAt) | 1;
    Atomics.store(words, at + sequenceAt, odd);
    Atomics.store(words, at + expiryHighAt, Math.floor(expiresAtMs / expirySplit));
    Atomics.store(words, at + expiryLowAt, Math.floor(expiresAtMs % expirySplit));
    Atomics.store(words, at + refreshAt, 0);
    for (let i = 0; i < hashWords; i++) {
      Atomics.store(words, at + hashAt + i, hash[i] as number);
    }
    for (let i = 0; i < payload.length; i++) {
      Atomics.store(words, at + payloadAt + i, payload[i] as number);
    }
    Atomics.store(words, at + sequenceAt, (odd + 1) | 0);
    Atomics.store(words, slot, tagOf(hash));
    return slot;
  }

  /** Remove the entry of `hash`; true when there was one. */
  delete(hash: Int32Array): boolean {
    const slot = this.slotOf(hash);
    if (slot < 0) {
      return false;
    }
    this.#remove(slot);
    return true;
  }

  /** Let the next reader that meets `hash` near its expiry ask for a refresh again. */
  releaseRefresh(hash: Int32Array): void {
    const slot = this.slotOf(hash);
    if (slot < 0) {
      return;
    }
    const { words, records, recordWords } = this.#layout;
    Atomics.store(words, records + slot * recordWords + refreshAt, 0);
  }

  /** Second in which `slot` was last used, as readers noted it. */
  usedSecond(slot: number): number {
    return Atomics.load(this.#layout.words, this.#layout.used + slot);
  }

  #holds(slot: number, hash: Int32Array): boolean {
    const { words, records, recordWords } = this.#layout;
    const at = records + slot * recordWords + hashAt;
    for (let i = 0; i < hashWords; i++) {
      if (Atomics.load(words, at + i) !== hash[i]) {
        return false;
      }
    }
    return true;
  }

  // A free slot for `hash`, in the emptier of its buckets. Evicts when both are full, or when the
  // table holds as many entries as it may.
  #makeRoom(hash: Int32Array): number {
    const { words, buckets } = this.#layout;
    const bases = [firstBucket(hash, buckets), secondBucket(hash, buckets)];
    let best = -1;
    let bestFree = 0;
    for (const bucket of bases) {
      let free = 0;
      let at = -1;
      for (let slot = bucket * bucketSlots; slot < (bucket + 1) * bucketSlots; slot++) {
        if (Atomics.load(words, slot) === 0) {
          free++;
          at = slot;
        }
      }
      if (free > bestFree) {
        bestFree = free;
        best = at;
      }
    }
    if (best < 0) {
      const [one = 0, other = 0] = bases.map((bucket) => this.#oldest(bucket * bucketSlots));
      best = this.#isOlder(other, one) ? other : one;
      this.#remove(best);
    } else if (this.#entries >= this.#maxEntries) {
      this.#evictByHand();
    }
    return best;
  }

  // Over the limit though the buckets at hand have room: a hand goes round the table, and of the
  // next four buckets that hold anything the entry used longest ago goes. At the fill this happens
  // at, a bucket holds 6.4 entries on average, so it looks at few more than four.
  #evictByHand(): void {
    let victim = -1;
    for (let tries = 0, seen = 0; tries < this.#layout.buckets && seen < 4; tries++) {
      this.#hand = (this.#hand + 1) % this.#layout.buckets;
      const slot = this.#oldest(this.#hand * bucketSlots);
      if (slot < 0) {
        continue;
      }
      seen++;
      if (victim < 0 || this.#isOlder(slot, victim)) {
        victim = slot;
      }
    }
    if (victim >= 0) {
      this.#remove(victim);
    }
  }

  // Seconds of a monotonic clock: the difference as a 32-bit number survives a wrap.
  #isOlder(slot: number, than: number): boolean {
    return ((this.usedSecond(slot) - this.usedSecond(than)) | 0) < 0;
  }

  #oldest(base: number): number {
    const { words } = this.#layout;
    let oldest = -1;
    for (let slot = base; slot < base + bucketSlots; slot++) {
      if (Atomics.load(words, slot) === 0) {
        continue;
      }
      if (oldest < 0 || this.#isOlder(slot, oldest)) {
        oldest = slot;
      }
    }
    return oldest;
  }

  #remove(slot: number): void {
    this.#onRemove(slot);
    this.#clear(slot);
    this.#entries--;
  }

  // The expiry goes to zero inside the protected section, so that nobody can use the entry after.
  #clear(slot: number): void {
    const { words, records, recordWords } = this.#layout;
    const at = records + slot * recordWords;
    Atomics.store(words, slot, 0);
    const odd = Atomics.load(words, at + sequenceAt) | 1;
    Atomics.store(words, at + sequenceAt, odd);
    for (let i = expiryHighAt; i < payloadAt; i++) {
      Atomics.store(words, at + i, 0);
    }
    Atomics.store(words, at + sequenceAt, (odd + 1) | 0);
  }
}
