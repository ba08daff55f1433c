/** Numbers of JSON text. The callers have checked that the bytes are of JSON's grammar. */

/** A 64-bit integer as two 32-bit words; kept by the caller, so that none is made per value. */
export interface IntegerWords {
  low: number;
  high: number;
}

const twoTo32 = 4294967296;
/** Decimal digits that a double adds up exactly. */
const exactDigits = 15;
/** Powers of ten that are exact doubles. */
const exactPowers = Array.from({ length: 23 }, (_, exponent) => Number(`1e${exponent}`));

function textOf(bytes: Uint8Array, start: number, end: number): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset + start, end - start).toString("latin1");
}

/** The nearest double; infinite when out of range. */
export function parseDouble(bytes: Uint8Array, start: number, end: number): number {
  const isNegative = bytes[start] === 0x2d;
  let pos = isNegative ? start + 1 : start;
  // Few digits and no exponent: digits and power of ten are exact, so that one division rounds right.
  if (end - pos <= exactDigits + 1) {
    let value = 0;
    let fraction = -1;
    for (; pos < end; pos++) {
      const byte = bytes[pos]!;
      if (byte === 0x2e) {
        fraction = 0;
        continue;
      }
      if (byte > 0x39 || byte < 0x30) {
        break;
      }
      value = value * 10 + (byte - 0x30);
      if (fraction >= 0) {
        fraction++;
      }
    }
    if (pos === end && (fraction >= 0 || end - start <= exactDigits)) {
      const magnitude = fraction > 0 ? value / exactPowers[fraction]! : value;
      return isNegative ? -magnitude : magnitude;
    }
  }
  return Number(textOf(bytes, start, end));
}

/**
 * An integer, exactly.
 * @param isPlain it has neither fraction nor exponent. @param words receives two's complement.
 * @returns false when it is out of the range of `bits` (32 or 64), or not integral.
 */
export function parseInteger(
  bytes: Uint8Array,
  start: number,
  end: number,
  isPlain: boolean,
  isSigned: boolean,
  bits: number,
  words: IntegerWords,
): boolean {
  const isNegative = bytes[start] === 0x2d;
  const isMagnitudeGood = isPlain
    ? parseDigits(bytes, isNegative ? start + 1 : start, end, words)
    : parseScaled(textOf(bytes, isNegative ? start + 1 : start, end), words);
  if (!isMagnitudeGood) {
    return false;
  }
  let { low, high } = words;
  const isZero = low === 0 && high === 0;
  if (isNegative && !isSigned && !isZero) {
    return false;
  }
  // The magnitude has to fit below 2^(bits - 1) when signed, one more when negative.
  if (bits === 32) {
    const limit = isSigned ? (isNegative ? 0x80000000 : 0x7fffffff) : 0xffffffff;
    if (high !== 0 || low > limit) {
      return false;
    }
  } else if (isSigned && high >= 0x80000000 && !(isNegative && high === 0x80000000 && low === 0)) {
    return false;
  }
  if (isNegative) {
    high = low === 0 ? -high : ~high;
    low = -low;
  }
  words.low = low | 0;
  words.high = high | 0;
  return true;
}

/** Magnitude of decimal digits as unsigned words. @returns false at 2^64 and above. */
function parseDigits(bytes: Uint8Array, start: number, end: number, words: IntegerWords): boolean {
  let value = 0;
  let pos = start;
  for (const stop = Math.min(end, start + exactDigits); pos < stop; pos++) {
    value = value * 10 + (bytes[pos]! - 0x30);
  }
  let high = Math.floor(value / twoTo32);
  let low = value - high * twoTo32;
  for (; pos < end; pos++) {
    const next = low * 10 + (bytes[pos]! - 0x30);
    const carry = Math.floor(next / twoTo32);
    low = next - carry * twoTo32;
    high = high * 10 + carry;
    if (high >= twoTo32) {
      return false;
    }
  }
  words.low = low;
  words.high = high;
  return true;
}

/** Magnitude of a number with fraction or exponent. @returns false when not integral or too large. */
function parseScaled(text: string, words: IntegerWords): boolean {
  const [mantissa = "", exponentText = "0"] = text.toLowerCase().split("e");
  const [whole = "", fraction = ""] = mantissa.split(".");
  let digits = whole + fraction;
  let exponent = Number(exponentText) - fraction.length;
  let last = digits.length;
  while (last > 0 && digits[last - 1] === "0") {
    last--;
  }
  exponent += digits.length - last;
  digits = digits.slice(0, last).replace(/^0+/u, "");
  if (digits === "") {
    words.low = 0;
    words.high = 0;
    return true;
  }
  if (exponent < 0 || digits.length + exponent > 20) {
    return false;
  }
  return parseDigits(Buffer.from(digits + "0".repeat(exponent), "latin1"), 0, digits.length + exponent, words);
}
