/**
 * Column builders: what the OTLP decoder writes into and what the Parquet writer reads out of.
 *
 * Hot code, laid out like Parquet pages so that a page body is (nearly) a copy of the builder's memory:
 * - Values are *dense*: a null takes no slot. `rows` counts rows, `values` counts non-null values.
 * - `validity` is null while every row is valid; from the first null on it is a bitmap, bit i of byte
 *   i >> 3 (LSB first) set when row i holds a value. That is both Arrow's layout and the body of a
 *   bit-packed Parquet definition-level run of width 1.
 * - 64-bit values are pairs of 32-bit words (low, high), so that no BigInt is made per record.
 * - Strings are one byte buffer plus the end offset of each value, so lengths and bytes are contiguous
 *   as DELTA_LENGTH_BYTE_ARRAY wants them. A value is written in place at `bytes[byteLength...]` and
 *   closed with `finish()`, so no JavaScript string exists.
 * - Columns whose value is the same for many rows in a row (process, scope, metric) are *run columns*:
 *   a dictionary of distinct values and runs (index, count). They cost per run, not per row.
 *
 * `truncate(rows)` drops rows from the end: a malformed request or a rejected record takes back what it
 * wrote. It is exact whatever was written since, including an unfinished string value.
 */
import { freeHuge } from "../../runtime/free-buffer.js";
import { keyedHash } from "./keyed-hash.js";

/**
 * Builders begin small: a batch of hundreds of audiences has as many sets of them, each with a few rows. Those that are
 * used again have grown.
 */
const initialRows = 64;
const initialBytes = 2048;
const initialDictionary = 8;
const initialRuns = 8;

/** Smallest power-of-two growth of `current` that holds `needed`. */
function grownCapacity(current: number, needed: number): number {
  let capacity = current;
  while (capacity < needed) {
    capacity *= 2;
  }
  return capacity;
}

/** Row count and validity bitmap that every nullable leaf column shares. */
export class Validity {
  /** Rows written so far, nulls included. */
  rows = 0;
  /** Null rows so far. */
  nulls = 0;
  /** Null while every row is valid; see the head of this file. */
  bitmap: Uint8Array | null = null;

  /** Appends one row that holds a value. */
  pushValid(): void {
    const row = this.rows++;
    if (this.bitmap === null) {
      return;
    }
    this.#ensure(row);
    const byte = row >> 3;
    this.bitmap[byte] = this.bitmap[byte]! | (1 << (row & 7));
  }

  /** Appends one null row. */
  pushNull(): void {
    const row = this.rows++;
    this.nulls++;
    if (this.bitmap === null) {
      this.bitmap = new Uint8Array(grownCapacity(initialRows >> 3, (row >> 3) + 1));
      this.bitmap.fill(0xff, 0, row >> 3);
      this.bitmap[row >> 3] = (1 << (row & 7)) - 1;
      return;
    }
    this.#ensure(row);
    const byte = row >> 3;
    this.bitmap[byte] = this.bitmap[byte]! & ~(1 << (row & 7));
  }

  /** Drops rows from the end and returns how many values are left. */
  truncate(rows: number): number {
    if (this.bitmap === null || rows >= this.rows) {
      this.rows = Math.min(rows, this.rows);
      return this.rows - this.nulls;
    }
    for (let row = rows; row < this.rows; row++) {
      if ((this.bitmap[row >> 3]! & (1 << (row & 7))) === 0) {
        this.nulls--;
      }
    }
    this.rows = rows;
    if (this.nulls === 0) {
      this.bitmap = null;
    }
    return rows - this.nulls;
  }

  reset(): void {
    this.rows = 0;
    this.nulls = 0;
    this.bitmap = null;
  }

  #ensure(row: number): void {
    const bitmap = this.bitmap!;
    if (row >> 3 < bitmap.length) {
      return;
    }
    const grown = new Uint8Array(bitmap.length * 2);
    grown.set(bitmap);
    this.bitmap = grown;
  }
}

// The classes of numbers say the same thrice: one class, or one `push` of a parent, would see three kinds of columns,
// and so could not be inlined where records are decoded.

