import { describe, expect, test } from "vitest";
import { ByteBuffer, ChunkList } from "../../src/lake/parquet/byte-buffer.js";
import {
  countBits,
  HybridRunEncoder,
  packBits,
  writeBitmapLevels,
  writeDeltaLengths,
  writeRleRun,
} from "../../src/lake/parquet/encodings.js";
import { seededRandom } from "../helpers/seeded-random.js";

function readVarint(bytes: Uint8Array, at: { offset: number }): number {
  let value = 0;
  for (let shift = 0; ; shift += 7) {
    const byte = bytes[at.offset++] ?? 0;
    value += (byte & 0x7f) * 2 ** shift;
    if (byte < 0x80) {
      return value;
    }
  }
}

/** Decodes the hybrid encoding of Parquet a bit at a time. */
function decodeHybrid(bytes: Uint8Array, width: number, count: number): number[] {
  const values: number[] = [];
  const at = { offset: 0 };
  while (at.offset < bytes.length) {
    const header = readVarint(bytes, at);
    if ((header & 1) === 0) {
      let value = 0;
      for (let i = 0; i < Math.ceil(width / 8); i++) {
        value |= (bytes[at.offset++] ?? 0) << (8 * i);
      }
      for (let i = 0; i < header >> 1; i++) {
        values.push(value);
      }
      continue;
    }
    const packed = (header >> 1) * 8;
    for (let i = 0; i < packed; i++) {
      let value = 0;
      for (let bit = 0; bit < width; bit++) {
        const position = i * width + bit;
        const byte = bytes[at.offset + (position >> 3)] ?? 0;
        value |= ((byte >> (position & 7)) & 1) << bit;
      }
      values.push(value);
    }
    at.offset += (packed * width) / 8;
  }
  return values.slice(0, count);
}

describe("the hybrid encoding", () => {
  test("of runs gives back the runs, whatever their lengths", () => {
    const random = seededRandom(1);
    for (let round = 0; round < 200; round++) {
      const width = 1 + Math.floor(random() * 20);
      const expected: number[] = [];
      const out = new ByteBuffer(1);
      const encoder = new HybridRunEncoder(out, width);
      for (let run = 0; run < 30; run++) {
        const value = Math.floor(random() * 2 ** width);
        const count = Math.floor(random() * (random() < 0.5 ? 4 : 40));
        encoder.run(value, count);
        for (let i = 0; i < count; i++) {
          expected.push(value);
        }
      }
      encoder.finish();
      expect(decodeHybrid(out.view(), width, expected.length)).toEqual(expected);
    }
  });

  test("of one long run takes a handful of bytes", () => {
    const out = new ByteBuffer();
    writeRleRun(out, 1, 1_000_000, 1);
    expect(out.length).toBe(4);
  });

  test("of a bitmap gives back its bits, from any byte and to any bit", () => {
    const random = seededRandom(2);
    for (let round = 0; round < 200; round++) {
      const bits: number[] = [];
      while (bits.length < 700) {
        const bit = random() < 0.5 ? 1 : 0;
        const count = Math.floor(random() * (random() < 0.5 ? 3 : 200));
        for (let i = 0; i < count; i++) {
          bits.push(bit);
        }
      }
      const bitmap = new Uint8Array(100);
      for (const [i, bit] of bits.entries()) {
        bitmap[i >> 3] = (bitmap[i >> 3] ?? 0) | (bit << (i & 7));
      }
      const from = 8 * Math.floor(random() * 40);
      const count = 1 + Math.floor(random() * (650 - from));
      const out = new ByteBuffer(1);
      writeBitmapLevels(out, bitmap, from, count);
      const expected = bits.slice(from, from + count);
      expect(decodeHybrid(out.view(), 1, count)).toEqual(expected);
      expect(countBits(bitmap, from, count)).toBe(expected.filter((bit) => bit === 1).length);
    }
  });
});

test("bits are packed least significant first at every width up to 32", () => {
  for (let width = 1; width <= 32; width++) {
    const values = Array.from({ length: 40 }, (_, i) => (i * 0x9e3779b1) >>> (32 - width));
    const out = new ByteBuffer(1);
    packBits(out, values, 0, values.length, width);
    const bytes = out.view();
    expect(bytes.length).toBe(Math.ceil((values.length * width) / 8));
    const decoded = values.map((_, i) => {
      let value = 0;
      for (let bit = 0; bit < width; bit++) {
        const position = i * width + bit;
        value += (((bytes[position >> 3] ?? 0) >> (position & 7)) & 1) * 2 ** bit;
      }
      return value;
    });
    expect(decoded).toEqual(values);
  }
});

test("equal string lengths take no bits each", () => {
  const ends = Int32Array.from({ length: 1025 }, (_, i) => (i + 1) * 32);
  const out = new ByteBuffer();
  writeDeltaLengths(out, ends, 0, ends.length, 0);
  // Head, and for each of 8 blocks the smallest delta and four widths of zero.
  expect(out.length).toBe(6 + 8 * 5);
});

test("a varint holds 53 bits, and zigzag its sign", () => {
  for (const value of [0, 127, 128, 2 ** 31, 2 ** 32, 2 ** 53 - 1]) {
    const out = new ByteBuffer(1);
    out.varint(value);
    expect(readVarint(out.view(), { offset: 0 })).toBe(value);
  }
  const out = new ByteBuffer(1);
  out.zigzag(-(2 ** 40));
  expect(readVarint(out.view(), { offset: 0 })).toBe(2 ** 41 - 1);
});

test("a chunk list keeps the order of copied and referenced pieces and copies no large one", () => {
  const file = new ChunkList(64);
  const large = new Uint8Array(8192).fill(7);
  file.copy(Uint8Array.of(1, 2));
  file.reference(large);
  file.copy(new Uint8Array(100).fill(3));
  file.reference(Uint8Array.of(4));
  const chunks = file.finish();
  expect(chunks).toContain(large);
  expect(Buffer.concat(chunks)).toEqual(
    Buffer.concat([Uint8Array.of(1, 2), large, new Uint8Array(100).fill(3), Uint8Array.of(4)]),
  );
  expect(file.bytes).toBe(2 + 8192 + 101);
});
