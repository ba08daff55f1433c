/**
 * Parquet's value and level encodings over the memory of column builders.
 * https://parquet.apache.org/docs/file-format/data-pages/encodings/
 *
 * Hot code. Level and index runs cost per run or per 8 rows; only DELTA_BINARY_PACKED string lengths,
 * bit-packed booleans and small integers cost per value (about 2 ns each).
 */
import type { ByteBuffer } from "./byte-buffer.js";

/** Bits that hold every value from 0 to `max`. */
export function bitWidth(max: number): number {
  return 32 - Math.clz32(max);
}

/** One RLE run of `count` times `value`, `width` bits wide (hybrid encoding). */
export function writeRleRun(out: ByteBuffer, value: number, count: number, width: number): void {
  if (count === 0) {
    return;
  }
  out.varint(count * 2);
  for (let bits = 0; bits < width; bits += 8) {
    out.byte((value >>> bits) & 0xff);
  }
}

/** Bytes of equal bits, so that a run of them is worth an RLE run of its own. */
const minimumEqualBytes = 8;

/**
 * Bits `[from, from + count)` of a bitmap as hybrid-encoded levels of width 1; `from` is a multiple of 8.
 * Long stretches of equal bits become RLE runs, everything between them bit-packed runs.
 */
export function writeBitmapLevels(out: ByteBuffer, bitmap: Uint8Array, from: number, count: number): void {
  const first = from >> 3;
  const whole = first + (count >> 3);
  let packedFrom = first;
  let at = first;
  while (at < whole) {
    const value = bitmap[at]!;
    if (value !== 0 && value !== 0xff) {
      at++;
      continue;
    }
    let end = at + 1;
    while (end < whole && bitmap[end] === value) {
      end++;
    }
    if (end - at >= minimumEqualBytes) {
      writePackedBytes(out, bitmap, packedFrom, at);
      writeRleRun(out, value & 1, (end - at) * 8, 1);
      packedFrom = end;
    }
    at = end;
  }
  const rest = count & 7;
  if (rest === 0) {
    writePackedBytes(out, bitmap, packedFrom, whole);
    return;
  }
  // The last, partial byte: bits beyond the end are cleared, so that equal rows give equal files.
  out.varint((whole + 1 - packedFrom) * 2 + 1);
  out.append(bitmap.subarray(packedFrom, whole));
  out.byte(bitmap[whole]! & ((1 << rest) - 1));
}

function writePackedBytes(out: ByteBuffer, bytes: Uint8Array, from: number, to: number): void {
  if (from === to) {
    return;
  }
  out.varint((to - from) * 2 + 1);
  out.append(bytes.subarray(from, to));
}

/** Set bits among bits `[from, from + count)`; `from` is a multiple of 8. */
export function countBits(bitmap: Uint8Array, from: number, count: number): number {
  let bits = 0;
  let at = from >> 3;
  for (const whole = at + (count >> 3); at < whole; at++) {
    bits += bitsOfByte(bitmap[at]!);
  }
  const rest = count & 7;
  return rest === 0 ? bits : bits + bitsOfByte(bitmap[at]! & ((1 << rest) - 1));
}

function bitsOfByte(value: number): number {
  let bits = value - ((value >> 1) & 0x55);
  bits = (bits & 0x33) + ((bits >> 2) & 0x33);
  return (bits + (bits >> 4)) & 0x0f;
}

/**
 * Turns runs into the hybrid encoding: a run becomes an RLE run; what is shorter than 8 is packed in
 * groups of 8 with its neighbours. Costs per run, whatever its length.
 */
export class HybridRunEncoder {
  readonly #out: ByteBuffer;
  readonly #width: number;
  /** Values of the open bit-packed run; whole groups of 8 except at the very end. */
  #packed: Int32Array = new Int32Array(64);
  #packedCount = 0;

  constructor(out: ByteBuffer, width: number) {
    this.#out = out;
    this.#width = width;
  }

