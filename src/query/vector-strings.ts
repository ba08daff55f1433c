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
/** Pages between the lowest and the highest that are mapped with a table of pages; beyond, they are sorted. */
const maxTablePages = 1 << 14;
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
  let lowest = Infinity;
  let highest = 0;
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
          const address = words[row * 4 + 3]! * 4294967296 + words[row * 4 + 2]!;
          if (address < lowest) lowest = address;
          if (address + length > highest) highest = address + length;
        }
      }
      ends[at++] = total;
    }
  }
  if (total > 0x7fffffff) throw new RangeError("more than 2 GiB of strings in one vector");
  const bytes = new Uint8Array(total);
  const windows =
    longRows === 0
      ? null
      : openWindows(bindings, words, ranges, validity, longRows, lowest, highest);
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
  longRows: number,
  lowest: number,
  highest: number,
): Windows {
  const firstPage = Math.floor(lowest / pageBytes);
  const pages = Math.floor((highest - 1) / pageBytes) - firstPage + 1;
  const runs = new PageRuns(bindings);
  if (pages <= maxTablePages) {
    const touched = new Uint8Array(pages);
    eachLong(words, ranges, validity, (address, length) => {
      const from = Math.floor(address / pageBytes) - firstPage;
      const to = Math.floor((address + length - 1) / pageBytes) - firstPage;
      for (let page = from; page <= to; page++) touched[page] = 1;
    });
    for (let page = 0; page < pages; page++) {
      if (touched[page] === 1) runs.add(firstPage + page, firstPage + page);
    }
  } else {
    const starts = new Float64Array(longRows);
    const lengths = new Map<number, number>();
    let count = 0;
    eachLong(words, ranges, validity, (address, length) => {
      starts[count++] = address;
      const known = lengths.get(address);
      if (known === undefined || known < length) lengths.set(address, length);
    });
    starts.sort();
    for (const address of starts) {
      const length = lengths.get(address)!;
      runs.add(Math.floor(address / pageBytes), Math.floor((address + length - 1) / pageBytes));
    }
  }
  return runs.finish();
}

function eachLong(
  words: Uint32Array,
  ranges: Int32Array,
  validity: Uint8Array | null,
  visit: (address: number, length: number) => void,
): void {
  for (let r = 0; r < ranges.length; r += 2) {
    const first = ranges[r]!;
    const last = first + ranges[r + 1]!;
    for (let row = first; row < last; row++) {
      if (validity !== null && (validity[row >> 3]! & (1 << (row & 7))) === 0) continue;
      const length = words[row * 4]!;
      if (length > inlineBytes) {
        visit(words[row * 4 + 3]! * 4294967296 + words[row * 4 + 2]!, length);
      }
    }
  }
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