/** 64-bit integers: signed, unsigned, or nanoseconds since the Unix epoch; the schema says which. */
export class Int64Column {
  readonly kind = "int64";
  readonly validity = new Validity();
  values = 0;
  /** `words[2 * i]` is the low and `words[2 * i + 1]` the high half of value i. */
  words: Uint32Array = new Uint32Array(2 * initialRows);

  get rows(): number {
    return this.validity.rows;
  }

  push(low: number, high: number): void {
    const at = 2 * this.values++;
    if (at === this.words.length) {
      this.#grow();
    }
    this.words[at] = low;
    this.words[at + 1] = high;
    this.validity.pushValid();
  }

  pushNull(): void {
    this.validity.pushNull();
  }

  truncate(rows: number): void {
    this.values = this.validity.truncate(rows);
  }

  reset(): void {
    this.values = 0;
    this.validity.reset();
  }

  #grow(): void {
    const grown = new Uint32Array(this.words.length * 2);
    grown.set(this.words);
    this.words = grown;
  }
}

/** 32-bit signed integers. */
export class Int32Column {
  readonly kind = "int32";
  readonly validity = new Validity();
  values = 0;
  data: Int32Array = new Int32Array(initialRows);

  get rows(): number {
    return this.validity.rows;
  }

  push(value: number): void {
    const at = this.values++;
    if (at === this.data.length) {
      this.#grow();
    }
    this.data[at] = value;
    this.validity.pushValid();
  }

  pushNull(): void {
    this.validity.pushNull();
  }

  truncate(rows: number): void {
    this.values = this.validity.truncate(rows);
  }

  reset(): void {
    this.values = 0;
    this.validity.reset();
  }

  #grow(): void {
    const grown = new Int32Array(this.data.length * 2);
    grown.set(this.data);
    this.data = grown;
  }
}

/** IEEE 754 doubles, pushed as their two 32-bit words so that every NaN keeps its bits. */
export class Float64Column {
  readonly kind = "float64";
  readonly validity = new Validity();
  values = 0;
  words: Uint32Array = new Uint32Array(2 * initialRows);

  get rows(): number {
    return this.validity.rows;
  }

  push(low: number, high: number): void {
    const at = 2 * this.values++;
    if (at === this.words.length) {
      this.#grow();
    }
    this.words[at] = low;
    this.words[at + 1] = high;
    this.validity.pushValid();
  }

  pushNull(): void {
    this.validity.pushNull();
  }

  truncate(rows: number): void {
    this.values = this.validity.truncate(rows);
  }

  reset(): void {
    this.values = 0;
    this.validity.reset();
  }

  #grow(): void {
    const grown = new Uint32Array(this.words.length * 2);
    grown.set(this.words);
    this.words = grown;
  }
}

/** UTF-8 strings. The writer guarantees valid UTF-8; nothing checks it again. */
export class Utf8Column {
  readonly kind = "utf8";
  readonly validity = new Validity();
  values = 0;
  /** Bytes written, the unfinished value included: the write cursor. */
  byteLength = 0;
  bytes: Uint8Array = new Uint8Array(initialBytes);
  /** View of all of `bytes`: the decoder copies text in words of four bytes. */
  view: DataView = new DataView(this.bytes.buffer);
  /** `ends[i]` is where value i ends in `bytes`; it starts where value i - 1 ends. */
  ends: Int32Array = new Int32Array(initialRows);

  get rows(): number {
    return this.validity.rows;
  }

  /** Makes room for `count` more bytes at `byteLength`. `bytes` may be another array afterwards. */
  reserve(count: number): void {
    const needed = this.byteLength + count;
    if (needed <= this.bytes.length) {
      return;
    }
    const grown = new Uint8Array(grownCapacity(this.bytes.length, needed));
    grown.set(this.bytes.subarray(0, this.byteLength));
    freeHuge(this.bytes);
    this.bytes = grown;
    this.view = new DataView(grown.buffer);
  }

  /** Closes the value that was written between the last end and `byteLength`. */
  finish(): void {
    const at = this.values++;
    if (at === this.ends.length) {
      const grown = new Int32Array(this.ends.length * 2);
      grown.set(this.ends);
      this.ends = grown;
    }
    this.ends[at] = this.byteLength;
    this.validity.pushValid();
  }

  /** Where the unfinished value starts. */
  get valueStart(): number {
    return this.values === 0 ? 0 : this.ends[this.values - 1]!;
  }

