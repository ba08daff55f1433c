/**
 * How a leaf's values become page bodies. The choice is made once per column chunk, in at most one pass
 * over the values. Large values are referenced, not copied.
 *
 * - all equal: a dictionary of one and one RLE run
 * - run columns: their dictionary and runs
 * - few small distinct int32 (levels, enums): dictionary and bit-packed indexes
 * - strings: DELTA_LENGTH_BYTE_ARRAY, booleans and all other numbers: PLAIN
 */
import type {
  BoolColumn,
  Float64Column,
  Int32Column,
  Int64Column,
  LeafColumn,
  RunColumn,
  Utf8Column,
} from "../tables/columns.js";
import { ByteBuffer } from "./byte-buffer.js";
import {
  bitWidth,
  HybridRunEncoder,
  packBits,
  writeDeltaLengths,
  writePackedBooleans,
  writeRleRun,
} from "./encodings.js";
import { encoding } from "./format.js";

/** A dictionary page's body. */
export interface DictionaryPage {
  readonly values: number;
  readonly bytes: Uint8Array;
}

/** The values of one column chunk. */
export interface ValueSource {
  readonly encoding: number;
  readonly dictionary: DictionaryPage | null;
  /** Bytes that all page bodies take together, roughly; decides how many pages there are. */
  readonly bytes: number;
  /**
   * Encodes values `[from, to)` into `out`; what the return value references follows that in the page.
   * Run columns are only ever asked for all of their values at once.
   */
  encode(out: ByteBuffer, from: number, to: number): Uint8Array | null;
}

/** Every value is the one of the dictionary. */
function constantSource(bytes: Uint8Array): ValueSource {
  return {
    encoding: encoding.rleDictionary,
    dictionary: { values: 1, bytes },
    bytes: 0,
    encode(out, from, to) {
      // Width 1 rather than 0, which some readers refuse.
      out.byte(1);
      writeRleRun(out, 0, to - from, 1);
      return null;
    },
  };
}

/** Nothing but nulls, or nothing at all. */
const emptySource: ValueSource = {
  encoding: encoding.plain,
  dictionary: null,
  bytes: 0,
  encode: () => null,
};

/** The memory of `[from, to)` elements of a typed array. The host is little-endian, as Parquet is. */
function memory(array: Uint32Array | Int32Array, from: number, to: number): Uint8Array {
  return new Uint8Array(array.buffer, array.byteOffset + from * 4, (to - from) * 4);
}

function isConstantWords(words: Uint32Array, values: number): boolean {
  const low = words[0]!;
  const high = words[1]!;
  for (let i = 2; i < values * 2; i += 2) {
    if (words[i] !== low || words[i + 1] !== high) {
      return false;
    }
  }
  return true;
}

function wordSource(column: Int64Column | Float64Column): ValueSource {
  const { words, values } = column;
  if (isConstantWords(words, values)) {
    return constantSource(memory(words, 0, 2).slice());
  }
  return {
    encoding: encoding.plain,
    dictionary: null,
    bytes: values * 8,
    encode: (_out, from, to) => memory(words, from * 2, to * 2),
  };
}

/** Integers from 0 to this are looked up in a table of their indexes. */
const smallLimit = 63;

/** Indexes into a dictionary of small integers, or null when a value is not small. */
function smallIntegerSource(data: Int32Array, values: number): ValueSource | null {
  const indexOf = new Int8Array(smallLimit + 1).fill(-1);
  const indexes = new Uint8Array(values);
  const dictionary = new Int32Array(smallLimit + 1);
  let size = 0;
  for (let i = 0; i < values; i++) {
    const value = data[i]!;
    if (value < 0 || value > smallLimit) {
      return null;
    }
    let index = indexOf[value]!;
    if (index === -1) {
      index = size++;
      indexOf[value] = index;
      dictionary[index] = value;
    }
    indexes[i] = index;
  }
  if (size === 1) {
    return constantSource(memory(dictionary, 0, 1));
  }
  const width = bitWidth(size - 1);
  return {
    encoding: encoding.rleDictionary,
    dictionary: { values: size, bytes: memory(dictionary, 0, size) },
    bytes: (values * width) >> 3,
    encode(out, from, to) {
      const groups = (to - from + 7) >> 3;
      out.byte(width);
      out.varint(groups * 2 + 1);
      const end = out.length + groups * width;
      packBits(out, indexes, from, to, width);
      while (out.length < end) {
        out.byte(0);
      }
      return null;
    },
  };
}

