/**
 * XXH64 with seed 0, its low 32 bits: the checksum of zstd frames (RFC 8878 section 3.1.1). 64-bit
 * arithmetic in pairs of 32-bit words, because BigInt is some 20 times slower.
 */

/** Primes of XXH64 as (low, high) words. */
const p1 = [0x85ebca87 | 0, 0x9e3779b1 | 0] as const;
const p2 = [0x27d4eb4f, 0xc2b2ae3d | 0] as const;
const p3 = [0x9e3779f9 | 0, 0x165667b1] as const;
const p4 = [0xc2b2ae63 | 0, 0x85ebca77 | 0] as const;
const p5 = [0x165667c5, 0x27d4eb2f] as const;

/** High word of the product of two unsigned 32-bit integers. */
function multiplyHigh(a: number, b: number): number {
  const aLow = a & 0xffff;
  const aHigh = a >>> 16;
  const bLow = b & 0xffff;
  const bHigh = b >>> 16;
  const middle1 = aHigh * bLow + (Math.imul(aLow, bLow) >>> 16);
  const middle2 = aLow * bHigh + (middle1 & 0xffff);
  return (aHigh * bHigh + Math.floor(middle1 / 65536) + Math.floor(middle2 / 65536)) | 0;
}

/** A 64-bit accumulator. */
class Word64 {
  low: number;
  high: number;

  constructor(low: number, high: number) {
    this.low = low | 0;
    this.high = high | 0;
  }

  add(low: number, high: number): void {
    const sum = (this.low >>> 0) + (low >>> 0);
    this.low = sum | 0;
    this.high = (this.high + high + (sum > 0xffffffff ? 1 : 0)) | 0;
  }

  xor(low: number, high: number): void {
    this.low ^= low;
    this.high ^= high;
  }

  multiply(low: number, high: number): void {
    const top = multiplyHigh(this.low, low) + Math.imul(this.low, high) + Math.imul(this.high, low);
    this.low = Math.imul(this.low, low);
    this.high = top | 0;
  }

  /** Rotates left by 1 to 31 bits. */
  rotate(bits: number): void {
    const { low, high } = this;
    this.low = (low << bits) | (high >>> (32 - bits));
    this.high = (high << bits) | (low >>> (32 - bits));
  }

  /** Xors itself shifted right by `bits`. */
  mixDown(bits: number): void {
    const { low, high } = this;
    if (bits >= 32) {
      this.low = low ^ (high >>> (bits - 32));
      return;
    }
    this.low = low ^ ((low >>> bits) | (high << (32 - bits)));
    this.high = high ^ (high >>> bits);
  }

  /** One round with 8 bytes of input. */
  round(low: number, high: number): void {
    const top = multiplyHigh(low, p2[0]) + Math.imul(low, p2[1]) + Math.imul(high, p2[0]);
    this.add(Math.imul(low, p2[0]), top);
    this.rotate(31);
    this.multiply(p1[0], p1[1]);
  }
}

/** The low word, signed, of XXH64 of `bytes[start, end)`. */
export function xxh64Low(bytes: Uint8Array, start: number, end: number): number {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const length = end - start;
  let pos = start;
  const hash = new Word64(p5[0], p5[1]);
  if (length >= 32) {
    const lane1 = new Word64(p1[0], p1[1]);
    lane1.add(p2[0], p2[1]);
    const lane2 = new Word64(p2[0], p2[1]);
    const lane3 = new Word64(0, 0);
    const lane4 = new Word64(~p1[0], ~p1[1]);
    lane4.add(1, 0);
    for (; pos + 32 <= end; pos += 32) {
      lane1.round(view.getInt32(pos, true), view.getInt32(pos + 4, true));
      lane2.round(view.getInt32(pos + 8, true), view.getInt32(pos + 12, true));
      lane3.round(view.getInt32(pos + 16, true), view.getInt32(pos + 20, true));
      lane4.round(view.getInt32(pos + 24, true), view.getInt32(pos + 28, true));
    }
    hash.low = 0;
    hash.high = 0;
    [lane1, lane2, lane3, lane4].forEach((lane, index) => {
      const turned = new Word64(lane.low, lane.high);
      turned.rotate([1, 7, 12, 18][index]!);
      hash.add(turned.low, turned.high);
    });
    for (const lane of [lane1, lane2, lane3, lane4]) {
      const merged = new Word64(0, 0);
      merged.round(lane.low, lane.high);
      hash.xor(merged.low, merged.high);
      hash.multiply(p1[0], p1[1]);
      hash.add(p4[0], p4[1]);
    }
  }
  hash.add(length, 0);
  for (; pos + 8 <= end; pos += 8) {
    const word = new Word64(0, 0);
    word.round(view.getInt32(pos, true), view.getInt32(pos + 4, true));
    hash.xor(word.low, word.high);
    hash.rotate(27);
    hash.multiply(p1[0], p1[1]);
    hash.add(p4[0], p4[1]);
  }
  if (pos + 4 <= end) {
    const word = new Word64(view.getInt32(pos, true), 0);
    word.multiply(p1[0], p1[1]);
    hash.xor(word.low, word.high);
    hash.rotate(23);
    hash.multiply(p2[0], p2[1]);
    hash.add(p3[0], p3[1]);
    pos += 4;
  }
  for (; pos < end; pos++) {
    const word = new Word64(view.getUint8(pos), 0);
    word.multiply(p5[0], p5[1]);
    hash.xor(word.low, word.high);
    hash.rotate(11);
    hash.multiply(p1[0], p1[1]);
  }
  hash.mixDown(33);
  hash.multiply(p2[0], p2[1]);
  hash.mixDown(29);
  hash.multiply(p3[0], p3[1]);
  hash.mixDown(32);
  return hash.low;
}