  run(value: number, count: number): void {
    let rest = count;
    // An open group has to be filled up before an RLE run may start.
    while (rest > 0 && (this.#packedCount & 7) !== 0) {
      this.#pack(value);
      rest--;
    }
    if (rest >= 8) {
      this.#flush();
      writeRleRun(this.#out, value, rest, this.#width);
      return;
    }
    while (rest-- > 0) {
      this.#pack(value);
    }
  }

  finish(): void {
    this.#flush();
  }

  #pack(value: number): void {
    if (this.#packedCount === this.#packed.length) {
      const grown = new Int32Array(this.#packedCount * 2);
      grown.set(this.#packed);
      this.#packed = grown;
    }
    this.#packed[this.#packedCount++] = value;
  }

  #flush(): void {
    if (this.#packedCount === 0) {
      return;
    }
    writePackedRun(this.#out, this.#packed, this.#packedCount, this.#width);
    this.#packedCount = 0;
  }
}

/** `count` values as one bit-packed run of the hybrid encoding, padded with zeros to a group of 8. */
function writePackedRun(out: ByteBuffer, values: ArrayLike<number>, count: number, width: number): void {
  const groups = (count + 7) >> 3;
  out.varint(groups * 2 + 1);
  const end = out.length + groups * width;
  packBits(out, values, 0, count, width);
  while (out.length < end) {
    out.byte(0);
  }
}

/** Bit-packs `values[from, to)`, least significant bit first; `width` is 0 to 32. */
export function packBits(out: ByteBuffer, values: ArrayLike<number>, from: number, to: number, width: number): void {
  if (width === 0) {
    return;
  }
  out.reserve((((to - from) * width + 31) >> 5) * 4);
  const bytes = out.bytes;
  let at = out.length;
  let accumulator = 0;
  let filled = 0;
  for (let i = from; i < to; i++) {
    const value = values[i]!;
    accumulator |= value << filled;
    filled += width;
    if (filled >= 32) {
      bytes[at] = accumulator;
      bytes[at + 1] = accumulator >>> 8;
      bytes[at + 2] = accumulator >>> 16;
      bytes[at + 3] = accumulator >>> 24;
      at += 4;
      filled -= 32;
      // A shift by 32 would be a shift by 0: nothing is left over in that case.
      accumulator = filled === 0 ? 0 : value >>> (width - filled);
    }
  }
  for (; filled > 0; filled -= 8) {
    bytes[at++] = accumulator;
    accumulator >>>= 8;
  }
  out.length = at;
}

const blockValues = 128;
const miniblockValues = 32;
const miniblocks = blockValues / miniblockValues;

/**
 * DELTA_BINARY_PACKED lengths of the strings that end at `ends[from, to)`, the first of which starts at
 * `start`. Lengths are below 2^31, so every step fits 32 bits. All miniblocks of a block share the
 * largest width: that saves a pass over the values for hardly more bytes.
 */
export function writeDeltaLengths(out: ByteBuffer, ends: Int32Array, from: number, to: number, start: number): void {
  out.varint(blockValues);
  out.varint(miniblocks);
  out.varint(to - from);
  let previousEnd = from === to ? start : ends[from]!;
  let previousLength = previousEnd - start;
  out.zigzag(previousLength);
  const deltas = new Int32Array(blockValues);
  const packed = new Int32Array(blockValues);
  const packedBytes = new Uint8Array(packed.buffer);
  for (let at = from + 1; at < to; at += blockValues) {
    const count = Math.min(blockValues, to - at);
    let minimum = 0x7fffffff;
    let maximum = -0x80000000;
    for (let i = 0; i < count; i++) {
      const end = ends[at + i]!;
      const length = (end - previousEnd) | 0;
      const delta = (length - previousLength) | 0;
      previousEnd = end;
      previousLength = length;
      deltas[i] = delta;
      if (delta < minimum) {
        minimum = delta;
      }
      if (delta > maximum) {
        maximum = delta;
      }
    }
    // Miniblocks are always whole, their rest packed as zeros; those without any value have no body.
    const needed = (count + miniblockValues - 1) >> 5;
    if (count < blockValues) {
      deltas.fill(minimum, count);
    }
    const width = bitWidth(maximum - minimum);
    out.zigzag(minimum);
    const bodyBytes = needed * width * 4;
    out.reserve(miniblocks + bodyBytes);
    out.bytes.fill(width, out.length, out.length + needed);
    out.bytes.fill(0, out.length + needed, out.length + miniblocks);
    out.length += miniblocks;
    if (width === 0) {
      continue;
    }
    packBlock(packed, deltas, minimum, width);
    out.bytes.set(packedBytes.subarray(0, bodyBytes), out.length);
    out.length += bodyBytes;
  }
}

/** Packs a whole block of deltas above `minimum`, `width` (1 to 32) bits each, into `4 * width` words. */
function packBlock(packed: Int32Array, deltas: Int32Array, minimum: number, width: number): void {
  let accumulator = 0;
  let filled = 0;
  let word = 0;
  for (let i = 0; i < blockValues; i++) {
    const value = (deltas[i]! - minimum) | 0;
    accumulator |= value << filled;
    filled += width;
    if (filled >= 32) {
      packed[word++] = accumulator;
      filled -= 32;
      accumulator = filled === 0 ? 0 : value >>> (width - filled);
    }
  }
}

/** PLAIN booleans: one bit each. */
export function writePackedBooleans(out: ByteBuffer, data: Uint8Array, from: number, to: number): void {
  packBits(out, data, from, to, 1);
}