  /** Closes the value that was written, or pushes null when it is empty. */
  finishOrNull(): void {
    if (this.byteLength === this.valueStart) {
      this.validity.pushNull();
    } else {
      this.finish();
    }
  }

  /** Takes back what was written of the unfinished value. */
  abandon(): void {
    this.byteLength = this.valueStart;
  }

  pushNull(): void {
    this.validity.pushNull();
  }

  truncate(rows: number): void {
    this.values = this.validity.truncate(rows);
    this.abandon();
  }

  reset(): void {
    this.values = 0;
    this.byteLength = 0;
    this.validity.reset();
  }
}

/** Booleans, a byte each until they are written. */
export class BoolColumn {
  readonly kind = "bool";
  readonly validity = new Validity();
  values = 0;
  data: Uint8Array = new Uint8Array(initialRows);

  get rows(): number {
    return this.validity.rows;
  }

  push(value: boolean): void {
    const at = this.values++;
    if (at === this.data.length) {
      const grown = new Uint8Array(this.data.length * 2);
      grown.set(this.data);
      this.data = grown;
    }
    this.data[at] = value ? 1 : 0;
    this.validity.pushValid();
  }

  pushNull(): void {
    this.validity.pushNull();
  }

  truncate(rows: number): void {
    this.values = this.validity.truncate(rows);
  }

  reset(): void {
    this.values = 0;
    this.validity.reset();
  }
}

/**
 * Distinct byte strings in the order of their first appearance, found again by content: an
 * open-addressing table over one byte buffer. Interning allocates nothing per call. Senders choose the strings, and
 * nothing bounds probing but a hash that they cannot foresee.
 */
export class ByteDictionary {
  size = 0;
  byteLength = 0;
  bytes: Uint8Array = new Uint8Array(initialDictionary * 32);
  ends: Int32Array = new Int32Array(initialDictionary);
  #hashes = new Int32Array(initialDictionary);
  #slots = new Int32Array(initialDictionary * 2).fill(-1);

  /** The index of `source[start, end)`, added when it is new. */
  intern(source: Uint8Array, start: number, end: number): number {
    const hash = keyedHash(source, start, end);
    const mask = this.#slots.length - 1;
    for (let slot = hash & mask; ; slot = (slot + 1) & mask) {
      const index = this.#slots[slot]!;
      if (index === -1) {
        return this.#add(source, start, end, hash, slot);
      }
      if (this.#hashes[index] === hash && this.#equals(index, source, start, end)) {
        return index;
      }
    }
  }

  /** Where value `index` starts in `bytes`. */
  start(index: number): number {
    return index === 0 ? 0 : this.ends[index - 1]!;
  }

  reset(): void {
    this.size = 0;
    this.byteLength = 0;
    this.#slots.fill(-1);
  }

  #equals(index: number, source: Uint8Array, start: number, end: number): boolean {
    const from = this.start(index);
    if (this.ends[index]! - from !== end - start) {
      return false;
    }
    for (let i = start, j = from; i < end; i++, j++) {
      if (source[i] !== this.bytes[j]) {
        return false;
      }
    }
    return true;
  }

  #add(source: Uint8Array, start: number, end: number, hash: number, slot: number): number {
    const index = this.size++;
    if (index === this.ends.length) {
      const ends = new Int32Array(index * 2);
      ends.set(this.ends);
      this.ends = ends;
      const hashes = new Int32Array(index * 2);
      hashes.set(this.#hashes);
      this.#hashes = hashes;
    }
    const needed = this.byteLength + (end - start);
    if (needed > this.bytes.length) {
      const grown = new Uint8Array(grownCapacity(this.bytes.length, needed));
      grown.set(this.bytes.subarray(0, this.byteLength));
      freeHuge(this.bytes);
      this.bytes = grown;
    }
    this.bytes.set(source.subarray(start, end), this.byteLength);
    this.byteLength = needed;
    this.ends[index] = needed;
    this.#hashes[index] = hash;
    this.#slots[slot] = index;
    if (this.size * 2 > this.#slots.length) {
      this.#rehash();
    }
    return index;
  }

  #rehash(): void {
    const slots = new Int32Array(this.#slots.length * 2).fill(-1);
    const mask = slots.length - 1;
    for (let index = 0; index < this.size; index++) {
      let slot = this.#hashes[index]! & mask;
      while (slots[slot] !== -1) {
        slot = (slot + 1) & mask;
      }
      slots[slot] = index;
    }
    this.#slots = slots;
  }
}

