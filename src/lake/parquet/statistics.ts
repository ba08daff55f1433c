/**
 * Column statistics in one pass over a builder. Bounds are PLAIN-encoded bytes in the column's order.
 * Doubles have none: NaN and signed zeros make their bounds a trap for readers.
 */
import type { Int32Column, Int64Column, RunColumn } from "../tables/columns.js";

/** Statistics of one column chunk; null bounds mean that none are written. */
export interface Statistics {
  readonly nulls: number;
  readonly min: Uint8Array | null;
  readonly max: Uint8Array | null;
}

/** Strings longer than this make no bounds. */
const maximumBoundBytes = 64;
/** Dictionaries larger than this make no bounds. */
const maximumBoundEntries = 16;

/** Statistics of a column whose values all equal the one of its dictionary, PLAIN-encoded. */
export function constantStatistics(nulls: number, value: Uint8Array): Statistics {
  return { nulls, min: value, max: value };
}

/** Smallest and largest value as low and high words; only meaningful when there is a value. */
interface WordBounds {
  readonly minLow: number;
  readonly minHigh: number;
  readonly maxLow: number;
  readonly maxHigh: number;
}

/**
 * Bounds of 64-bit values. Comparing happens on signed words with flipped top bits where the order is
 * unsigned, so that V8 stays with small integers.
 */
function boundsOfWords(words: Uint32Array, values: number, unsigned: boolean): WordBounds {
  const signed = new Int32Array(words.buffer, words.byteOffset, values * 2);
  const flip = unsigned ? 0x80000000 | 0 : 0;
  let minLow = 0x7fffffff;
  let minHigh = 0x7fffffff;
  let maxLow = 0x80000000 | 0;
  let maxHigh = 0x80000000 | 0;
  for (let i = 0; i < signed.length; i += 2) {
    const low = signed[i]! ^ 0x80000000;
    const high = signed[i + 1]! ^ flip;
    if (high < minHigh || (high === minHigh && low < minLow)) {
      minHigh = high;
      minLow = low;
    }
    if (high > maxHigh || (high === maxHigh && low > maxLow)) {
      maxHigh = high;
      maxLow = low;
    }
  }
  return {
    minLow: minLow ^ 0x80000000,
    minHigh: minHigh ^ flip,
    maxLow: maxLow ^ 0x80000000,
    maxHigh: maxHigh ^ flip,
  };
}

function plainWords(low: number, high: number): Uint8Array {
  const bytes = new Uint8Array(8);
  const view = new DataView(bytes.buffer);
  view.setInt32(0, low, true);
  view.setInt32(4, high, true);
  return bytes;
}

/** Statistics of a 64-bit integer column. */
export function int64Statistics(column: Int64Column, unsigned: boolean): Statistics {
  const nulls = column.validity.nulls;
  if (column.values === 0) {
    return { nulls, min: null, max: null };
  }
  const bounds = boundsOfWords(column.words, column.values, unsigned);
  return {
    nulls,
    min: plainWords(bounds.minLow, bounds.minHigh),
    max: plainWords(bounds.maxLow, bounds.maxHigh),
  };
}

/** Statistics of a 32-bit integer column. */
export function int32Statistics(column: Int32Column): Statistics {
  const nulls = column.validity.nulls;
  if (column.values === 0) {
    return { nulls, min: null, max: null };
  }
  const data = column.data;
  let min = data[0]!;
  let max = min;
  for (let i = 1; i < column.values; i++) {
    const value = data[i]!;
    if (value < min) {
      min = value;
    }
    if (value > max) {
      max = value;
    }
  }
  const bytes = new Uint8Array(8);
  const view = new DataView(bytes.buffer);
  view.setInt32(0, min, true);
  view.setInt32(4, max, true);
  return { nulls, min: bytes.subarray(0, 4), max: bytes.subarray(4) };
}

function compareInt64(a: Uint8Array, b: Uint8Array): number {
  for (let i = 7; i >= 0; i--) {
    // The top byte carries the sign.
    const difference = i === 7 ? (a[i]! << 24) - (b[i]! << 24) : a[i]! - b[i]!;
    if (difference !== 0) {
      return difference;
    }
  }
  return 0;
}

/** UTF-8 orders as its unsigned bytes do. */
function compareText(a: Uint8Array, b: Uint8Array): number {
  return Buffer.compare(a, b);
}

/** Statistics of a run column with a small dictionary; only values that a row uses count. */
export function runStatistics(column: RunColumn, isText: boolean): Statistics {
  const { dictionary, nulls } = column;
  const none = { nulls, min: null, max: null };
  if (dictionary.size > maximumBoundEntries) {
    return none;
  }
  let min: Uint8Array | null = null;
  let max: Uint8Array | null = null;
  let seen = 0;
  for (let run = 0; run < column.runs; run++) {
    const index = column.runIndex[run]!;
    if (index === -1 || (seen & (1 << index)) !== 0) {
      continue;
    }
    seen |= 1 << index;
    const value = dictionary.bytes.subarray(dictionary.start(index), dictionary.ends[index]);
    if (isText && value.length > maximumBoundBytes) {
      return none;
    }
    const compare = isText ? compareText : compareInt64;
    if (min === null || compare(value, min) < 0) {
      min = value;
    }
    if (max === null || compare(value, max) > 0) {
      max = value;
    }
  }
  return { nulls, min, max };
}
