/**
 * Strings of a DuckDB vector as offsets and bytes. Hot code.
 *
 * A vector of strings holds 16 bytes a row: the length, then up to 12 bytes in place, or 4 bytes of
 * prefix and a pointer. A call into the bindings costs a microsecond, so pointers are not followed one
 * by one: the memory pages that the strings of a vector touch are found first, and each run of adjacent
 * pages is copied with one call. Every page read that way holds a byte of a string, so it is mapped.
 */
import type { RawBindings } from "./duckdb-bindings.js";

const inlineBytes = 12;
const pageBytes = 4096;
/** Runs of pages that a string is compared with before it begins a run of its own. */
const recentRuns = 4;
/** From here on a call beats a loop. */
const loopBytes = 40;

/** Strings of some rows: row i is `bytes[ends[i - 1] ... ends[i])`. */
export interface StringRows {
  readonly ends: Int32Array;
  readonly bytes: Uint8Array;
}

/**
 * Reads strings out of `entries`, the vector's memory.
 * @param ranges pairs of first row and row count
 * @param valid whether a row holds a value; the entry of a null row is garbage
 */
export function readStrings(
  bindings: RawBindings,
  entries: Uint8Array,
  ranges: Int32Array,
  rows: number,
  validity: Uint8Array | null,
): StringRows {
  const words = new Uint32Array(entries.buffer, entries.byteOffset, entries.byteLength >> 2);
  const ends = new Int32Array(rows);
  let total = 0;
  let longRows = 0;
  let at = 0;
  for (let r = 0; r < ranges.length; r += 2) {
    const first = ranges[r]!;
    const last = first + ranges[r + 1]!;
    for (let row = first; row < last; row++) {
      if (validity === null || (validity[row >> 3]! & (1 << (row & 7))) !== 0) {
        const length = words[row * 4]!;
        total += length;
        if (length > inlineBytes) {
          longRows++;
        }
      }
      ends[at++] = total;
    }
  }
  if (total > 0x7fffffff) throw new RangeError("more than 2 GiB of strings in one vector");
  const bytes = new Uint8Array(total);
  const windows = longRows === 0 ? null : openWindows(bindings, words, ranges, validity);
  let out = 0;
  // Strings that follow each other in memory are copied together.
  let pending: Uint8Array = bytes;
  let pendingStart = 0;
  let pendingBytes = 0;
  for (let r = 0; r < ranges.length; r += 2) {
    const first = ranges[r]!;
    const last = first + ranges[r + 1]!;
    for (let row = first; row < last; row++) {
      if (validity !== null && (validity[row >> 3]! & (1 << (row & 7))) === 0) continue;
      const length = words[row * 4]!;
      if (length <= inlineBytes || windows === null) {
        if (pendingBytes > 0) {
          out = copy(bytes, out, pending, pendingStart, pendingBytes);
          pendingBytes = 0;
        }
        for (let from = row * 16 + 4, to = from + length; from < to; from++) {
          bytes[out++] = entries[from]!;
        }
        continue;
      }
      const address = words[row * 4 + 3]! * 4294967296 + words[row * 4 + 2]!;
      const window = windows.at(address);
      const start = address - windows.base;
      if (window === pending && start === pendingStart + pendingBytes) {
        pendingBytes += length;
      } else {
        if (pendingBytes > 0) out = copy(bytes, out, pending, pendingStart, pendingBytes);
        pending = window;
        pendingStart = start;
        pendingBytes = length;
      }
    }
  }
  if (pendingBytes > 0) copy(bytes, out, pending, pendingStart, pendingBytes);
  return { ends, bytes };
}

function copy(
  target: Uint8Array,
  out: number,
  source: Uint8Array,
  start: number,
  length: number,
): number {
  if (length > loopBytes) target.set(source.subarray(start, start + length), out);
  else for (let i = 0; i < length; i++) target[out + i] = source[start + i]!;
  return out + length;
}

/** Copies of runs of pages, looked up by address. */
class Windows {
  readonly #starts: readonly number[];
  readonly #copies: readonly Uint8Array[];
  #last = 0;
  /** Address of the first byte of the window that `at` returned last. */
  base: number;

  constructor(starts: readonly number[], copies: readonly Uint8Array[]) {
    this.#starts = starts;
    this.#copies = copies;
    this.base = starts[0]!;
  }

  at(address: number): Uint8Array {
    let index = this.#last;
    let copied = this.#copies[index]!;
    if (address < this.base || address >= this.base + copied.length) {
      let low = 0;
      let high = this.#starts.length - 1;
      while (low < high) {
        const middle = (low + high + 1) >> 1;
        if (this.#starts[middle]! <= address) low = middle;
        else high = middle - 1;
      }
      index = low;
      this.#last = index;
      this.base = this.#starts[index]!;
      copied = this.#copies[index]!;
    }
    return copied;
  }
}

function openWindows(
  bindings: RawBindings,
  words: Uint32Array,
  ranges: Int32Array,
  validity: Uint8Array | null,
): Windows {
  // Strings of a column mostly follow each other in a few places, so a string nearly always belongs to one
  // of the runs of pages that were met last.
  const froms: number[] = [];
  const tos: number[] = [];
  for (let r = 0; r < ranges.length; r += 2) {
    const first = ranges[r]!;
    const last = first + ranges[r + 1]!;
    for (let row = first; row < last; row++) {
      if (validity !== null && (validity[row >> 3]! & (1 << (row & 7))) === 0) continue;
      const length = words[row * 4]!;
      if (length <= inlineBytes) continue;
      const address = words[row * 4 + 3]! * 4294967296 + words[row * 4 + 2]!;
      const from = Math.floor(address / pageBytes);
      const to = Math.floor((address + length - 1) / pageBytes);
      let run = froms.length - 1;
      for (const stop = run - recentRuns; run > stop && run >= 0; run--) {
        if (from >= froms[run]! - 1 && from <= tos[run]! + 1) break;
      }
      if (run < 0 || run <= froms.length - 1 - recentRuns) {
        froms.push(from);
        tos.push(to);
      } else {
        if (from < froms[run]!) froms[run] = from;
        if (to > tos[run]!) tos[run] = to;
      }
    }
  }
  const order = Array.from(froms.keys());
  if (order.length > 1) order.sort((a, b) => froms[a]! - froms[b]!);
  const runs = new PageRuns(bindings);
  for (const run of order) runs.add(froms[run]!, tos[run]!);
  return runs.finish();
}

/** Joins touched pages, which arrive in ascending order of their start, into runs and copies each run. */
class PageRuns {
  readonly #bindings: RawBindings;
  readonly #pointer = new ArrayBuffer(8);
  readonly #starts: number[] = [];
  readonly #copies: Uint8Array[] = [];
  #from = -1;
  #to = -1;

  constructor(bindings: RawBindings) {
    this.#bindings = bindings;
  }

  add(from: number, to: number): void {
    if (this.#from >= 0 && from <= this.#to + 1) {
      if (to > this.#to) this.#to = to;
      return;
    }
    this.#close();
    this.#from = from;
    this.#to = to;
  }

  finish(): Windows {
    this.#close();
    return new Windows(this.#starts, this.#copies);
  }

  #close(): void {
    if (this.#from < 0) return;
    const start = this.#from * pageBytes;
    const words = new Uint32Array(this.#pointer);
    words[0] = start % 4294967296;
    words[1] = Math.floor(start / 4294967296);
    const length = (this.#to - this.#from + 1) * pageBytes;
    this.#starts.push(start);
    this.#copies.push(this.#bindings.get_data_from_pointer(this.#pointer, 0, length));
  }
}
