/**
 * Span (opentelemetry/proto/trace/v1) with its events and links into the columns of spans. Hot code;
 * see decode-logs.ts for its manners. A span with a bad event or link is rejected as a whole.
 */
import { appendAttribute, finishAttributes } from "./any-value.js";
import { type DecodeContext, decodedCost, isTimeOutOfRange, rejectReason } from "./decode-context.js";
import { badTimes, isZeroId, pushOptionalId, pushOptionalText, pushText } from "./fields.js";
import type { TableState } from "../rows/table-state.js";
import { appendHex } from "./text.js";

type SpanTable = TableState<"spans">;

/** Decodes the Span in `[start, end)`; `depth` is its own. Rejected ones leave no row. */
export function decodeSpan(context: DecodeContext, table: SpanTable, start: number, end: number, depth: number): void {
  const { reader } = context;
  const { bytes, view } = reader;
  const { columns } = table;
  const { properties } = columns;
  const row = columns.time.validity.rows;
  const textBefore = properties.byteLength;
  let traceStart = 0;
  let traceEnd = 0;
  let spanStart = 0;
  let spanEnd = 0;
  let stateStart = 0;
  let stateEnd = 0;
  let parentStart = 0;
  let parentEnd = 0;
  let nameStart = 0;
  let nameEnd = 0;
  let kind = 0;
  let beginLow = 0;
  let beginHigh = 0;
  let endLow = 0;
  let endHigh = 0;
  let droppedAttributes = 0;
  let droppedEvents = 0;
  let droppedLinks = 0;
  let flags = 0;
  let statusCode = 0;
  let messageStart = 0;
  let messageEnd = 0;

  let pos = start;
  while (pos < end) {
    let tag = bytes[pos++]!;
    if (tag > 0x7f) {
      tag = reader.longTag(pos);
      pos = reader.next;
    }
    switch (tag) {
      case 0x0a: // trace_id
        traceEnd = reader.delimited(pos, end);
        traceStart = reader.next;
        pos = traceEnd;
        break;
      case 0x12: // span_id
        spanEnd = reader.delimited(pos, end);
        spanStart = reader.next;
        pos = spanEnd;
        break;
      case 0x1a: // trace_state
        stateEnd = reader.delimited(pos, end);
        stateStart = reader.next;
        pos = stateEnd;
        break;
      case 0x22: // parent_span_id
        parentEnd = reader.delimited(pos, end);
        parentStart = reader.next;
        pos = parentEnd;
        break;
      case 0x2a: // name
        nameEnd = reader.delimited(pos, end);
        nameStart = reader.next;
        pos = nameEnd;
        break;
      case 0x30: // kind
        reader.varint(pos);
        kind = reader.low;
        pos = reader.next;
        break;
      case 0x39: // start_time_unix_nano
        beginLow = view.getInt32(pos, true);
        beginHigh = view.getInt32(pos + 4, true);
        pos += 8;
        break;
      case 0x41: // end_time_unix_nano
        endLow = view.getInt32(pos, true);
        endHigh = view.getInt32(pos + 4, true);
        pos += 8;
        break;
      case 0x4a: {
        // attributes
        const stop = reader.delimited(pos, end);
        appendAttribute(context, reader.next, stop, depth + 1, properties);
        pos = stop;
        break;
      }
      case 0x50: // dropped_attributes_count
        reader.varint(pos);
        droppedAttributes = reader.low;
        pos = reader.next;
        break;
      case 0x5a: {
        // events
        const stop = reader.delimited(pos, end);
        decodeEvent(context, table, reader.next, stop, depth + 1);
        pos = stop;
        break;
      }
      case 0x60: // dropped_events_count
        reader.varint(pos);
        droppedEvents = reader.low;
        pos = reader.next;
        break;
      case 0x6a: {
        // links
        const stop = reader.delimited(pos, end);
        decodeLink(context, table, reader.next, stop, depth + 1);
        pos = stop;
        break;
      }
      case 0x70: // dropped_links_count
        reader.varint(pos);
        droppedLinks = reader.low;
        pos = reader.next;
        break;
      case 0x7a: {
        // status { 2: message, 3: code }; several merge
        const stop = reader.delimited(pos, end);
        pos = reader.next;
        reader.enter(depth + 1);
        while (pos < stop) {
          let statusTag = bytes[pos++]!;
          if (statusTag > 0x7f) {
            statusTag = reader.longTag(pos);
            pos = reader.next;
          }
          if (statusTag === 0x18) {
            reader.varint(pos);
            statusCode = reader.low;
            pos = reader.next;
          } else if (statusTag === 0x12) {
            messageEnd = reader.delimited(pos, stop);
            messageStart = reader.next;
            pos = messageEnd;
          } else {
            pos = reader.skip(statusTag, pos, stop, depth + 1);
          }
        }
        reader.finished(pos, stop);
        break;
      }
      case 0x85: // flags
        flags = view.getInt32(pos, true);
        pos += 4;
        break;
      default:
        pos = reader.skip(tag, pos, end, depth);
    }
  }
  reader.finished(pos, end);

  context.problem ??=
    badTimes(beginLow, beginHigh, endLow, endHigh) ??
    badSpanIds(
      traceEnd - traceStart === 16 && !isZeroId(reader, traceStart, traceEnd),
      spanEnd - spanStart === 8 && !isZeroId(reader, spanStart, spanEnd),
      parentEnd - parentStart,
    );

  columns.time.push(beginLow, beginHigh);
  columns.end_time.push(endLow, endHigh);
  const durationLow = (endLow - beginLow) | 0;
  const borrow = endLow >>> 0 < beginLow >>> 0 ? 1 : 0;
  columns.duration_ns.push(durationLow, (endHigh - beginHigh - borrow) | 0);
  appendHex(reader, traceStart, traceEnd, columns.trace_id);
  columns.trace_id.finish();
  appendHex(reader, spanStart, spanEnd, columns.span_id);
  columns.span_id.finish();
  pushOptionalId(reader, parentStart, parentEnd, columns.parent_span_id);
  pushOptionalText(context, stateStart, stateEnd, columns.trace_state);
  pushText(context, nameStart, nameEnd, columns.name);
  columns.kind.push(kind);
  columns.status_code.push(statusCode);
  pushOptionalText(context, messageStart, messageEnd, columns.status_message);
  columns.flags.push(flags, 0);
  finishAttributes(properties);
  columns.dropped_attributes_count.push(droppedAttributes, 0);
  columns.events.finish();
  columns.dropped_events_count.push(droppedEvents, 0);
  columns.links.finish();
  columns.dropped_links_count.push(droppedLinks, 0);

  context.charge(decodedCost.row + end - start + properties.byteLength - textBefore);
  if (!context.settle()) {
    table.truncate(row);
    return;
  }
  context.noteTime(beginLow, beginHigh);
  context.noteTime(endLow, endHigh);
}

