/**
 * LogRecord (opentelemetry/proto/logs/v1) into the columns of log_entries. Hot code: see any-value.ts
 * and protobuf-reader.ts for its manners. A record is read to its end before anything but its
 * attributes is written, so that fields may come in any order and the last one wins.
 */
import type { LogColumns } from "../../lake/tables/tables.js";
import type { ProtobufReader } from "../../wire/protobuf-reader.js";
import { appendAttribute, appendValueText, finishAttributes, valueKind } from "./any-value.js";
import { type DecodeContext, decodedCost } from "./decode-context.js";
import { badOptionalIds, badTimes, pushOptionalId, pushOptionalText, pushOptionalTime } from "./fields.js";
import { levelOf } from "./severity.js";
import type { TableState } from "../rows/table-state.js";
import { appendText } from "./text.js";

const kindNames = ["empty", "string", "bool", "int", "double", "array", "kvlist", "bytes"].map((name) =>
  Uint8Array.from(name, (letter) => letter.charCodeAt(0)),
);

/** Decodes the LogRecord in `[start, end)`; `depth` is its own. Rejected ones leave no row. */
export function decodeLogRecord(
  context: DecodeContext,
  table: TableState<"log_entries">,
  start: number,
  end: number,
  depth: number,
): void {
  const { reader } = context;
  const { bytes, view } = reader;
  const { columns } = table;
  const { properties } = columns;
  const row = columns.time.validity.rows;
  const textBefore = properties.byteLength;
  let timeLow = 0;
  let timeHigh = 0;
  let observedLow = 0;
  let observedHigh = 0;
  let severity = 0;
  let severityStart = 0;
  let severityEnd = 0;
  let bodyStart = -1;
  let bodyEnd = -1;
  let earlierBodies: number[] | null = null;
  let dropped = 0;
  let flags = 0;
  let traceStart = 0;
  let traceEnd = 0;
  let spanStart = 0;
  let spanEnd = 0;
  let eventStart = 0;
  let eventEnd = 0;

  let pos = start;
  while (pos < end) {
    let tag = bytes[pos++]!;
    if (tag > 0x7f) {
      tag = reader.longTag(pos);
      pos = reader.next;
    }
    switch (tag) {
      case 0x09: // time_unix_nano
        timeLow = view.getInt32(pos, true);
        timeHigh = view.getInt32(pos + 4, true);
        pos += 8;
        break;
      case 0x59: // observed_time_unix_nano
        observedLow = view.getInt32(pos, true);
        observedHigh = view.getInt32(pos + 4, true);
        pos += 8;
        break;
      case 0x10: // severity_number
        reader.varint(pos);
        severity = reader.low;
        pos = reader.next;
        break;
      case 0x1a: // severity_text
        severityEnd = reader.delimited(pos, end);
        severityStart = reader.next;
        pos = severityEnd;
        break;
      case 0x2a: // body
        if (bodyStart !== -1) {
          earlierBodies ??= [];
          earlierBodies.push(bodyStart, bodyEnd);
        }
        bodyEnd = reader.delimited(pos, end);
        bodyStart = reader.next;
        pos = bodyEnd;
        break;
      case 0x32: {
        // attributes
        const stop = reader.delimited(pos, end);
        appendAttribute(context, reader.next, stop, depth + 1, properties);
        pos = stop;
        break;
      }
      case 0x38: // dropped_attributes_count
        reader.varint(pos);
        dropped = reader.low;
        pos = reader.next;
        break;
      case 0x45: // flags
        flags = view.getInt32(pos, true);
        pos += 4;
        break;
      case 0x4a: // trace_id
        traceEnd = reader.delimited(pos, end);
        traceStart = reader.next;
        pos = traceEnd;
        break;
      case 0x52: // span_id
        spanEnd = reader.delimited(pos, end);
        spanStart = reader.next;
        pos = spanEnd;
        break;
      case 0x62: // event_name
        eventEnd = reader.delimited(pos, end);
        eventStart = reader.next;
        pos = eventEnd;
        break;
      default:
        pos = reader.skip(tag, pos, end, depth);
    }
  }
  reader.finished(pos, end);

  context.problem ??=
    badTimes(timeLow, timeHigh, observedLow, observedHigh) ??
    badOptionalIds(traceEnd - traceStart, spanEnd - spanStart);

  if ((timeLow | timeHigh) !== 0) {
    columns.event_time.push(timeLow, timeHigh);
  } else {
    columns.event_time.pushNull();
    const isObserved = (observedLow | observedHigh) !== 0;
    timeLow = isObserved ? observedLow : context.receivedLow;
    timeHigh = isObserved ? observedHigh : context.receivedHigh;
  }
  columns.time.push(timeLow, timeHigh);
  pushOptionalTime(observedLow, observedHigh, columns.observed_time);
  pushSeverity(context, columns, severity, severityStart, severityEnd);
  pushIds(reader, columns, traceStart, traceEnd, spanStart, spanEnd);
  pushOptionalText(context, eventStart, eventEnd, columns.event_name);
  let kind: number = valueKind.empty;
  if (bodyStart !== -1) {
    kind = appendBody(context, table, bodyStart, bodyEnd, earlierBodies, depth);
  }
  finishRow(table, kind, flags, dropped);

  context.charge(decodedCost.row + end - start + properties.byteLength - textBefore);
  if (context.settle()) {
    context.noteTime(timeLow, timeHigh);
  } else {
    table.truncate(row);
  }
}