function int32Source(column: Int32Column): ValueSource {
  const { data, values } = column;
  const small = smallIntegerSource(data, values);
  if (small !== null) {
    return small;
  }
  return {
    encoding: encoding.plain,
    dictionary: null,
    bytes: values * 4,
    encode: (_out, from, to) => memory(data, from, to),
  };
}

function boolSource({ data, values }: BoolColumn): ValueSource {
  return {
    encoding: encoding.plain,
    dictionary: null,
    bytes: values >> 3,
    encode(out, from, to) {
      writePackedBooleans(out, data, from, to);
      return null;
    },
  };
}

/** Whether all strings are equal: equal lengths, and bytes that repeat with that period. */
function isConstantText(column: Utf8Column): boolean {
  const { ends, bytes, values } = column;
  const length = ends[0]!;
  const total = length * values;
  if (ends[values - 1] !== total) {
    return false;
  }
  if (values === 1) {
    return true;
  }
  // A quick look at the second value first: nearly every other column differs there.
  for (let i = 0; i < length; i++) {
    if (bytes[i] !== bytes[length + i]) {
      return false;
    }
  }
  for (let i = 0, end = length; i < values; i++, end += length) {
    if (ends[i] !== end) {
      return false;
    }
  }
  const rest = total - length;
  return Buffer.compare(bytes.subarray(0, rest), bytes.subarray(length, total)) === 0;
}

function textSource(column: Utf8Column): ValueSource {
  const { ends, bytes } = column;
  const start = (value: number): number => (value === 0 ? 0 : ends[value - 1]!);
  if (isConstantText(column)) {
    const dictionary = new ByteBuffer(ends[0]! + 4);
    dictionary.uint32(ends[0]!);
    dictionary.append(bytes.subarray(0, ends[0]));
    return constantSource(dictionary.view());
  }
  return {
    encoding: encoding.deltaLengthByteArray,
    dictionary: null,
    bytes: column.byteLength,
    encode(out, from, to) {
      writeDeltaLengths(out, ends, from, to, start(from));
      return bytes.subarray(start(from), start(to));
    },
  };
}

/** PLAIN strings carry their length in four bytes before them; integers lie ready in the dictionary. */
function dictionaryBytes(column: RunColumn, isText: boolean): Uint8Array {
  const { dictionary } = column;
  const source = dictionary.bytes;
  if (!isText) {
    return source.subarray(0, dictionary.byteLength);
  }
  const out = new ByteBuffer(dictionary.byteLength + dictionary.size * 4);
  for (let i = 0; i < dictionary.size; i++) {
    const start = dictionary.start(i);
    const end = dictionary.ends[i]!;
    out.uint32(end - start);
    out.append(source.subarray(start, end));
  }
  return out.view();
}

function runSource(column: RunColumn, isText: boolean): ValueSource {
  const { dictionary, runIndex, runRows, runs } = column;
  return {
    encoding: encoding.rleDictionary,
    dictionary: { values: dictionary.size, bytes: dictionaryBytes(column, isText) },
    bytes: 0,
    encode(out) {
      const width = Math.max(1, bitWidth(dictionary.size - 1));
      out.byte(width);
      const encoder = new HybridRunEncoder(out, width);
      for (let run = 0; run < runs; run++) {
        if (runIndex[run] !== -1) {
          encoder.run(runIndex[run]!, runRows[run]!);
        }
      }
      encoder.finish();
      return null;
    },
  };
}

/** Chooses the encoding of a leaf. `isText` tells string dictionaries from integer ones. */
export function valueSource(column: LeafColumn, isText: boolean): ValueSource {
  if (column.kind === "run") {
    return column.nulls === column.rows ? emptySource : runSource(column, isText);
  }
  if (column.values === 0) {
    return emptySource;
  }
  switch (column.kind) {
    case "int64":
    case "float64":
      return wordSource(column);
    case "int32":
      return int32Source(column);
    case "bool":
      return boolSource(column);
    case "utf8":
      return textSource(column);
  }
}
