/**
 * JSON text (RFC 8259), read in place: strings, numbers, literals and values to be skipped. Strict: no
 * comments, no trailing commas, no control characters in strings. But text that is not Unicode stays what it is: bytes that
 * are not UTF-8, and a lone surrogate as three such bytes, so that the decoder refuses its record alone, as in protobuf.
 *
 * Byte-level code. The input ends with zero bytes behind its end, which no rule of the grammar takes:
 * so reading on never needs to compare the position with the end.
 */
import { MalformedError } from "../../wire/protobuf-reader.js";
import type { ProtobufWriter } from "../../wire/protobuf-writer.js";
import { sequenceLength } from "../decode/text.js";

/** Zero bytes that the input must be followed by. */
export const jsonSentinelBytes = 16;

/** Longest number that is read; a double needs at most 17 digits and an exponent. */
const longestNumber = 512;

const quote = 0x22;
const backslash = 0x5c;
const minus = 0x2d;
const dot = 0x2e;

/** Room that a string is given in the output at a time. */
const stringChunk = 4096;

const escapes = new Uint8Array(128);
for (const [letter, byte] of [
  ['"', 0x22],
  ["\\", 0x5c],
  ["/", 0x2f],
  ["b", 0x08],
  ["f", 0x0c],
  ["n", 0x0a],
  ["r", 0x0d],
  ["t", 0x09],
] as const) {
  escapes[letter.charCodeAt(0)] = byte;
}

/** Value of each hex digit, -1 for every other byte. */
export const hexValues = new Int8Array(256).fill(-1);
"0123456789abcdef".split("").forEach((digit, value) => {
  hexValues[digit.charCodeAt(0)] = value;
  hexValues[digit.toUpperCase().charCodeAt(0)] = value;
});

function isDigit(byte: number): boolean {
  return byte >= 0x30 && byte <= 0x39;
}

/** Reads JSON from a buffer; the position moves on with every call. */
export class JsonScanner {
  bytes: Uint8Array = new Uint8Array(jsonSentinelBytes);
  view: DataView = new DataView(this.bytes.buffer);
  pos = 0;
  #start = 0;

  /** Takes `bytes[start, end)`, which is followed by {@link jsonSentinelBytes} zero bytes. */
  attach(bytes: Uint8Array, start: number): void {
    this.bytes = bytes;
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.pos = start;
    this.#start = start;
  }

  /** The error for the present position. */
  malformed(what = "the JSON is malformed"): MalformedError {
    return new MalformedError(`${what} (at byte ${this.pos - this.#start})`);
  }

  /** Skips white space. @returns the byte behind it, which is not consumed. */
  peek(): number {
    const { bytes } = this;
    let { pos } = this;
    let byte = bytes[pos]!;
    while (byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09) {
      byte = bytes[++pos]!;
    }
    this.pos = pos;
    return byte;
  }

  /** Skips white space and consumes one byte, which must be this one. */
  expect(byte: number): void {
    if (this.peek() !== byte) {
      throw this.malformed();
    }
    this.pos++;
  }

  /** Consumes a literal that begins here. */
  literal(letters: Uint8Array): void {
    for (const letter of letters) {
      if (this.bytes[this.pos] !== letter) {
        throw this.malformed();
      }
      this.pos++;
    }
  }

  /** Consumes a string that begins here and appends its text, unescaped; as UTF-8, if it is Unicode. */
  string(target: ProtobufWriter): void {
    const { bytes, view } = this;
    let pos = this.pos + 1;
    target.reserve(stringChunk);
    let limit = target.at + stringChunk - 8;
    let at = target.at;
    for (;;) {
      if (at > limit) {
        target.at = at;
        target.reserve(stringChunk);
        limit = at + stringChunk - 8;
      }
      // Eight plain bytes at a time: see text.ts.
      const first = view.getInt32(pos, true);
      const second = view.getInt32(pos + 4, true);
      if (isPlain(first, second)) {
        target.view.setInt32(at, first, true);
        target.view.setInt32(at + 4, second, true);
        pos += 8;
        at += 8;
        continue;
      }
      const byte = bytes[pos]!;
      if (byte >= 0x20 && byte < 0x80 && byte !== quote && byte !== backslash) {
        target.bytes[at++] = byte;
        pos++;
      } else if (byte === quote) {
        break;
      } else if (byte === backslash) {
        this.pos = pos;
        target.at = at;
        this.#escape(target);
        pos = this.pos;
        at = target.at;
      } else {
        if (byte < 0x20) {
          this.pos = pos;
          throw this.malformed("a JSON string has a control character, or is not closed");
        }
        for (const stop = pos + (sequenceLength(bytes, pos, pos + 4) || 1); pos < stop; pos++) {
          target.bytes[at++] = bytes[pos]!;
        }
      }
    }
    this.pos = pos + 1;
    target.at = at;
  }

