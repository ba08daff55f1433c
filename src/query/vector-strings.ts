/**
 * Strings of a DuckDB vector as offsets and bytes. Hot code.
 *
 * A vector of strings holds 16 bytes a row: the length, then up to 12 bytes in place, or 4 bytes of
 * prefix and a pointer. A call into the bindings costs a microsecond, so pointers are not followed one by
 * one. Strings that follow each other in memory are one run, and a chunk that DuckDB has copied consists of a
 * few runs; runs that lie on the same or on adjacent memory pages are copied with one call. Every page
 * between the ends of such a copy holds a byte of a string, so it is mapped.
 */
import type { RawBindings } from "./duckdb-bindings.js";

const inlineBytes = 12;
const pageBytes = 4096;
/** Windows that a run is compared with before it begins one of its own. */
const recentWindows = 4;
/** From here on a call beats a loop. */
const loopBytes = 40;
const twoTo32 = 4294967296;

/** Strings of some rows: row i is `bytes[ends[i - 1] ... ends[i])`. */
export interface StringRows {
  readonly ends: Int32Array;
  readonly bytes: Uint8Array;
}

/** Strings outside of the vector that follow each other in memory, in the order of their rows. */
interface Runs {
  /** Of each run the two halves of its address, and its bytes. */
  readonly lows: number[];
  readonly highs: number[];
  readonly lengths: number[];
}

/**
 * Reads strings out of `entries`, the vector's memory.
 * @param ranges pairs of first row and row count
 * @param validity whether a row holds a value; the entry of a null row is garbage
 * @throws RangeError when they are longer than 2 GiB together
 */
export function readStrings(
  bindings: RawBindings,
  entries: Uint8Array,
  ranges: Int32Array,
  rows: number,
  validity: Uint8Array | null,
): StringRows {
  const words = new Int32Array(entries.buffer, entries.byteOffset, entries.byteLength >> 2);
  const ends = new Int32Array(rows);
  const runs: Runs = { lows: [], highs: [], lengths: [] };
  let total = 0;
  let inlineTotal = 0;
  let at = 0;
  let nextLow = 0;
  let nextHigh = -1;
  let run = -1;
  let runLength = 0;
  for (let r = 0; r < ranges.length; r += 2) {
    const first = ranges[r]!;
    const last = first + ranges[r + 1]!;
    for (let row = first; row < last; row++) {
      if (validity === null || (validity[row >> 3]! & (1 << (row & 7))) !== 0) {
        const length = words[row * 4]!;
        total += length;
        if (length <= inlineBytes) inlineTotal += length;
        else {
          const low = words[row * 4 + 2]!;
          const high = words[row * 4 + 3]!;
          if (low !== nextLow || high !== nextHigh) {
            if (run >= 0) runs.lengths[run] = runLength;
            run++;
            runLength = 0;
            runs.lows.push(low);
            runs.highs.push(high);
            runs.lengths.push(0);
          }
          runLength += length;
          nextLow = (low + length) | 0;
          nextHigh = nextLow >>> 0 < low >>> 0 ? (high + 1) | 0 : high;
        }
      }
      ends[at++] = total;
    }
  }
  if (run >= 0) runs.lengths[run] = runLength;
  if (total > 0x7fffffff) throw new RangeError("more than 2 GiB of strings in one vector");
  if (run < 0) {
    return { ends, bytes: copyRows(words, ranges, validity, total, [], []) };
  }
  const { starts, sources } = readRuns(bindings, runs);
  if (inlineTotal === 0) {
    return { ends, bytes: joinRuns(runs.lengths, starts, sources, total) };
  }
  return { ends, bytes: copyRows(words, ranges, validity, total, starts, sources, runs.lengths) };
}

/** Runs end to end. */
function joinRuns(
  lengths: readonly number[],
  starts: readonly number[],
  sources: readonly Uint8Array[],
  total: number,
): Uint8Array {
  if (lengths.length === 1) return sources[0]!.subarray(starts[0], starts[0]! + total);
  // Every byte is written.
  const bytes = Buffer.allocUnsafeSlow(total);
  let out = 0;
  for (let run = 0; run < lengths.length; run++) {
    out = copy(bytes, out, sources[run]!, starts[run]!, lengths[run]!);
  }
  return bytes;
}

