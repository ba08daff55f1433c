/**
 * OTLP/JSON to OTLP protobuf, byte by byte (OTLP 1.x, "JSON Protobuf Encoding"), so that both formats
 * share everything behind it and equal JSON always gives equal bytes, and so equal block ids.
 *
 * Not JSON.parse: integers of 64 bits stay exact whether they are sent as strings or as numbers, and no
 * object is made. Where the mapping leaves a choice:
 * - A field that is given twice, under either of its names, is an error, as is a second member of a oneof.
 * - null means an absent field; null in an array is an error.
 * - Unknown fields are skipped, but checked: syntax, nesting. Unknown enum names are errors.
 * - Integers may be written with fraction or exponent when their value is integral; out of range is an
 *   error, and so is a double that overflows. An `intValue` beyond 64 bits is a double: the JavaScript SDK writes every
 *   number without a fraction so, 1e21 too, which it sends as a double in protobuf.
 * - An id that is not hex fails its record, not the request: it becomes an id of a length that none has. So does text that
 *   is not Unicode: it stays text that is not UTF-8.
 * - Messages nest as deeply as in protobuf; in what is skipped, objects and arrays count.
 */
import {
  createRequestTypes,
  fieldKind,
  type JsonField,
  type JsonKey,
  keyHash,
  keyHashSeed,
  type JsonMessage,
} from "../../wire/otlp/otlp-json-schema.js";
import { slack, wireType } from "../../wire/protobuf-reader.js";
import { ProtobufWriter } from "../../wire/protobuf-writer.js";
import type { OtlpSignal } from "../../wire/otlp/rpc-status.js";
import { appendBase64Bytes, appendHexBytes } from "./json-bytes.js";
import { hexValues, JsonScanner, jsonSentinelBytes } from "./json-scanner.js";
import { parseDouble, parseInteger, type IntegerWords } from "./json-numbers.js";

const keptBytes = 8 * 1024 * 1024;

const ascii = (text: string): Uint8Array => Uint8Array.from(text, (c) => c.charCodeAt(0));
const literalTrue = ascii("true");
const literalFalse = ascii("false");
const literalNull = ascii("null");

/** Number of the field in AnyValue, the one message with a field of the kind int64. */
const doubleValue = 4;

/** Ids of up to this many bytes are read without a detour. */
const longestId = 32;

const openBrace = 0x7b;
const closeBrace = 0x7d;
const openBracket = 0x5b;
const closeBracket = 0x5d;
const comma = 0x2c;
const colon = 0x3a;
const quote = 0x22;

/** See the head of this file. One for the life of a worker; it keeps its memory, up to a size. */
export class JsonTranscoder {
  readonly #maxDepth: number;
  readonly #types = createRequestTypes();
  readonly #scanner = new JsonScanner();
  readonly #out = new ProtobufWriter(256 * 1024);
  /** Text of strings that are not copied: keys, numbers, ids. */
  readonly #scratch = new ProtobufWriter(1024);
  readonly #words: IntegerWords = { low: 0, high: 0 };

  constructor(maxDepth: number) {
    if (slack < jsonSentinelBytes) {
      throw new RangeError("the slack is smaller than the sentinel");
    }
    this.#maxDepth = maxDepth;
  }

  /**
   * Transcodes the request in `bytes[start, end)`; overwrites the slack behind it.
   * @returns the writer with the protobuf, good until the next call, or release. Throws MalformedError.
   */
  transcode(signal: OtlpSignal, bytes: Uint8Array, start: number, end: number): ProtobufWriter {
    bytes.fill(0, end, end + jsonSentinelBytes);
    const scanner = this.#scanner;
    scanner.attach(bytes, start);
    this.release();
    scanner.peek();
    this.#message(this.#types[signal - 1]!, 0);
    scanner.peek();
    if (scanner.pos !== end) {
      throw scanner.malformed("something follows the JSON value");
    }
    return this.#out;
  }