  /** Consumes an escape that begins here. */
  #escape(target: ProtobufWriter): void {
    const letter = this.bytes[this.pos + 1]!;
    if (letter !== 0x75) {
      const byte = letter < 0x80 ? escapes[letter]! : 0;
      if (byte === 0) {
        throw this.malformed();
      }
      target.bytes[target.at++] = byte;
      this.pos += 2;
      return;
    }
    let code = this.#hex4(this.pos + 2);
    this.pos += 6;
    if (code >= 0xd800 && code < 0xdc00 && this.bytes[this.pos] === backslash && this.bytes[this.pos + 1] === 0x75) {
      const low = this.#hex4(this.pos + 2);
      if (low >= 0xdc00 && low <= 0xdfff) {
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
        this.pos += 6;
      }
    }
    const { bytes } = target;
    if (code < 0x80) {
      bytes[target.at++] = code;
    } else if (code < 0x800) {
      bytes[target.at++] = 0xc0 | (code >> 6);
      bytes[target.at++] = 0x80 | (code & 0x3f);
    } else if (code < 0x10000) {
      bytes[target.at++] = 0xe0 | (code >> 12);
      bytes[target.at++] = 0x80 | ((code >> 6) & 0x3f);
      bytes[target.at++] = 0x80 | (code & 0x3f);
    } else {
      bytes[target.at++] = 0xf0 | (code >> 18);
      bytes[target.at++] = 0x80 | ((code >> 12) & 0x3f);
      bytes[target.at++] = 0x80 | ((code >> 6) & 0x3f);
      bytes[target.at++] = 0x80 | (code & 0x3f);
    }
  }

  #hex4(pos: number): number {
    let code = 0;
    for (let index = pos; index < pos + 4; index++) {
      const digit = hexValues[this.bytes[index]!]!;
      if (digit === -1) {
        throw this.malformed();
      }
      code = (code << 4) | digit;
    }
    return code;
  }

  /**
   * Consumes a number. @returns where it started.
   * `isPlainInteger` says afterwards whether it has neither fraction nor exponent.
   */
  number(): number {
    const { bytes } = this;
    const start = this.pos;
    let pos = start;
    this.isPlainInteger = true;
    if (bytes[pos] === minus) {
      pos++;
    }
    if (bytes[pos] === 0x30) {
      pos++;
    } else {
      pos = this.#digits(pos);
    }
    if (bytes[pos] === dot) {
      this.isPlainInteger = false;
      pos = this.#digits(pos + 1);
    }
    if ((bytes[pos]! | 0x20) === 0x65) {
      this.isPlainInteger = false;
      pos++;
      if (bytes[pos] === 0x2b || bytes[pos] === minus) {
        pos++;
      }
      pos = this.#digits(pos);
    }
    if (pos - start > longestNumber) {
      throw this.malformed("a number is too long");
    }
    this.pos = pos;
    return start;
  }

  /** See {@link number}. */
  isPlainInteger = true;

  #digits(pos: number): number {
    const { bytes } = this;
    if (!isDigit(bytes[pos]!)) {
      this.pos = pos;
      throw this.malformed();
    }
    do {
      pos++;
    } while (isDigit(bytes[pos]!));
    return pos;
  }
}

const highBits = 0x80808080 | 0;

/** Whether eight bytes are ASCII without quote, backslash and control characters. */
function isPlain(first: number, second: number): boolean {
  return ((special(first) | special(second)) & highBits) === 0;
}

function special(word: number): number {
  return (
    word |
    ((word - 0x20202020) | 0) |
    (((word ^ 0x22222222) - 0x01010101) | 0) |
    (((word ^ 0x5c5c5c5c) - 0x01010101) | 0)
  );
}
