/**
 * OTLP attributes and AnyValue (opentelemetry/proto/common/v1) as JSON text, straight from the bytes.
 *
 * Strings are JSON strings, int64 exact decimal digits, doubles always with a point or an exponent,
 * bytes base64 strings, arrays arrays, key-value lists objects, an empty value null. Keys keep the order
 * in which they were sent, but for those of resources and scopes (resource.ts); a key that was sent twice appears twice.
 *
 * Hot code: the shapes that every SDK writes (key then value, one field per value, minimal lengths)
 * take a short path; anything else that is legal protobuf (any field order, repeated singular fields,
 * unknown fields) takes the general one. Writers append to the unfinished value of a column.
 */
import type { Utf8Column } from "../../lake/tables/columns.js";
import type { DecodeContext } from "./decode-context.js";
import { appendDouble, appendInt64, doubleOf } from "./numbers.js";
import { appendBase64, appendJsonKey, appendJsonString, appendText } from "./text.js";

/** Kinds of AnyValue: the numbers of its fields, 0 for none. */
export const valueKind = {
  empty: 0,
  string: 1,
  bool: 2,
  int: 3,
  double: 4,
  array: 5,
  kvlist: 6,
  bytes: 7,
} as const;

const comma = 0x2c;
const longestToken = 16;

/** Tags of AnyValue's fields, as the only field of a value. */
const stringTag = 0x0a;
const boolTag = 0x10;
const intTag = 0x18;
const doubleTag = 0x21;
const arrayTag = 0x2a;
const kvlistTag = 0x32;
const bytesTag = 0x3a;

const tokenTrue = Uint8Array.from("true", (c) => c.charCodeAt(0));
const tokenFalse = Uint8Array.from("false", (c) => c.charCodeAt(0));
const tokenNull = Uint8Array.from("null", (c) => c.charCodeAt(0));

function appendToken(token: Uint8Array, column: Utf8Column): void {
  column.reserve(longestToken);
  const { bytes } = column;
  let at = column.byteLength;
  for (let index = 0; index < token.length; index++) {
    bytes[at++] = token[index]!;
  }
  column.byteLength = at;
}

function appendByte(byte: number, column: Utf8Column): void {
  column.reserve(1);
  column.bytes[column.byteLength++] = byte;
}

/** Closes a JSON array or object whose members, from `start` on, were each written behind a comma. */
export function close(column: Utf8Column, start: number, open: number, shut: number): void {
  column.reserve(2);
  if (column.byteLength === start) {
    column.bytes[column.byteLength++] = open;
  } else {
    column.bytes[start] = open;
  }
  column.bytes[column.byteLength++] = shut;
}

/** Closes the JSON object of the attributes that were appended to the unfinished value. */
export function closeAttributes(column: Utf8Column): void {
  close(column, column.valueStart, 0x7b, 0x7d);
}

/** Closes the JSON object of the attributes that were appended to the unfinished value, and the value. */
export function finishAttributes(column: Utf8Column): void {
  closeAttributes(column);
  column.finish();
}

/** Whether `[start, end)` is a name that only the service itself may write: `svc.` and all below. */
function isReservedName(bytes: Uint8Array, start: number, end: number): boolean {
  return (
    end - start >= 4 &&
    bytes[start] === 0x73 &&
    bytes[start + 1] === 0x76 &&
    bytes[start + 2] === 0x63 &&
    bytes[start + 3] === 0x2e
  );
}

/**
 * Appends one attribute (a KeyValue) as `,"key":value`; {@link finishAttributes} makes an object of
 * them. A reserved name is left out and counted.
 * @param depth of the KeyValue message.
 */
export function appendAttribute(
  context: DecodeContext,
  start: number,
  end: number,
  depth: number,
  column: Utf8Column,
): void {
  context.reader.enter(depth);
  const before = column.byteLength;
  if (appendKeyValue(context, start, end, depth, column)) {
    return;
  }
  column.byteLength = before;
  context.droppedAttributes++;
}

/** Appends a KeyValue as `,"key":value`. @returns false when its name is reserved. */
function appendKeyValue(
  context: DecodeContext,
  start: number,
  end: number,
  depth: number,
  column: Utf8Column,
): boolean {
  const { reader } = context;
  const { bytes } = reader;
  const keyLength = bytes[start + 1]!;
  const keyStart = start + 2;
  const keyEnd = keyStart + keyLength;
  if (bytes[start] === 0x0a && keyLength < 0x80 && keyEnd + 2 <= end && bytes[keyEnd] === 0x12) {
    let valueLength = bytes[keyEnd + 1]!;
    let valueAt = keyEnd + 2;
    if (valueLength > 0x7f) {
      valueLength = (valueLength & 0x7f) | (bytes[valueAt]! << 7);
      valueAt++;
    }
    // A length of three bytes, which fits here too when it is longer than it need be, is for the general path.
    if (valueAt + valueLength === end && bytes[valueAt - 1]! < 0x80) {
      appendKey(context, keyStart, keyEnd, column);
      appendAnyValue(context, valueAt, end, depth + 1, column);
      return !isReservedName(bytes, keyStart, keyEnd);
    }
  }
  return appendAnyKeyValue(context, start, end, depth, column);
}

