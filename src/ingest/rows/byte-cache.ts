/**
 * A bounded cache from bytes to whatever was derived from them: resources and scopes, which senders
 * repeat in every request. A hit makes no string and no garbage.
 *
 * Byte-level code. Set-associative: a hash picks one of `sets` sets of four entries, equality of all
 * bytes finds the entry, and a new one takes the place of the oldest of its set. So colliding keys, by
 * accident or on purpose, cost at most four comparisons. What is beyond the memory that it may take goes in turn.
 */

const ways = 4;
/** Longer keys are not kept. */
const longestKey = 16 * 1024;

interface Entry<V> {
  readonly salt: number;
  readonly view: DataView;
  readonly value: V;
  /** What it counts for. */
  readonly bytes: number;
}

/** See the head of this file. */
export class ByteCache<V> {
  readonly #sets: number;
  readonly #limitBytes: number;
  readonly #entries: (Entry<V> | undefined)[];
  readonly #nextWay: Uint8Array;
  #last: Entry<V> | undefined;
  #heldBytes = 0;
  /** The entry that goes next. */
  #hand = 0;

  /** @param sets a power of two. @param limitBytes of keys and values */
  constructor(sets: number, limitBytes: number) {
    this.#sets = sets;
    this.#limitBytes = limitBytes;
    this.#entries = Array.from({ length: sets * ways }, () => undefined);
    this.#nextWay = new Uint8Array(sets);
  }

  /** The value kept for bytes `[start, end)` of `view` under a salt (a number that is part of the key). */
  find(salt: number, view: DataView, start: number, end: number): V | undefined {
    const last = this.#last;
    if (last !== undefined && matches(last, salt, view, start, end)) {
      return last.value;
    }
    const first = this.#setOf(salt, view, start, end) * ways;
    for (let way = first; way < first + ways; way++) {
      const entry = this.#entries[way];
      if (entry !== undefined && matches(entry, salt, view, start, end)) {
        this.#last = entry;
        return entry.value;
      }
    }
    return undefined;
  }

  /**
   * Keeps a value for bytes that {@link find} did not find; copies the bytes.
   * @param valueBytes about how much memory it takes
   */
  add(salt: number, view: DataView, start: number, end: number, value: V, valueBytes: number): void {
    if (end - start > longestKey) {
      return;
    }
    const key = new Uint8Array(view.buffer, view.byteOffset + start, end - start).slice();
    const entry = { salt, view: new DataView(key.buffer), value, bytes: key.length + valueBytes };
    const set = this.#setOf(salt, view, start, end);
    const way = this.#nextWay[set]!;
    const slot = set * ways + way;
    this.#heldBytes += entry.bytes - (this.#entries[slot]?.bytes ?? 0);
    this.#entries[slot] = entry;
    this.#nextWay[set] = (way + 1) % ways;
    this.#last = entry;
    while (this.#heldBytes > this.#limitBytes) {
      this.#drop();
    }
  }

  #drop(): void {
    const entry = this.#entries[this.#hand];
    if (entry !== undefined) {
      this.#entries[this.#hand] = undefined;
      this.#heldBytes -= entry.bytes;
    }
    this.#hand = (this.#hand + 1) % this.#entries.length;
  }

  #setOf(salt: number, view: DataView, start: number, end: number): number {
    let hash = salt ^ (end - start);
    let pos = start;
    for (; pos < end - 3; pos += 4) {
      hash = Math.imul(hash ^ view.getInt32(pos, true), 0x9e3779b1);
      hash ^= hash >>> 15;
    }
    for (; pos < end; pos++) {
      hash = Math.imul(hash ^ view.getUint8(pos), 0x01000193);
    }
    return (hash ^ (hash >>> 13)) & (this.#sets - 1);
  }
}

function matches<V>(entry: Entry<V>, salt: number, view: DataView, start: number, end: number): boolean {
  const key = entry.view;
  const length = end - start;
  if (entry.salt !== salt || key.byteLength !== length) {
    return false;
  }
  let at = 0;
  for (; at < length - 3; at += 4) {
    if (key.getInt32(at, true) !== view.getInt32(start + at, true)) {
      return false;
    }
  }
  for (; at < length; at++) {
    if (key.getUint8(at) !== view.getUint8(start + at)) {
      return false;
    }
  }
  return true;
}
