/**
 * The memory of DuckDB's vectors as Arrow wants it: rows of ranges gathered, validity as bits from 0 on. Hot
 * code; fixed-width values are moved as buffers, never row by row.
 */
import type { RawBindings, RawVector } from "./duckdb-bindings.js";
import type { Piece } from "./arrow-read.js";

/** Rows, nulls and validity of a {@link Piece}. */
export type PieceBits = Pick<Piece, "rows" | "nulls" | "validity">;

/** Bytes of validity that DuckDB keeps for so many rows. */
export const validityBytes = (rows: number): number => ((rows + 63) >> 6) * 8;

/** One more than the last row of the ranges. */
export function endOf(ranges: Int32Array): number {
  let end = 0;
  for (let r = 0; r < ranges.length; r += 2) {
    const last = ranges[r]! + ranges[r + 1]!;
    if (last > end) end = last;
  }
  return end;
}

/** Validity of the rows in the ranges of a vector. */
export function bits(
  bindings: RawBindings,
  vector: RawVector,
  ranges: Int32Array,
  rows: number,
): PieceBits {
  const validity = bindings.vector_get_validity(vector, validityBytes(endOf(ranges)));
  return compactBits(validity, ranges, rows);
}

/** Validity of the rows in the ranges, starting at bit 0, and its count of nulls. */
export function compactBits(
  validity: Uint8Array | null,
  ranges: Int32Array,
  rows: number,
): PieceBits {
  if (validity === null || rows === 0) return { rows, nulls: 0, validity: null };
  const compact = new Uint8Array((rows + 7) >> 3);
  let at = 0;
  for (let r = 0; r < ranges.length; r += 2) {
    copyBits(compact, at, validity, ranges[r]!, ranges[r + 1]!);
    at += ranges[r + 1]!;
  }
  return counted(compact, rows);
}

function counted(validity: Uint8Array, rows: number): PieceBits {
  let valid = 0;
  for (const byte of validity) valid += bitCounts[byte]!;
  return valid === rows
    ? { rows, nulls: 0, validity: null }
    : { rows, nulls: rows - valid, validity };
}

/** The same piece, but null wherever `validity` says so. */
export function withNulls(piece: Piece, validity: Uint8Array | null): Piece {
  if (validity === null) return piece;
  const own = piece.validity;
  const both = own === null ? validity : validity.map((byte, i) => byte & own[i]!);
  return { ...piece, ...counted(both, piece.rows) };
}

const bitCounts = Uint8Array.from({ length: 256 }, (_, byte) => {
  let count = 0;
  for (let rest = byte; rest !== 0; rest >>= 1) count += rest & 1;
  return count;
});

/** Copies bits into a target whose bits from `to` on are 0. */
export function copyBits(
  target: Uint8Array,
  to: number,
  source: Uint8Array,
  from: number,
  count: number,
): void {
  if (((to | from) & 7) === 0) {
    const whole = count >> 3;
    target.set(source.subarray(from >> 3, (from >> 3) + whole), to >> 3);
    const rest = count & 7;
    if (rest !== 0) {
      target[(to >> 3) + whole] = source[(from >> 3) + whole]! & ((1 << rest) - 1);
    }
    return;
  }
  for (let i = 0; i < count; i++) {
    if ((source[(from + i) >> 3]! & (1 << ((from + i) & 7))) !== 0) {
      target[(to + i) >> 3] = target[(to + i) >> 3]! | (1 << ((to + i) & 7));
    }
  }
}

/** Fixed-width values of the ranges, in a buffer of their own that is aligned for any width. */
export function gather(
  bindings: RawBindings,
  vector: RawVector,
  ranges: Int32Array,
  rows: number,
  width: number,
): Uint8Array {
  if (rows === 0) return new Uint8Array(0);
  const data = bindings.vector_get_data(vector, endOf(ranges) * width);
  if (ranges.length === 2 && ranges[0] === 0 && data.byteOffset % 16 === 0) return data;
  const gathered = new Uint8Array(rows * width);
  let at = 0;
  for (let r = 0; r < ranges.length; r += 2) {
    const from = ranges[r]! * width;
    const bytes = ranges[r + 1]! * width;
    gathered.set(data.subarray(from, from + bytes), at);
    at += bytes;
  }
  return gathered;
}

/** Where the elements of the rows' lists lie in the child vector. An entry is an offset and a length of 64 bits each. */
export function elementRanges(
  raw: Uint8Array,
  ranges: Int32Array,
  rows: number,
  validity: Uint8Array | null,
): { readonly ends: Int32Array; readonly ranges: Int32Array; readonly count: number } {
  const words = new Uint32Array(raw.buffer, raw.byteOffset, raw.byteLength >> 2);
  const ends = new Int32Array(rows);
  const elements: number[] = [];
  let next = -1;
  let count = 0;
  let at = 0;
  for (let r = 0; r < ranges.length; r += 2) {
    const last = ranges[r]! + ranges[r + 1]!;
    for (let row = ranges[r]!; row < last; row++) {
      if (validity === null || (validity[row >> 3]! & (1 << (row & 7))) !== 0) {
        const length = words[row * 4 + 2]!;
        if (length > 0) {
          const offset = words[row * 4]!;
          if (offset === next) elements[elements.length - 1]! += length;
          else elements.push(offset, length);
          next = offset + length;
          count += length;
        }
      }
      ends[at++] = count;
    }
  }
  return { ends, ranges: Int32Array.from(elements), count };
}