function appendKey(context: DecodeContext, start: number, end: number, column: Utf8Column): void {
  if (!appendJsonKey(context.reader, start, end, column)) {
    context.badText = true;
  }
}

/** Any legal KeyValue: fields in any order, unknown ones, repeated ones. */
function appendAnyKeyValue(
  context: DecodeContext,
  start: number,
  end: number,
  depth: number,
  column: Utf8Column,
): boolean {
  const { reader } = context;
  const values: number[] = [];
  let keyStart = start;
  let keyEnd = start;
  let pos = start;
  while (pos < end) {
    let tag = reader.bytes[pos++]!;
    if (tag > 0x7f) {
      tag = reader.longTag(pos);
      pos = reader.next;
    }
    if (tag === 0x0a) {
      keyEnd = reader.delimited(pos, end);
      keyStart = reader.next;
      pos = keyEnd;
    } else if (tag === 0x12) {
      const stop = reader.delimited(pos, end);
      values.push(reader.next, stop);
      pos = stop;
    } else {
      pos = reader.skip(tag, pos, end, depth);
    }
  }
  reader.finished(pos, end);
  appendKey(context, keyStart, keyEnd, column);
  appendMergedValue(context, values, depth + 1, column);
  return !isReservedName(reader.bytes, keyStart, keyEnd);
}

/**
 * Appends an AnyValue as JSON.
 * @param depth of the AnyValue message. @returns its kind.
 */
function appendAnyValue(context: DecodeContext, start: number, end: number, depth: number, column: Utf8Column): number {
  const { reader } = context;
  reader.enter(depth);
  if (start === end) {
    appendToken(tokenNull, column);
    return valueKind.empty;
  }
  const { bytes } = reader;
  const pos = start + 1;
  switch (bytes[start]!) {
    case stringTag: {
      const stop = bytes[pos]! < 0x80 ? pos + 1 + bytes[pos]! : reader.delimited(pos, end);
      if (stop !== end) {
        break;
      }
      const textStart = bytes[pos]! < 0x80 ? pos + 1 : reader.next;
      if (textStart > end) {
        break;
      }
      if (!appendJsonString(reader, textStart, end, column)) {
        context.badText = true;
      }
      return valueKind.string;
    }
    case intTag:
      reader.varint(pos);
      if (reader.next !== end) {
        break;
      }
      appendInt64(reader.low, reader.high, column);
      return valueKind.int;
    case boolTag:
      reader.varint(pos);
      if (reader.next !== end) {
        break;
      }
      appendToken((reader.low | reader.high) === 0 ? tokenFalse : tokenTrue, column);
      return valueKind.bool;
    case doubleTag:
      if (pos + 8 !== end) {
        break;
      }
      reader.fixed64(pos);
      appendDouble(doubleOf(reader.low, reader.high), column);
      return valueKind.double;
    default:
      break;
  }
  return appendMergedValue(context, [start, end], depth, column);
}

/**
 * Appends the AnyValue that several occurrences of one field merge to (their fields count as if they
 * followed each other in one message). Of a oneof the last field that was sent wins; a message field
 * sent again while it is the one that is set merges, so lists grow.
 * @param ranges starts and ends of the occurrences. @returns the kind of the value.
 */
function appendMergedValue(
  context: DecodeContext,
  ranges: readonly number[],
  depth: number,
  column: Utf8Column,
): number {
  const { reader } = context;
  reader.enter(depth);
  const origin = column.byteLength;
  let kind: number = valueKind.empty;
  for (let range = 0; range < ranges.length; range += 2) {
    const end = ranges[range + 1]!;
    let pos = ranges[range]!;
    while (pos < end) {
      let tag = reader.bytes[pos++]!;
      if (tag > 0x7f) {
        tag = reader.longTag(pos);
        pos = reader.next;
      }
      if (!isValueTag(tag)) {
        pos = reader.skip(tag, pos, end, depth);
        continue;
      }
      // The value is written each time, which also checks what a later field then replaces.
      const field = tag >> 3;
      const repeats = field === kind && (tag === arrayTag || tag === kvlistTag);
      if (!repeats) {
        column.byteLength = origin;
      }
      pos = appendField(context, tag, pos, end, depth, column);
      kind = field;
    }
    reader.finished(pos, end);
  }
  if (kind === valueKind.array) {
    close(column, origin, 0x5b, 0x5d);
  } else if (kind === valueKind.kvlist) {
    close(column, origin, 0x7b, 0x7d);
  } else if (kind === valueKind.empty) {
    appendToken(tokenNull, column);
  }
  return kind;
}

