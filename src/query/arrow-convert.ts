/**
 * Values of DuckDB's vectors whose bytes are not Arrow's: made wider, packed, taken apart. Hot code; rows
 * that are null hold garbage, which must do no harm.
 */
import { ServiceError } from "../runtime/errors.js";

/** Signed integers to 128 bits. */
export function widen(values: BigInt64Array | Int32Array | Int16Array): Uint8Array {
  const wide = new BigInt64Array(values.length * 2);
  for (let i = 0; i < values.length; i++) {
    const value = BigInt(values[i]!);
    wide[2 * i] = value;
    wide[2 * i + 1] = value < 0n ? -1n : 0n;
  }
  return new Uint8Array(wide.buffer);
}

/** Unsigned 128 bits to 256 bits. */
export function widenUnsigned(data: Uint8Array, rows: number): Uint8Array {
  const wide = new Uint8Array(rows * 32);
  for (let i = 0; i < rows; i++) wide.set(data.subarray(i * 16, i * 16 + 16), i * 32);
  return wide;
}

const microsPerDay = 86_400_000_000n;
/** Most microseconds whose nanoseconds are 64 bits. */
const maxMicros = (2n ** 63n - 1n) / 1000n;

/**
 * DuckDB: months, days, microseconds. Arrow: months, days, nanoseconds. What does not fit into nanoseconds
 * (292 years) becomes days of 24 hours, as DuckDB itself compares intervals and as times in UTC have it.
 * @throws ServiceError BAD_REQUEST when the days do not fit, either
 */
export function microsToNanos(
  data: Uint8Array,
  rows: number,
  validity: Uint8Array | null,
): Uint8Array {
  const words = new BigInt64Array(data.buffer, data.byteOffset, rows * 2);
  const halves = new Int32Array(data.buffer, data.byteOffset, rows * 4);
  for (let i = 0; i < rows; i++) {
    let micros = words[2 * i + 1]!;
    if (micros > maxMicros || micros < -maxMicros) {
      const days = halves[4 * i + 1]! + Number(micros / microsPerDay);
      micros %= microsPerDay;
      const valid = validity === null || (validity[i >> 3]! & (1 << (i & 7))) !== 0;
      if (valid && days !== (days | 0)) {
        throw new ServiceError("BAD_REQUEST", "An interval is too long for Arrow.");
      }
      halves[4 * i + 1] = days;
    }
    words[2 * i + 1] = micros * 1000n;
  }
  return data;
}

/** TIME WITH TIME ZONE holds microseconds in the upper 40 bits and the offset, which Arrow lacks, in the rest. */
export function timeOfTimeTz(data: Uint8Array, rows: number): Uint8Array {
  const words = new BigUint64Array(data.buffer, data.byteOffset, rows);
  for (let i = 0; i < rows; i++) words[i] = words[i]! >> 24n;
  return data;
}

/** Bytes that are 0 or not to bits. */
export function packBits(data: Uint8Array, rows: number): Uint8Array {
  const packed = new Uint8Array((rows + 7) >> 3);
  for (let i = 0; i < rows; i++) {
    if (data[i] !== 0) packed[i >> 3] = packed[i >> 3]! | (1 << (i & 7));
  }
  return packed;
}

/** DuckDB stores a UUID as a 128-bit integer whose top bit is flipped, so that it sorts as signed. */
export function uuidTexts(
  data: Uint8Array,
  rows: number,
  validity: Uint8Array | null,
): { readonly ends: Int32Array; readonly bytes: Uint8Array } {
  const ends = new Int32Array(rows);
  const bytes = Buffer.alloc(rows * 36);
  const bigEndian = Buffer.alloc(16);
  let at = 0;
  for (let row = 0; row < rows; row++) {
    if (validity === null || (validity[row >> 3]! & (1 << (row & 7))) !== 0) {
      for (let i = 0; i < 16; i++) bigEndian[i] = data[row * 16 + 15 - i]!;
      bigEndian[0] = bigEndian[0]! ^ 0x80;
      const digits = bigEndian.toString("hex");
      bytes.write(
        `${digits.slice(0, 8)}-${digits.slice(8, 12)}-${digits.slice(12, 16)}-${digits.slice(16, 20)}-${digits.slice(20)}`,
        at,
        "latin1",
      );
      at += 36;
    }
    ends[row] = at;
  }
  return { ends, bytes: bytes.subarray(0, at) };
}
