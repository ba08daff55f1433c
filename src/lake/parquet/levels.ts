/**
 * Definition and repetition levels of a range of rows, for flat columns and for lists.
 *
 * Flat nullable column: level 1 where there is a value. List: repetition level 0 opens a row, 1 goes on;
 * definition level 0 is an empty list, 1 an element (a null one, if elements may be null), 2 a value of
 * an element that may be null.
 */
import type { RunColumn, Validity } from "../tables/columns.js";
import type { ByteBuffer } from "./byte-buffer.js";
import { countBits, HybridRunEncoder, writeBitmapLevels, writeRleRun } from "./encodings.js";

/** Definition levels (width 1) of a flat nullable column, rows `[from, to)`; `from` is a multiple of 8. */
export function writeFlatDefinitionLevels(out: ByteBuffer, validity: Validity, from: number, to: number): void {
  if (validity.bitmap === null || validity.nulls === 0) {
    writeRleRun(out, 1, to - from, 1);
  } else if (validity.nulls === validity.rows) {
    writeRleRun(out, 0, to - from, 1);
  } else {
    writeBitmapLevels(out, validity.bitmap, from, to - from);
  }
}

/** Definition levels (width 1) of all rows of a nullable run column. */
export function writeRunDefinitionLevels(out: ByteBuffer, column: RunColumn): void {
  if (column.nulls === 0 || column.nulls === column.rows) {
    writeRleRun(out, column.nulls === 0 ? 1 : 0, column.rows, 1);
    return;
  }
  const encoder = new HybridRunEncoder(out, 1);
  for (let run = 0; run < column.runs; run++) {
    encoder.run(column.runIndex[run] === -1 ? 0 : 1, column.runRows[run]!);
  }
  encoder.finish();
}

/** Where the lists of rows `[from, to)` begin and end, and how many level entries they take. */
interface ListRange {
  readonly from: number;
  readonly to: number;
  readonly firstElement: number;
  readonly endElement: number;
  /** Elements plus one for every empty list. */
  readonly entries: number;
}

/** Measures rows `[from, to)` of a list column; `ends` as in ListColumn. */
export function listRange(ends: Int32Array, from: number, to: number): ListRange {
  const firstElement = from === 0 ? 0 : ends[from - 1]!;
  const endElement = to === 0 ? 0 : ends[to - 1]!;
  let empty = 0;
  let previous = firstElement;
  for (let row = from; row < to; row++) {
    const end = ends[row]!;
    if (end === previous) {
      empty++;
    }
    previous = end;
  }
  return { from, to, firstElement, endElement, entries: endElement - firstElement + empty };
}

/** Repetition levels (width 1) of a range of lists. */
export function writeRepetitionLevels(out: ByteBuffer, ends: Int32Array, range: ListRange): void {
  if (range.entries === range.to - range.from) {
    writeRleRun(out, 0, range.entries, 1);
    return;
  }
  const bitmap = new Uint8Array((range.entries + 7) >> 3);
  let entry = 0;
  let previous = range.firstElement;
  for (let row = range.from; row < range.to; row++) {
    const end = ends[row]!;
    entry++;
    for (let element = previous + 1; element < end; element++, entry++) {
      bitmap[entry >> 3] = bitmap[entry >> 3]! | (1 << (entry & 7));
    }
    previous = end;
  }
  writeBitmapLevels(out, bitmap, 0, range.entries);
}

/** Definition levels of a list whose elements are never null: width 1. */
export function writeListDefinitionLevels(out: ByteBuffer, ends: Int32Array, range: ListRange): void {
  const elements = range.endElement - range.firstElement;
  if (elements === 0 || elements === range.entries) {
    writeRleRun(out, elements === 0 ? 0 : 1, range.entries, 1);
    return;
  }
  const encoder = new HybridRunEncoder(out, 1);
  let previous = range.firstElement;
  let full = 0;
  let empty = 0;
  for (let row = range.from; row < range.to; row++) {
    const end = ends[row]!;
    if (end === previous) {
      if (full > 0) {
        encoder.run(1, full);
      }
      full = 0;
      empty++;
    } else {
      if (empty > 0) {
        encoder.run(0, empty);
      }
      empty = 0;
      full += end - previous;
    }
    previous = end;
  }
  if (full > 0) {
    encoder.run(1, full);
  }
  if (empty > 0) {
    encoder.run(0, empty);
  }
  encoder.finish();
}

/**
 * Definition levels of a list whose elements may be null: width 2. `validity` is that of the child leaf.
 */
export function writeNullableListDefinitionLevels(
  out: ByteBuffer,
  ends: Int32Array,
  range: ListRange,
  validity: Validity,
): void {
  const encoder = new HybridRunEncoder(out, 2);
  const bitmap = validity.bitmap;
  let level = -1;
  let count = 0;
  const push = (next: number, times: number): void => {
    if (next === level) {
      count += times;
      return;
    }
    if (count > 0) {
      encoder.run(level, count);
    }
    level = next;
    count = times;
  };
  let previous = range.firstElement;
  for (let row = range.from; row < range.to; row++) {
    const end = ends[row]!;
    if (end === previous) {
      push(0, 1);
    } else if (bitmap === null) {
      push(2, end - previous);
    } else {
      for (let element = previous; element < end; element++) {
        push((bitmap[element >> 3]! & (1 << (element & 7))) === 0 ? 1 : 2, 1);
      }
    }
    previous = end;
  }
  if (count > 0) {
    encoder.run(level, count);
  }
  encoder.finish();
}

/** Values among rows (or elements) `[from, to)` of a leaf that is no run column. */
export function countValues(validity: Validity, from: number, to: number): number {
  const bitmap = validity.bitmap;
  if (bitmap === null) {
    return to - from;
  }
  if ((from & 7) === 0) {
    return countBits(bitmap, from, to - from);
  }
  let values = 0;
  for (let i = from; i < to; i++) {
    values += (bitmap[i >> 3]! >> (i & 7)) & 1;
  }
  return values;
}
