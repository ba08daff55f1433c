/** Bytes that JSON carries as text. */
import type { ProtobufWriter } from "../../wire/protobuf-writer.js";
import { hexValues } from "./json-scanner.js";

/** Appends the bytes of hex digits (either case). @returns false when they are not hex digits in pairs. */
export function appendHexBytes(text: Uint8Array, start: number, end: number, target: ProtobufWriter): boolean {
  if (((end - start) & 1) !== 0) {
    return false;
  }
  target.reserve((end - start) >> 1);
  for (let pos = start; pos < end; pos += 2) {
    const high = hexValues[text[pos]!]!;
    const low = hexValues[text[pos + 1]!]!;
    if (high === -1 || low === -1) {
      return false;
    }
    target.bytes[target.at++] = (high << 4) | low;
  }
  return true;
}

const base64Values = new Int8Array(256).fill(-1);
"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/".split("").forEach((digit, value) => {
  base64Values[digit.charCodeAt(0)] = value;
});
base64Values["-".charCodeAt(0)] = 62;
base64Values["_".charCodeAt(0)] = 63;

/**
 * Appends the bytes of base64 (RFC 4648 sections 4 and 5: either alphabet, padded or not, as the proto3
 * JSON mapping accepts). @returns false when it is malformed.
 */
export function appendBase64Bytes(text: Uint8Array, start: number, end: number, target: ProtobufWriter): boolean {
  let stop = end;
  while (stop > start && end - stop < 2 && text[stop - 1] === 0x3d) {
    stop--;
  }
  if (stop < end && ((end - start) & 3) !== 0) {
    return false;
  }
  const digits = stop - start;
  if ((digits & 3) === 1) {
    return false;
  }
  target.reserve(((digits + 3) >> 2) * 3);
  let bits = 0;
  let held = 0;
  for (let pos = start; pos < stop; pos++) {
    const value = base64Values[text[pos]!]!;
    if (value === -1) {
      return false;
    }
    bits = (bits << 6) | value;
    held += 6;
    if (held >= 8) {
      held -= 8;
      target.bytes[target.at++] = bits >> held;
      bits &= (1 << held) - 1;
    }
  }
  return true;
}
