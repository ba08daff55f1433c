import { createHash } from "node:crypto";
import { crc32 } from "node:zlib";
import { assert, property, uint8Array } from "fast-check";
import { describe, expect, it } from "vitest";
import { generateKeyString, hashKey, hashKeyBinary, isWellFormedKey, keyLength } from "../../src/auth/key-string.js";

const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const value = (digits: string): bigint =>
  Array.from(digits).reduce((sum, digit) => sum * 62n + BigInt(alphabet.indexOf(digit)), 0n);

describe("key strings", () => {
  it("are svk_, 43 base62 digits of the 32 bytes and 6 of the CRC-32 of all before", () => {
    assert(
      property(uint8Array({ minLength: 32, maxLength: 32 }), (bytes) => {
        const key = generateKeyString(() => bytes);
        expect(key).toMatch(/^svk_[0-9A-Za-z]{49}$/);
        expect(key.length).toBe(keyLength);
        const digits = key.slice(4, 47);
        expect(value(digits).toString(16).padStart(64, "0")).toBe(Buffer.from(bytes).toString("hex"));
        expect(value(key.slice(47))).toBe(BigInt(crc32(key.slice(0, 47))));
        expect(isWellFormedKey(key)).toBe(true);
      }),
    );
  });

  it("hold every 256-bit value in the fixed width", () => {
    for (const fill of [0, 255]) {
      const key = generateKeyString((n) => new Uint8Array(n).fill(fill));
      expect(key.length).toBe(keyLength);
      expect(isWellFormedKey(key)).toBe(true);
    }
  });

  it("differ from one call to the next", () => {
    expect(new Set(Array.from({ length: 500 }, () => generateKeyString())).size).toBe(500);
  });

  it("fail their checksum when any one character changes", () => {
    const key = generateKeyString();
    for (let at = 0; at < key.length; at++) {
      const other = key[at] === "a" ? "b" : "a";
      expect(isWellFormedKey(key.slice(0, at) + other + key.slice(at + 1))).toBe(false);
    }
  });

  it("are refused when shortened, lengthened, padded or outside ASCII", () => {
    const key = generateKeyString();
    for (const bad of ["", "svk_", key.slice(1), key.slice(0, -1), `${key}0`, `${key} `, ` ${key}`]) {
      expect(isWellFormedKey(bad)).toBe(false);
    }
    for (let at = 0; at < key.length; at++) {
      // The same low byte as the right character: a check that drops high bits would accept it.
      const wide = String.fromCharCode(key.charCodeAt(at) | 0x100);
      expect(isWellFormedKey(key.slice(0, at) + wide + key.slice(at + 1))).toBe(false);
      expect(isWellFormedKey(`${key.slice(0, at)}\u00e9${key.slice(at + 1)}`)).toBe(false);
    }
  });

  it("are refused when the checksum digits exceed 32 bits though equal modulo 2^32", () => {
    const key = generateKeyString((n) => new Uint8Array(n).fill(7));
    let more = value(key.slice(47)) + 2n ** 32n;
    let digits = "";
    for (let i = 0; i < 6; i++) {
      digits = alphabet.charAt(Number(more % 62n)) + digits;
      more /= 62n;
    }
    expect(isWellFormedKey(key.slice(0, 47) + digits)).toBe(false);
  });

  it("are checked from an offset in a longer text", () => {
    const key = generateKeyString();
    expect(isWellFormedKey(`Bearer ${key}`, 7)).toBe(true);
    expect(isWellFormedKey(`Bearer ${key}`, 6)).toBe(false);
  });

  it("hash as a whole, prefix and checksum included", () => {
    const key = generateKeyString();
    const expected = createHash("sha256").update(key).digest();
    expect(hashKey(key)).toEqual(expected);
    expect(Buffer.from(hashKeyBinary(key), "latin1")).toEqual(expected);
  });
});
