import * as fc from "fast-check";
import { describe, expect, test } from "vitest";

import { decodeNumber, encodeFrame, encodeJsonFrame, encodeNumberFrame, FrameReader } from "../../src/engine/frames.js";

interface Frame {
  readonly kind: number;
  readonly payload: Buffer;
}

function collector(maxPayloadBytes: number): { reader: FrameReader; frames: Frame[] } {
  const frames: Frame[] = [];
  const reader = new FrameReader(maxPayloadBytes, (kind, payload) => {
    frames.push({ kind, payload: Buffer.from(payload) });
  });
  return { reader, frames };
}

function encoded(frames: readonly Frame[]): Buffer {
  return Buffer.concat(frames.map(({ kind, payload }) => encodeFrame(kind, payload)));
}

/** Cuts bytes into pieces of the sizes given, over and over. */
function* pieces(bytes: Uint8Array, sizes: readonly number[]): Generator<Uint8Array> {
  for (let at = 0, i = 0; at < bytes.length; i++) {
    const size = sizes[i % sizes.length] ?? 1;
    yield bytes.subarray(at, at + size);
    at += size;
  }
}

const arbitraryFrames = fc.array(
  fc.record({
    kind: fc.integer({ min: 0, max: 255 }),
    payload: fc
      .oneof(fc.integer({ min: 0, max: 40 }), fc.integer({ min: 4080, max: 4110 }), fc.integer({ min: 0, max: 20_000 }))
      .map((bytes) => Buffer.alloc(bytes, bytes & 0xff)),
  }),
  { maxLength: 8 },
);
const arbitrarySizes = fc.array(fc.oneof(fc.integer({ min: 1, max: 9 }), fc.integer({ min: 1, max: 9000 })), {
  minLength: 1,
  maxLength: 6,
});

describe("frames", () => {
  test("come out as they went in, however the stream was cut", () => {
    fc.assert(
      fc.property(arbitraryFrames, arbitrarySizes, (sent, sizes) => {
        const stream = encoded(sent);
        const pushed = collector(20_000);
        for (const piece of pieces(stream, sizes)) {
          pushed.reader.push(piece);
        }
        expect(encoded(pushed.frames).equals(stream)).toBe(true);
        const read = collector(20_000);
        for (const piece of pieces(stream, sizes)) {
          for (let at = 0; at < piece.length;) {
            const room = read.reader.room();
            expect(room.length).toBeGreaterThan(0);
            const count = Math.min(room.length, piece.length - at);
            room.set(piece.subarray(at, at + count));
            read.reader.filled(count);
            at += count;
          }
        }
        expect(encoded(read.frames).equals(stream)).toBe(true);
      }),
    );
  });

  test("are never taken for longer than allowed, whatever bytes come", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), arbitrarySizes, (bytes, sizes) => {
        const { reader, frames } = collector(64);
        let failure: unknown = new RangeError();
        try {
          for (const piece of pieces(bytes, sizes)) {
            reader.push(piece);
          }
        } catch (error) {
          failure = error;
        }
        expect(failure).toBeInstanceOf(RangeError);
        expect(frames.every(({ payload }) => payload.length <= 64)).toBe(true);
      }),
    );
  });

  test("carry JSON and numbers", () => {
    const { reader, frames } = collector(100);
    reader.push(encodeJsonFrame(0x4a, { text: "ü" }));
    reader.push(encodeNumberFrame(0x43, 4_294_967_295));
    expect(frames.map(({ kind }) => kind)).toEqual([0x4a, 0x43]);
    expect(frames[0]?.payload.toString()).toBe('{"text":"ü"}');
    expect(decodeNumber(frames[1]?.payload ?? new Uint8Array())).toBe(4_294_967_295);
    expect(() => decodeNumber(new Uint8Array(3))).toThrow(RangeError);
  });
});