// The columns are written in a few functions, because V8 inlines only so much into each: with all of it
// in one, every push is a call.

function pushSeverity(context: DecodeContext, columns: LogColumns, severity: number, start: number, end: number): void {
  const level = levelOf(severity, context.reader.bytes, start, end);
  if (level === 0) {
    columns.level.pushNull();
  } else {
    columns.level.push(level);
  }
  columns.severity_number.push(severity);
  pushOptionalText(context, start, end, columns.severity_text);
}

function pushIds(
  reader: ProtobufReader,
  columns: LogColumns,
  traceStart: number,
  traceEnd: number,
  spanStart: number,
  spanEnd: number,
): void {
  pushOptionalId(reader, traceStart, traceEnd, columns.trace_id);
  pushOptionalId(reader, spanStart, spanEnd, columns.span_id);
}

function finishRow(table: TableState<"log_entries">, kind: number, flags: number, dropped: number): void {
  const { columns } = table;
  if (kind === valueKind.empty) {
    columns.msg.pushNull();
  } else {
    columns.msg.finish();
  }
  columns.body_type.append(bodyTypeIndex(table, kind), 1);
  columns.flags.push(flags, 0);
  finishAttributes(columns.properties);
  columns.dropped_attributes_count.push(dropped, 0);
}

/** Appends the body to `msg`: a string as it is, anything else as JSON. @returns its kind. */
function appendBody(
  context: DecodeContext,
  table: TableState<"log_entries">,
  start: number,
  end: number,
  earlier: number[] | null,
  depth: number,
): number {
  const { reader } = context;
  const { msg } = table.columns;
  if (earlier === null && end - start > 1 && reader.bytes[start] === 0x0a) {
    const stop = reader.delimited(start + 1, end);
    if (stop === end) {
      if (!appendText(reader, reader.next, end, msg)) {
        context.badText = true;
      }
      return valueKind.string;
    }
  }
  return appendValueText(context, [...(earlier ?? []), start, end], depth + 1, msg);
}

/** Index in the dictionary of body_type; remembered until the table is reset. */
function bodyTypeIndex(table: TableState<"log_entries">, kind: number): number {
  const known = table.bodyTypes[kind]!;
  if (known !== -1) {
    return known;
  }
  const name = kindNames[kind]!;
  const index = table.columns.body_type.dictionary.intern(name, 0, name.length);
  table.bodyTypes[kind] = index;
  return index;
}
