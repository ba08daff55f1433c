/**
 * Key strings: `svk_` + 32 random bytes in base62 + CRC-32 of all that precedes, in base62.
 *
 * Both numbers have a fixed width (43 and 6 digits, most significant first, padded with `0`), so
 * that every key has one spelling and one length. 43 digits are enough (62^43 > 2^256), and no two
 * secrets share a spelling, so every key is equally likely.
 *
 * The check of a presented key runs for every key not met before: about half a microsecond.
 */
import { hash, randomBytes } from "node:crypto";
import { crc32 } from "node:zlib";

const prefix = "svk_";
const randomByteCount = 32;
const randomDigits = 43;
const checksumDigits = 6;
const checkedLength = prefix.length + randomDigits;
const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/** Length of every key string, in characters (all ASCII). */
export const keyLength = checkedLength + checksumDigits;

const digitOf = new Int8Array(128).fill(-1);
for (let i = 0; i < alphabet.length; i++) {
  digitOf[alphabet.charCodeAt(i)] = i;
}

/** The value of a digit of base62; -1 for any other character. */
function digitAt(text: string, at: number): number {
  return digitOf[text.charCodeAt(at)] ?? -1;
}

function base62(value: bigint, digits: number): string {
  let out = "";
  for (let rest = value, i = 0; i < digits; i++) {
    out = alphabet.charAt(Number(rest % 62n)) + out;
    rest /= 62n;
  }
  return out;
}

/**
 * Make a key string from 32 random bytes.
 * @param random source of randomness, `crypto.randomBytes` by default; tests pass their own.
 */
export function generateKeyString(random: (bytes: number) => Uint8Array = randomBytes): string {
  const bytes = random(randomByteCount);
  if (bytes.length !== randomByteCount) {
    throw new RangeError("a key takes exactly 32 random bytes");
  }
  const checked = prefix + base62(BigInt(`0x${Buffer.from(bytes).toString("hex")}`), randomDigits);
  return checked + base62(BigInt(crc32(checked)), checksumDigits);
}

/** True when `text` begins, at `start`, with the fixed prefix that marks a key. */
export function hasKeyPrefix(text: string, start: number): boolean {
  return text.startsWith(prefix, start);
}

/**
 * True when `text`, from `start` to its end, is a key string whose checksum holds. What fails here was never made by
 * this service: it is refused without a look-up and without an entry in any cache.
 */
export function isWellFormedKey(text: string, start = 0): boolean {
  if (text.length - start !== keyLength || !hasKeyPrefix(text, start)) {
    return false;
  }
  const checkedEnd = start + checkedLength;
  for (let i = start + prefix.length; i < checkedEnd; i++) {
    if (digitAt(text, i) < 0) {
      return false;
    }
  }
  let checksum = 0;
  for (let i = checkedEnd; i < text.length; i++) {
    const digit = digitAt(text, i);
    if (digit < 0) {
      return false;
    }
    checksum = checksum * 62 + digit;
  }
  return checksum === crc32(text.slice(start, checkedEnd));
}

/** SHA-256 of the whole key string: the 32 bytes stored in `key_hash`. */
export function hashKey(key: string): Buffer {
  return hash("sha256", key, "buffer");
}

/**
 * SHA-256 of the whole key string as 32 characters of one byte each (Node's `binary` encoding).
 * The cheapest form to get out of OpenSSL (0.5 us; a Buffer costs three times that) and usable as a Map key.
 */
export function hashKeyBinary(key: string): string {
  return hash("sha256", key, "binary");
}
