/**
 * Entity references of a resource (opentelemetry/proto/common/v1 EntityRef) as JSON: an array of objects with the
 * fields of the message by name, in the order of their numbers, empty ones left out.
 *
 * A message is read once for each field, so that nothing grows with it but the text.
 */
import type { Utf8Column } from "../../lake/tables/columns.js";
import type { ProtobufReader } from "../../wire/protobuf-reader.js";
import { close } from "./any-value.js";
import type { DecodeContext } from "./decode-context.js";
import { appendJsonString } from "./text.js";

const fields = [
  { tag: 0x0a, key: Buffer.from(',"schema_url":'), repeated: false },
  { tag: 0x12, key: Buffer.from(',"type":'), repeated: false },
  { tag: 0x1a, key: Buffer.from(',"id_keys":'), repeated: true },
  { tag: 0x22, key: Buffer.from(',"description_keys":'), repeated: true },
] as const;

const comma = Buffer.from(",");

/**
 * Appends an EntityRef as `,{...}` to the unfinished value; {@link finishEntityRefs} makes an array of them.
 * @param depth of the EntityRef message.
 */
export function appendEntityRef(
  context: DecodeContext,
  start: number,
  end: number,
  depth: number,
  column: Utf8Column,
): void {
  context.reader.enter(depth);
  append(comma, column);
  const object = column.byteLength;
  for (const { tag, key, repeated } of fields) {
    const before = column.byteLength;
    append(key, column);
    const value = column.byteLength;
    if (repeated) {
      eachText(context.reader, tag, start, end, depth, (from, to) => {
        append(comma, column);
        appendString(context, from, to, column);
      });
    } else {
      // Of a singular field that occurs several times the last one counts.
      eachText(context.reader, tag, start, end, depth, (from, to) => {
        column.byteLength = value;
        if (to > from) {
          appendString(context, from, to, column);
        }
      });
    }
    if (column.byteLength === value) {
      column.byteLength = before;
    } else if (repeated) {
      close(column, value, 0x5b, 0x5d);
    }
  }
  close(column, object, 0x7b, 0x7d);
}

/** The array of what was appended since the column was reset; null when that is nothing. */
export function finishEntityRefs(column: Utf8Column): Uint8Array | null {
  if (column.byteLength === 0) {
    return null;
  }
  close(column, 0, 0x5b, 0x5d);
  return column.bytes.slice(0, column.byteLength);
}

/** Calls `visit` for every occurrence of a field in the message `[start, end)`. */
function eachText(
  reader: ProtobufReader,
  wanted: number,
  start: number,
  end: number,
  depth: number,
  visit: (from: number, to: number) => void,
): void {
  let pos = start;
  while (pos < end) {
    let tag = reader.bytes[pos++]!;
    if (tag > 0x7f) {
      tag = reader.longTag(pos);
      pos = reader.next;
    }
    if (tag === wanted) {
      const stop = reader.delimited(pos, end);
      visit(reader.next, stop);
      pos = stop;
    } else {
      pos = reader.skip(tag, pos, end, depth);
    }
  }
  reader.finished(pos, end);
}

function append(bytes: Uint8Array, column: Utf8Column): void {
  column.reserve(bytes.length);
  column.bytes.set(bytes, column.byteLength);
  column.byteLength += bytes.length;
}

function appendString(context: DecodeContext, start: number, end: number, column: Utf8Column): void {
  if (!appendJsonString(context.reader, start, end, column)) {
    context.badText = true;
  }
}