function isValueTag(tag: number): boolean {
  return (
    tag === stringTag ||
    tag === boolTag ||
    tag === intTag ||
    tag === doubleTag ||
    tag === arrayTag ||
    tag === kvlistTag ||
    tag === bytesTag
  );
}

/** Appends one field of an AnyValue; the members of a list each behind a comma, still open. */
function appendField(
  context: DecodeContext,
  tag: number,
  pos: number,
  end: number,
  depth: number,
  column: Utf8Column,
): number {
  const { reader } = context;
  switch (tag) {
    case boolTag:
    case intTag:
      reader.varint(pos);
      pos = reader.next;
      reader.finished(Math.max(pos, end), end);
      if (tag === intTag) {
        appendInt64(reader.low, reader.high, column);
      } else {
        appendToken((reader.low | reader.high) === 0 ? tokenFalse : tokenTrue, column);
      }
      return pos;
    case doubleTag:
      reader.finished(Math.max(pos + 8, end), end);
      reader.fixed64(pos);
      appendDouble(doubleOf(reader.low, reader.high), column);
      return reader.next;
    default: {
      const stop = reader.delimited(pos, end);
      const start = reader.next;
      if (tag === stringTag) {
        if (!appendJsonString(reader, start, stop, column)) {
          context.badText = true;
        }
      } else if (tag === bytesTag) {
        appendBase64(reader, start, stop, column);
      } else {
        appendMembers(context, start, stop, depth + 1, tag === kvlistTag, column);
      }
      return stop;
    }
  }
}

/** Appends the members of an ArrayValue or a KeyValueList, each behind a comma. */
function appendMembers(
  context: DecodeContext,
  start: number,
  end: number,
  depth: number,
  isKvlist: boolean,
  column: Utf8Column,
): void {
  const { reader } = context;
  reader.enter(depth);
  let pos = start;
  while (pos < end) {
    let tag = reader.bytes[pos++]!;
    if (tag > 0x7f) {
      tag = reader.longTag(pos);
      pos = reader.next;
    }
    if (tag !== 0x0a) {
      pos = reader.skip(tag, pos, end, depth);
      continue;
    }
    const stop = reader.delimited(pos, end);
    pos = reader.next;
    if (isKvlist) {
      reader.enter(depth + 1);
      appendKeyValue(context, pos, stop, depth + 1, column);
    } else {
      appendByte(comma, column);
      appendAnyValue(context, pos, stop, depth + 1, column);
    }
    pos = stop;
  }
  reader.finished(pos, end);
}

/**
 * Appends an AnyValue as text: a string as it is, anything else as JSON, nothing for an empty value.
 * @param ranges starts and ends of the occurrences of the field that holds it.
 * @returns the kind of the value.
 */
export function appendValueText(
  context: DecodeContext,
  ranges: readonly number[],
  depth: number,
  column: Utf8Column,
): number {
  const origin = column.byteLength;
  const kind = appendMergedValue(context, ranges, depth, column);
  if (kind === valueKind.empty) {
    column.byteLength = origin;
  }
  if (kind !== valueKind.string) {
    return kind;
  }
  column.byteLength = origin;
  appendLastString(context, ranges, depth, column);
  return kind;
}

/** Appends the string that was set last in well-formed occurrences of an AnyValue. */
function appendLastString(context: DecodeContext, ranges: readonly number[], depth: number, column: Utf8Column): void {
  const { reader } = context;
  let textStart = 0;
  let textEnd = 0;
  for (let range = 0; range < ranges.length; range += 2) {
    const end = ranges[range + 1]!;
    for (let pos = ranges[range]!; pos < end;) {
      let tag = reader.bytes[pos++]!;
      if (tag > 0x7f) {
        tag = reader.longTag(pos);
        pos = reader.next;
      }
      if (tag !== stringTag) {
        pos = reader.skip(tag, pos, end, depth);
        continue;
      }
      textEnd = reader.delimited(pos, end);
      textStart = reader.next;
      pos = textEnd;
    }
  }
  if (!appendText(reader, textStart, textEnd, column)) {
    context.badText = true;
  }
}