/**
 * A column of runs over a dictionary. Dictionary values are the raw bytes of the physical type that the
 * schema names: UTF-8, or 4 or 8 little-endian bytes for integers. Index -1 is null.
 */
export class RunColumn {
  readonly kind = "run";
  readonly dictionary = new ByteDictionary();
  rows = 0;
  nulls = 0;
  runs = 0;
  /** Dictionary index of run i, or -1 for null rows. */
  runIndex: Int32Array = new Int32Array(initialRuns);
  /** Rows in run i, at least 1. */
  runRows: Int32Array = new Int32Array(initialRuns);

  /** Appends `count` rows of one dictionary value (-1: null). Zero rows append nothing. */
  append(index: number, count: number): void {
    if (count === 0) {
      return;
    }
    this.rows += count;
    if (index === -1) {
      this.nulls += count;
    }
    const last = this.runs - 1;
    if (last >= 0 && this.runIndex[last] === index) {
      this.runRows[last] = this.runRows[last]! + count;
      return;
    }
    if (this.runs === this.runIndex.length) {
      this.#grow();
    }
    this.runIndex[this.runs] = index;
    this.runRows[this.runs] = count;
    this.runs++;
  }

  /** Interns `source[start, end)` and appends `count` rows of it. */
  appendBytes(source: Uint8Array, start: number, end: number, count: number): void {
    if (count !== 0) {
      this.append(this.dictionary.intern(source, start, end), count);
    }
  }

  /** Drops rows from the end; dictionary values that no row uses may stay. */
  truncate(rows: number): void {
    while (this.rows > rows) {
      const last = this.runs - 1;
      const drop = Math.min(this.rows - rows, this.runRows[last]!);
      if (this.runIndex[last] === -1) {
        this.nulls -= drop;
      }
      this.rows -= drop;
      this.runRows[last] = this.runRows[last]! - drop;
      if (this.runRows[last] === 0) {
        this.runs--;
      }
    }
  }

  reset(): void {
    this.rows = 0;
    this.nulls = 0;
    this.runs = 0;
    this.dictionary.reset();
  }

  #grow(): void {
    const index = new Int32Array(this.runs * 2);
    index.set(this.runIndex);
    this.runIndex = index;
    const rows = new Int32Array(this.runs * 2);
    rows.set(this.runRows);
    this.runRows = rows;
  }
}

/** A leaf column: one value or null per row. */
export type LeafColumn = Int64Column | Int32Column | Float64Column | Utf8Column | BoolColumn | RunColumn;

/**
 * A list per row, never null, perhaps empty. Write an element by pushing one value on every child
 * column; close the row with `finish()`. The elements are a struct of the children, or the bare value
 * when the schema says so (a single child called `element`).
 */
export class ListColumn<Children extends Record<string, LeafColumn> = Record<string, LeafColumn>> {
  readonly kind = "list";
  readonly children: Children;
  rows = 0;
  /** `ends[i]` counts the elements in rows 0 to i. */
  ends: Int32Array = new Int32Array(initialRows);
  readonly #leaves: readonly LeafColumn[];

  constructor(children: Children) {
    this.children = children;
    this.#leaves = Object.values(children);
  }

  /** Closes the row: its list is every element that was pushed since the last row. */
  finish(): void {
    const at = this.rows++;
    if (at === this.ends.length) {
      const grown = new Int32Array(this.ends.length * 2);
      grown.set(this.ends);
      this.ends = grown;
    }
    this.ends[at] = this.#leaves[0]!.rows;
  }

  truncate(rows: number): void {
    this.rows = Math.min(rows, this.rows);
    const elements = this.rows === 0 ? 0 : this.ends[this.rows - 1]!;
    for (const leaf of this.#leaves) {
      leaf.truncate(elements);
    }
  }

  reset(): void {
    this.rows = 0;
    for (const leaf of this.#leaves) {
      leaf.reset();
    }
  }
}

/** Any column of a table. */
export type Column = LeafColumn | ListColumn;
