/**
 * Numbers as JSON text, written as bytes. Hot code: integers make no string and no BigInt. A double
 * that has more than six decimals takes V8's own shortest round-trip text.
 */
import type { Utf8Column } from "../../lake/tables/columns.js";

/** Longest text of a number here: a double such as -1.2345678901234567e-308, in quotes or not. */
const longestNumber = 32;

const billion = 1_000_000_000;

/** Both views of one double: words in, value out. */
const doubleWords = new Int32Array(2);
const doubleValue = new Float64Array(doubleWords.buffer);

/** The double with these words. */
export function doubleOf(low: number, high: number): number {
  doubleWords[0] = low;
  doubleWords[1] = high;
  return doubleValue[0]!;
}

/** A signed 64-bit integer as the nearest double. */
export function int64ToDouble(low: number, high: number): number {
  return high * 4294967296 + (low >>> 0);
}

/** Pushes a double given as a number onto words. Returns the low word; the high one is {@link highWord}. */
export function lowWord(value: number): number {
  doubleValue[0] = value;
  return doubleWords[0]!;
}

/** The high word of the double last given to {@link lowWord}. */
export function highWord(): number {
  return doubleWords[1]!;
}

function countDigits(value: number): number {
  if (value < 100000) {
    if (value < 100) {
      return value < 10 ? 1 : 2;
    }
    if (value < 1000) {
      return 3;
    }
    return value < 10000 ? 4 : 5;
  }
  if (value < 10000000) {
    return value < 1000000 ? 6 : 7;
  }
  if (value < 100000000) {
    return 8;
  }
  return value < billion ? 9 : 10;
}

/** Writes the last `digits` digits of an unsigned 32-bit value at `at`. */
function writeDigits(bytes: Uint8Array, at: number, value: number, digits: number): number {
  const end = at + digits;
  let rest = value >>> 0;
  for (let pos = end - 1; pos >= at; pos--) {
    const quotient = (rest / 10) >>> 0;
    bytes[pos] = 48 + rest - quotient * 10;
    rest = quotient;
  }
  return end;
}

function writeUnsigned(bytes: Uint8Array, at: number, low: number, high: number): number {
  if (high === 0) {
    const value = low >>> 0;
    return writeDigits(bytes, at, value, countDigits(value));
  }
  // Long division by 10^9 in steps of 16 bits, so that every product stays below 2^53.
  const top = high >>> 0;
  const q0 = Math.floor(top / billion);
  const t1 = (top - q0 * billion) * 65536 + (low >>> 16);
  const q1 = Math.floor(t1 / billion);
  const t2 = (t1 - q1 * billion) * 65536 + (low & 0xffff);
  const q2 = Math.floor(t2 / billion);
  const last = t2 - q2 * billion;
  const rest = (q0 * 65536 + q1) * 65536 + q2;
  if (rest < billion) {
    at = writeDigits(bytes, at, rest, countDigits(rest));
  } else {
    const first = Math.floor(rest / billion);
    at = writeDigits(bytes, at, first, countDigits(first));
    at = writeDigits(bytes, at, rest - first * billion, 9);
  }
  return writeDigits(bytes, at, last, 9);
}

/** Appends a signed 64-bit integer in decimal, exactly. */
export function appendInt64(low: number, high: number, column: Utf8Column): void {
  column.reserve(longestNumber);
  const { bytes } = column;
  let at = column.byteLength;
  if (high < 0) {
    bytes[at++] = 0x2d;
    high = low === 0 ? -high : ~high;
    low = -low;
  }
  column.byteLength = writeUnsigned(bytes, at, low | 0, high | 0);
}

/**
 * Writes a double that has at most six decimals and 15 digits, as durations and ratios do; -1 when this
 * one does not. `magnitude` is then the double nearest to micros / 10^6, and since no two decimals of 15
 * digits share a double, these digits are the shortest that read back as the same value.
 */
function writeDecimal(bytes: Uint8Array, at: number, magnitude: number): number {
  const micros = Math.round(magnitude * 1e6);
  if (micros === 0 || micros / 1e6 !== magnitude) {
    return -1;
  }
  const whole = Math.floor(micros / 1e6);
  let fraction = micros - whole * 1e6;
  let digits = 6;
  while (fraction % 10 === 0) {
    fraction /= 10;
    digits--;
  }
  at = writeDigits(bytes, at, whole, countDigits(whole));
  bytes[at++] = 0x2e;
  return writeDigits(bytes, at, fraction, digits);
}

/** Appends a double as {@link writeDouble} writes it. */
export function appendDouble(value: number, column: Utf8Column): void {
  column.reserve(longestNumber);
  column.byteLength = writeDouble(column.bytes, column.byteLength, value);
}

/**
 * Writes a double at `at`, of at most 32 bytes: always with a point or an exponent, so that it never reads as an integer;
 * the values that JSON has no number for as the strings "NaN", "Infinity" and "-Infinity". @returns its end.
 */
export function writeDouble(bytes: Uint8Array, at: number, value: number): number {
  const magnitude = Math.abs(value);
  if (magnitude < 4294967296 && Math.floor(magnitude) === magnitude) {
    if (value < 0 || Object.is(value, -0)) {
      bytes[at++] = 0x2d;
    }
    at = writeDigits(bytes, at, magnitude, countDigits(magnitude));
    bytes[at++] = 0x2e;
    bytes[at++] = 0x30;
    return at;
  }
  if (magnitude < billion) {
    if (value < 0) {
      bytes[at] = 0x2d;
    }
    const end = writeDecimal(bytes, value < 0 ? at + 1 : at, magnitude);
    if (end !== -1) {
      return end;
    }
  }
  let text = String(value);
  if (!Number.isFinite(value)) {
    text = `"${text}"`;
  } else if (Math.floor(magnitude) === magnitude && magnitude < 1e21) {
    text += ".0";
  }
  for (let index = 0; index < text.length; index++) {
    bytes[at++] = text.charCodeAt(index);
  }
  return at;
}
