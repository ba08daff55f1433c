/**
 * HalfSipHash-1-3, which Linux has for its hash tables, under a key that each thread draws at its start: who chooses what
 * is hashed does not know what collides.
 *
 * It costs about as much as FNV-1a. A seed for that would not do: of the names that collide under one seed, eight in a
 * thousand collide under another.
 */
import { randomFillSync } from "node:crypto";

const [key0 = 0, key1 = 0] = randomFillSync(new Int32Array(2));

/** A hash of `bytes[start, end)`, 32 bits, signed. */
export function keyedHash(bytes: Uint8Array, start: number, end: number): number {
  let v0 = key0;
  let v1 = key1;
  let v2 = key0 ^ 0x6c796765;
  let v3 = key1 ^ 0x74656462;
  const length = end - start;
  // Words of four bytes, the last of which has the length on top; then three rounds of its own.
  for (let pos = start, left = (length >> 2) + 4; left > 0; left--, pos += 4) {
    let word = 0;
    if (left > 4) {
      word = bytes[pos]! | (bytes[pos + 1]! << 8) | (bytes[pos + 2]! << 16) | (bytes[pos + 3]! << 24);
    } else if (left === 4) {
      word = length << 24;
      for (let at = pos, shift = 0; at < end; at++, shift += 8) {
        word |= bytes[at]! << shift;
      }
    } else if (left === 3) {
      v2 ^= 0xff;
    }
    v3 ^= word;
    v0 = (v0 + v1) | 0;
    v1 = ((v1 << 5) | (v1 >>> 27)) ^ v0;
    v0 = (v0 << 16) | (v0 >>> 16);
    v2 = (v2 + v3) | 0;
    v3 = ((v3 << 8) | (v3 >>> 24)) ^ v2;
    v0 = (v0 + v3) | 0;
    v3 = ((v3 << 7) | (v3 >>> 25)) ^ v0;
    v2 = (v2 + v1) | 0;
    v1 = ((v1 << 13) | (v1 >>> 19)) ^ v2;
    v2 = (v2 << 16) | (v2 >>> 16);
    v0 ^= word;
  }
  return v1 ^ v3;
}