  /** Forgets the last request, and gives back memory beyond measure. */
  release(): void {
    this.#out.reset(keptBytes);
    this.#scratch.reset(keptBytes);
  }

  /** Writes the fields of a message object that begins here. */
  #message(type: JsonMessage, depth: number): void {
    const scanner = this.#scanner;
    if (depth > this.#maxDepth) {
      throw scanner.malformed("messages are nested too deeply");
    }
    scanner.expect(openBrace);
    let seen = 0;
    let set = 0;
    if (scanner.peek() === closeBrace) {
      scanner.pos++;
      return;
    }
    let before: JsonKey | null = null;
    for (;;) {
      const expected: JsonKey | null = before === null ? type.first : before.next;
      const key: JsonKey | null = this.#key(type, expected);
      if (key !== null) {
        if (before === null) {
          type.first = key;
        } else {
          before.next = key;
        }
        before = key;
      }
      const field = key === null ? null : key.field;
      scanner.expect(colon);
      const byte = scanner.peek();
      if (field === null) {
        this.#skip(depth + 1);
      } else {
        if ((seen & field.bit) !== 0) {
          throw scanner.malformed("a field is given twice");
        }
        seen |= field.bit;
        if (byte === 0x6e) {
          scanner.literal(literalNull);
        } else {
          if ((set & field.rivals) !== 0) {
            throw scanner.malformed("two members of a oneof are set");
          }
          set |= field.bit;
          if (field.repeated) {
            this.#array(field, depth);
          } else {
            this.#field(field, depth);
          }
        }
      }
      const next = scanner.peek();
      scanner.pos++;
      if (next === closeBrace) {
        return;
      }
      if (next !== comma) {
        scanner.pos--;
        throw scanner.malformed();
      }
      scanner.peek();
    }
  }

  /** Consumes a key, perhaps the expected one. @returns it, or null when no field has that name. */
  #key(type: JsonMessage, expected: JsonKey | null): JsonKey | null {
    const scanner = this.#scanner;
    const { bytes } = scanner;
    if (bytes[scanner.pos] !== quote) {
      throw scanner.malformed();
    }
    if (expected !== null) {
      const text = expected.bytes;
      let pos = scanner.pos + 1;
      let index = 0;
      while (index < text.length && bytes[pos] === text[index]) {
        pos++;
        index++;
      }
      if (index === text.length && bytes[pos] === quote) {
        scanner.pos = pos + 1;
        return expected;
      }
    }
    const start = scanner.pos + 1;
    let hash = keyHashSeed;
    for (let pos = start; ; pos++) {
      const byte = bytes[pos]!;
      if (byte === quote) {
        scanner.pos = pos + 1;
        return type.find(bytes, start, pos, hash);
      }
      if (byte < 0x20 || byte >= 0x80 || byte === 0x5c) {
        break;
      }
      hash = keyHash(hash, byte);
    }
    // Escapes, or not ASCII: through the scratch memory.
    const scratch = this.#scratch;
    const from = scratch.at;
    scanner.string(scratch);
    hash = keyHashSeed;
    for (let pos = from; pos < scratch.at; pos++) {
      hash = keyHash(hash, scratch.bytes[pos]!);
    }
    const key = type.find(scratch.bytes, from, scratch.at, hash);
    scratch.at = from;
    return key;
  }

  #array(field: JsonField, depth: number): void {
    const scanner = this.#scanner;
    const out = this.#out;
    scanner.expect(openBracket);
    if (scanner.peek() === closeBracket) {
      scanner.pos++;
      return;
    }
    // Numbers are packed.
    const isPacked = field.wireType !== wireType.bytes;
    let mark = 0;
    if (isPacked) {
      out.tag(field.number, wireType.bytes);
      mark = out.open();
    }
    for (;;) {
      scanner.peek();
      if (isPacked) {
        this.#scalar(field);
      } else {
        this.#field(field, depth);
      }
      const next = scanner.peek();
      if (next !== comma && next !== closeBracket) {
        throw scanner.malformed();
      }
      scanner.pos++;
      if (next === closeBracket) {
        break;
      }
    }
    if (isPacked) {
      out.close(mark);
    }
  }

  /** One value of a field, with its tag. */
  #field(field: JsonField, depth: number): void {
    const scanner = this.#scanner;
    const out = this.#out;
    out.tag(field.number, field.wireType);
    if (field.wireType !== wireType.bytes) {
      this.#scalar(field);
      return;
    }
    const mark = out.open();
    if (field.kind === fieldKind.message) {
      this.#message(field.type!, depth + 1);
    } else {
      if (scanner.bytes[scanner.pos] !== quote) {
        throw scanner.malformed("a string is expected");
      }
      if (field.kind === fieldKind.string) {
        scanner.string(out);
      } else {
        this.#bytes(field.kind === fieldKind.hex);
      }
    }
    out.close(mark);
  }

  /** A string of hex digits or base64, as bytes. */
  #bytes(isHex: boolean): void {
    if (isHex) {
      // An id straight from the input; anything else takes the way below.
      const { bytes } = this.#scanner;
      const out = this.#out;
      out.reserve(longestId);
      let { at } = out;
      const limit = at + longestId;
      let pos = this.#scanner.pos + 1;
      for (; at < limit; pos += 2) {
        const high = hexValues[bytes[pos]!]!;
        const low = hexValues[bytes[pos + 1]!]!;
        if ((high | low) < 0) {
          break;
        }
        out.bytes[at++] = (high << 4) | low;
      }
      if (bytes[pos] === quote) {
        out.at = at;
        this.#scanner.pos = pos + 1;
        return;
      }
    }
    const scratch = this.#scratch;
    const out = this.#out;
    const from = scratch.at;
    const before = out.at;
    this.#scanner.string(scratch);
    if (!isHex) {
      const isGood = appendBase64Bytes(scratch.bytes, from, scratch.at, out);
      if (!isGood) {
        throw this.#scanner.malformed("bytes are not base64");
      }
    } else if (!appendHexBytes(scratch.bytes, from, scratch.at, out)) {
      // An id of one byte: no id has that length, so the decoder refuses this record and keeps the rest.
      out.at = before;
      out.varint32(0);
    }
    scratch.at = from;
  }

  /** A number, bool or enum without its tag. */
  #scalar(field: JsonField): void {
    const scanner = this.#scanner;
    const { kind } = field;
    if (kind === fieldKind.bool) {
      const isTrue = scanner.bytes[scanner.pos] === 0x74;
      scanner.literal(isTrue ? literalTrue : literalFalse);
      this.#out.varint32(isTrue ? 1 : 0);
      return;
    }
    if (scanner.bytes[scanner.pos] !== quote) {
      const start = scanner.number();
      this.#writeNumber(kind, scanner.bytes, start, scanner.pos, scanner.isPlainInteger);
      return;
    }
    const digit = scanner.bytes[scanner.pos + 1]!;
    if (digit >= 0x30 && digit <= 0x39 && kind !== fieldKind.enum) {
      // A number in a string, as 64-bit integers are sent; straight from the input if that is all.
      const opening = scanner.pos++;
      const start = scanner.number();
      if (scanner.bytes[scanner.pos] === quote) {
        this.#writeNumber(kind, scanner.bytes, start, scanner.pos, scanner.isPlainInteger);
        scanner.pos++;
        return;
      }
      scanner.pos = opening;
    }
    // A number in a string, a name of an enum, or a double that JSON has no number for.
    const scratch = this.#scratch;
    const from = scratch.at;
    scanner.string(scratch);
    const text = Buffer.from(scratch.bytes.subarray(from, scratch.at)).toString("latin1");
    if (kind === fieldKind.enum) {
      const value = field.enumNames?.get(text);
      if (value === undefined) {
        throw scanner.malformed("an enum has an unknown name");
      }
      this.#out.varint32(value);
    } else if (kind === fieldKind.double && (text === "NaN" || text === "Infinity" || text === "-Infinity")) {
      this.#out.double(Number(text));
    } else {
      const match = /^-?(?:0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/u.exec(text);
      if (match === null || text.length > 512) {
        throw scanner.malformed("a number is malformed");
      }
      const isPlainInteger = match[1] === undefined && match[2] === undefined;
      this.#writeNumber(kind, scratch.bytes, from, scratch.at, isPlainInteger);
    }
    scratch.at = from;
  }

  /** Writes the number `bytes[start, end)`, which is of JSON's grammar. */
  #writeNumber(kind: number, bytes: Uint8Array, start: number, end: number, isPlainInteger: boolean): void {
    const scanner = this.#scanner;
    const out = this.#out;
    if (kind === fieldKind.double) {
      const value = parseDouble(bytes, start, end);
      if (!Number.isFinite(value)) {
        throw scanner.malformed("a double is out of range");
      }
      out.double(value);
      return;
    }
    const words = this.#words;
    const isSigned =
      kind === fieldKind.int64 || kind === fieldKind.sfixed64 || kind === fieldKind.sint32 || kind === fieldKind.enum;
    const isFixed64 = kind === fieldKind.fixed64 || kind === fieldKind.sfixed64;
    const bits = isFixed64 || kind === fieldKind.int64 || kind === fieldKind.uint64 ? 64 : 32;
    const isGood = parseInteger(bytes, start, end, isPlainInteger, isSigned, bits, words);
    if (!isGood) {
      if (kind === fieldKind.int64 && this.#writeLargeNumber(parseDouble(bytes, start, end))) {
        return;
      }
      throw scanner.malformed("an integer is out of range or not integral");
    }
    const { low, high } = words;
    if (isFixed64) {
      out.fixed64(low, high);
    } else if (kind === fieldKind.fixed32) {
      out.fixed32(low);
    } else if (kind === fieldKind.sint32) {
      out.varint32((low << 1) ^ (low >> 31));
    } else {
      out.varint64(low, high);
    }
  }

  /**
   * An `intValue` beyond 64 bits, as the double that it is, in the place of its tag of one byte.
   * @returns whether it is one; else nothing was written
   */
  #writeLargeNumber(value: number): boolean {
    if (!Number.isFinite(value) || Math.abs(value) < 2 ** 63) {
      return false;
    }
    const out = this.#out;
    out.at--;
    out.tag(doubleValue, wireType.fixed64);
    out.double(value);
    return true;
  }

  /** Skips a value of an unknown field; `depth` is its own if it nests. */
  #skip(depth: number): void {
    const scanner = this.#scanner;
    const byte = scanner.peek();
    switch (byte) {
      case quote:
        this.#skipString();
        return;
      case openBrace:
      case openBracket:
        this.#skipNested(byte === openBrace, depth);
        return;
      case 0x74:
        scanner.literal(literalTrue);
        return;
      case 0x66:
        scanner.literal(literalFalse);
        return;
      case 0x6e:
        scanner.literal(literalNull);
        return;
      default:
        scanner.number();
    }
  }

  #skipString(): void {
    const scratch = this.#scratch;
    const from = scratch.at;
    this.#scanner.string(scratch);
    scratch.at = from;
  }

  #skipNested(isObject: boolean, depth: number): void {
    const scanner = this.#scanner;
    if (depth > this.#maxDepth) {
      throw scanner.malformed("values are nested too deeply");
    }
    const close = isObject ? closeBrace : closeBracket;
    scanner.pos++;
    if (scanner.peek() === close) {
      scanner.pos++;
      return;
    }
    for (;;) {
      if (isObject) {
        if (scanner.peek() !== quote) {
          throw scanner.malformed();
        }
        this.#skipString();
        scanner.expect(colon);
      }
      this.#skip(depth + 1);
      const next = scanner.peek();
      if (next !== comma && next !== close) {
        throw scanner.malformed();
      }
      scanner.pos++;
      if (next === close) {
        return;
      }
    }
  }
}