function badSpanIds(isTraceGood: boolean, isSpanGood: boolean, parentLength: number): string | null {
  if (!isTraceGood) {
    return rejectReason.traceId;
  }
  if (!isSpanGood || (parentLength !== 8 && parentLength !== 0)) {
    return rejectReason.spanId;
  }
  return null;
}

/** Span.Event as an element of `events`. */
function decodeEvent(context: DecodeContext, table: SpanTable, start: number, end: number, depth: number): void {
  const { reader } = context;
  const { bytes } = reader;
  const columns = table.columns.events.children;
  const textBefore = columns.properties.byteLength;
  reader.enter(depth);
  let timeLow = 0;
  let timeHigh = 0;
  let nameStart = 0;
  let nameEnd = 0;
  let dropped = 0;
  let pos = start;
  while (pos < end) {
    let tag = bytes[pos++]!;
    if (tag > 0x7f) {
      tag = reader.longTag(pos);
      pos = reader.next;
    }
    switch (tag) {
      case 0x09: // time_unix_nano
        reader.fixed64(pos);
        timeLow = reader.low;
        timeHigh = reader.high;
        pos += 8;
        break;
      case 0x12: // name
        nameEnd = reader.delimited(pos, end);
        nameStart = reader.next;
        pos = nameEnd;
        break;
      case 0x1a: {
        // attributes
        const stop = reader.delimited(pos, end);
        appendAttribute(context, reader.next, stop, depth + 1, columns.properties);
        pos = stop;
        break;
      }
      case 0x20: // dropped_attributes_count
        reader.varint(pos);
        dropped = reader.low;
        pos = reader.next;
        break;
      default:
        pos = reader.skip(tag, pos, end, depth);
    }
  }
  reader.finished(pos, end);
  if (isTimeOutOfRange(timeLow, timeHigh)) {
    context.problem ??= rejectReason.time;
  }
  columns.time.push(timeLow, timeHigh);
  pushText(context, nameStart, nameEnd, columns.name);
  finishAttributes(columns.properties);
  columns.dropped_attributes_count.push(dropped, 0);
  context.charge(decodedCost.element + columns.properties.byteLength - textBefore);
}

/** Span.Link as an element of `links`. */
function decodeLink(context: DecodeContext, table: SpanTable, start: number, end: number, depth: number): void {
  const { reader } = context;
  const { bytes } = reader;
  const columns = table.columns.links.children;
  const textBefore = columns.properties.byteLength;
  reader.enter(depth);
  let traceStart = 0;
  let traceEnd = 0;
  let spanStart = 0;
  let spanEnd = 0;
  let stateStart = 0;
  let stateEnd = 0;
  let dropped = 0;
  let flags = 0;
  let pos = start;
  while (pos < end) {
    let tag = bytes[pos++]!;
    if (tag > 0x7f) {
      tag = reader.longTag(pos);
      pos = reader.next;
    }
    switch (tag) {
      case 0x0a: // trace_id
        traceEnd = reader.delimited(pos, end);
        traceStart = reader.next;
        pos = traceEnd;
        break;
      case 0x12: // span_id
        spanEnd = reader.delimited(pos, end);
        spanStart = reader.next;
        pos = spanEnd;
        break;
      case 0x1a: // trace_state
        stateEnd = reader.delimited(pos, end);
        stateStart = reader.next;
        pos = stateEnd;
        break;
      case 0x22: {
        // attributes
        const stop = reader.delimited(pos, end);
        appendAttribute(context, reader.next, stop, depth + 1, columns.properties);
        pos = stop;
        break;
      }
      case 0x28: // dropped_attributes_count
        reader.varint(pos);
        dropped = reader.low;
        pos = reader.next;
        break;
      case 0x35: // flags
        flags = reader.view.getInt32(pos, true);
        pos += 4;
        break;
      default:
        pos = reader.skip(tag, pos, end, depth);
    }
  }
  reader.finished(pos, end);
  if (traceEnd - traceStart !== 16) {
    context.problem ??= rejectReason.traceId;
  }
  if (spanEnd - spanStart !== 8) {
    context.problem ??= rejectReason.spanId;
  }
  appendHex(reader, traceStart, traceEnd, columns.trace_id);
  columns.trace_id.finish();
  appendHex(reader, spanStart, spanEnd, columns.span_id);
  columns.span_id.finish();
  pushOptionalText(context, stateStart, stateEnd, columns.trace_state);
  columns.flags.push(flags, 0);
  finishAttributes(columns.properties);
  columns.dropped_attributes_count.push(dropped, 0);
  context.charge(decodedCost.element + columns.properties.byteLength - textBefore);
}
