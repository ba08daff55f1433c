/**
 * Protobuf for small messages, read where they are and written as pieces: fields in, fields out. Unknown
 * fields are skipped; bytes that were read share memory with the message. Telemetry itself, where a field
 * must cost nothing, has `ProtobufReader` and `ProtobufWriter`, which want room around the message.
 */
import { ServiceError } from "../runtime/errors.js";

const wireVarint = 0;
const wireFixed64 = 1;
const wireFixed32 = 5;
/** Wire type of bytes, texts and messages. */
export const wireBytes = 2;

/** No bytes. */
export const none: Uint8Array = new Uint8Array(0);

/** The bytes of one field, of which the last counts; empty when it is absent. @throws ServiceError BAD_REQUEST */
export function onlyBytes(message: Uint8Array, wanted: number): Uint8Array {
  let found = none;
  eachField(message, (field, bytes) => {
    if (field === wanted) {
      found = bytes;
    }
  });
  return found;
}

const decoder = new TextDecoder("utf-8", { fatal: true });

/** A text field. @throws ServiceError BAD_REQUEST when it is not UTF-8 */
export function decodeText(bytes: Uint8Array): string {
  try {
    return decoder.decode(bytes);
  } catch (error) {
    throw new ServiceError("BAD_REQUEST", "A text field is not valid UTF-8.", { cause: error });
  }
}

/**
 * Most fields of a message: more than any of these messages has. Empty ones take two bytes each, and may cost thousands
 * of times what a byte costs.
 */
const maxFields = 10_000;

/**
 * Calls `visitBytes` for each field of bytes, and `visitNumber` for each number; others are skipped, so that a field
 * of another wire type than its own is an unknown one. A number that takes ten bytes is a negative one, of which the
 * lower 32 bits are read: int32 and enums, no more.
 * @throws ServiceError BAD_REQUEST
 */
export function eachField(
  message: Uint8Array,
  visitBytes: (field: number, bytes: Uint8Array) => void,
  visitNumber: (field: number, number: number) => void = skip,
): void {
  let at = 0;
  const readVarint = (): number => {
    let value = 0;
    let scale = 1;
    let lower = 0;
    for (let i = 0; i < 10; i++) {
      const byte = message[at++];
      if (byte === undefined) {
        throw malformed();
      }
      value += (byte & 0x7f) * scale;
      if (i < 5) {
        lower |= (byte & 0x7f) << (7 * i);
      }
      if (byte < 0x80) {
        return i === 9 ? lower : value;
      }
      scale *= 128;
    }
    throw malformed();
  };
  for (let fields = 0; at < message.length; fields++) {
    if (fields >= maxFields) {
      throw new ServiceError("BAD_REQUEST", `A message has more than ${maxFields} fields.`);
    }
    const tag = readVarint();
    if (tag < 0) {
      throw malformed();
    }
    const field = Math.floor(tag / 8);
    switch (tag % 8) {
      case wireVarint:
        visitNumber(field, readVarint());
        break;
      case wireBytes: {
        const length = readVarint();
        if (length < 0 || length > message.length - at) {
          throw malformed();
        }
        visitBytes(field, message.subarray(at, at + length));
        at += length;
        break;
      }
      case wireFixed64:
        at += 8;
        break;
      case wireFixed32:
        at += 4;
        break;
      default:
        throw malformed();
    }
    if (field === 0 || at > message.length) {
      throw malformed();
    }
  }
}

function skip(): void {
  // Nobody asks for it.
}

/** What is not protobuf. */
export function malformed(): ServiceError {
  return new ServiceError("BAD_REQUEST", "The message is not valid protobuf.");
}

/** Encodes a field of bytes, text or a message. */
export function bytesField(field: number, value: Uint8Array | string): Buffer {
  const length = typeof value === "string" ? Buffer.byteLength(value) : value.length;
  const key = (field << 3) | wireBytes;
  const out = Buffer.allocUnsafe(varintBytes(key) + varintBytes(length) + length);
  const at = writeVarint(out, length, writeVarint(out, key, 0));
  if (typeof value === "string") {
    out.write(value, at);
  } else {
    out.set(value, at);
  }
  return out;
}

/** Of a number below 2^31. */
function varintBytes(value: number): number {
  return value < 0x80 ? 1 : 1 + varintBytes(value >>> 7);
}

/** @returns where it ends */
function writeVarint(out: Buffer, value: number, at: number): number {
  let rest = value;
  let end = at;
  for (; rest >= 0x80; rest >>>= 7) {
    out[end++] = (rest & 0x7f) | 0x80;
  }
  out[end++] = rest;
  return end;
}

/** Encodes a number, negative ones in two's complement. */
export function varintField(field: number, value: bigint): Buffer {
  return Buffer.concat([varint(BigInt((field << 3) | wireVarint)), varint(BigInt.asUintN(64, value))]);
}

/** Encodes a bare varint. */
export function varint(value: bigint): Buffer {
  const out: number[] = [];
  let rest = value;
  while (rest >= 0x80n) {
    out.push(Number(rest & 0x7fn) | 0x80);
    rest >>= 7n;
  }
  out.push(Number(rest));
  return Buffer.from(out);
}