/** Rows of which some are in the vector itself, others in runs. */
function copyRows(
  words: Int32Array,
  ranges: Int32Array,
  validity: Uint8Array | null,
  total: number,
  starts: readonly number[],
  sources: readonly Uint8Array[],
  lengths: readonly number[] = [],
): Uint8Array {
  // Twelve bytes are written for a string in place, whatever its length; all that is not overwritten by the
  // next row lies behind the end.
  const room = Buffer.allocUnsafeSlow(total + inlineBytes);
  const view = new DataView(room.buffer, room.byteOffset, room.byteLength);
  let out = 0;
  let run = -1;
  /** What is left of the run, where it goes on, and how much of it has been passed but not copied. */
  let left = 0;
  let start = 0;
  let pending = 0;
  let source: Uint8Array = room;
  for (let r = 0; r < ranges.length; r += 2) {
    const first = ranges[r]!;
    const last = first + ranges[r + 1]!;
    for (let row = first; row < last; row++) {
      if (validity !== null && (validity[row >> 3]! & (1 << (row & 7))) === 0) continue;
      const length = words[row * 4]!;
      if (length > inlineBytes) {
        if (left === 0) {
          if (pending > 0) out = copy(room, out, source, start, pending);
          pending = 0;
          run++;
          left = lengths[run]!;
          start = starts[run]!;
          source = sources[run]!;
        }
        pending += length;
        left -= length;
      } else if (length > 0) {
        if (pending > 0) {
          out = copy(room, out, source, start, pending);
          start += pending;
          pending = 0;
        }
        view.setInt32(out, words[row * 4 + 1]!, true);
        view.setInt32(out + 4, words[row * 4 + 2]!, true);
        view.setInt32(out + 8, words[row * 4 + 3]!, true);
        out += length;
      }
    }
  }
  if (pending > 0) copy(room, out, source, start, pending);
  return room.subarray(0, total);
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

/** Memory that is copied with one call. */
interface Window {
  from: number;
  to: number;
}

/** For each run the copy that holds it and where it starts there. */
function readRuns(
  bindings: RawBindings,
  { lows, highs, lengths }: Runs,
): { readonly starts: number[]; readonly sources: Uint8Array[] } {
  const addresses = lows.map((low, run) => (highs[run]! >>> 0) * twoTo32 + (low >>> 0));
  const windows = joinAdjacent(touchedWindows(addresses, lengths));
  const pointer = new ArrayBuffer(8);
  const pointerWords = new Uint32Array(pointer);
  const copies = windows.map(({ from, to }) => {
    pointerWords[0] = from % twoTo32;
    pointerWords[1] = Math.floor(from / twoTo32);
    return bindings.get_data_from_pointer(pointer, 0, to - from);
  });
  const sources: Uint8Array[] = [];
  const starts: number[] = [];
  let index = 0;
  for (const address of addresses) {
    if (address < windows[index]!.from || address >= windows[index]!.to) {
      index = windowOf(windows, address);
    }
    sources.push(copies[index]!);
    starts.push(address - windows[index]!.from);
  }
  return { starts, sources };
}

/** The last window that begins at or before an address. */
function windowOf(windows: readonly Window[], address: number): number {
  let low = 0;
  let high = windows.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (windows[middle]!.from <= address) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** Whether no page lies between the two. */
function adjacent(a: Window, from: number, to: number): boolean {
  return (
    Math.floor(from / pageBytes) <= Math.floor((a.to - 1) / pageBytes) + 1 &&
    Math.floor((to - 1) / pageBytes) >= Math.floor(a.from / pageBytes) - 1
  );
}

/**
 * Windows around the runs. Runs of a column mostly follow each other in a few places, so one nearly always
 * belongs to one of the windows that were met last.
 */
function touchedWindows(addresses: readonly number[], lengths: readonly number[]): Window[] {
  const windows: Window[] = [];
  for (const [run, from] of addresses.entries()) {
    const to = from + lengths[run]!;
    let found: Window | null = null;
    const stop = Math.max(0, windows.length - recentWindows);
    for (let i = windows.length - 1; i >= stop && found === null; i--) {
      if (adjacent(windows[i]!, from, to)) found = windows[i]!;
    }
    if (found === null) windows.push({ from, to });
    else {
      if (from < found.from) found.from = from;
      if (to > found.to) found.to = to;
    }
  }
  return windows;
}

/** The windows in order; those with no page between them are one. */
function joinAdjacent(windows: Window[]): Window[] {
  if (windows.length === 1) return windows;
  windows.sort((a, b) => a.from - b.from);
  const joined: Window[] = [];
  let last: Window | null = null;
  for (const window of windows) {
    if (last !== null && adjacent(last, window.from, window.to)) {
      if (window.to > last.to) last.to = window.to;
    } else {
      joined.push(window);
      last = window;
    }
  }
  return joined;
}
