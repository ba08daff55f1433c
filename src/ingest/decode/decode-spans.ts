/**
 * Span (opentelemetry/proto/trace/v1) with its events and links into the columns of spans. Hot code;
 * see decode-logs.ts for its manners. A span with a bad event or link is rejected as a whole.
 */
import type { Utf8Column } from "../../lake/tables/columns.js";
import type { TableState } from "../rows/table-state.js";
import { appendAttribute, finishAttributes } from "./any-value.js";
import { type DecodeContext, decodedCost, isTimeOutOfRange, rejectReason } from "./decode-context.js";
import { appendId, badOptionalIds, badTimes, pushOptionalText, pushText } from "./fields.js";
import { rangeOf } from "./scan/message-scanner.js";
import { ScanPlan } from "./scan/plan.js";
import { readMessage } from "./scan/read-message.js";

type SpanTable = TableState<"spans">;

/** Numbers of a span, as the scanner leaves them. */
const field = {
  begin: 0,
  end: 1,
  kind: 2,
  statusCode: 3,
  flags: 4,
  droppedAttributes: 5,
  droppedEvents: 6,
  droppedLinks: 7,
} as const;
/** Texts of a span: places in {@link textsOf}. */
const column = {
  properties: 0,
  traceId: 1,
  spanId: 2,
  parentSpanId: 3,
  traceState: 4,
  name: 5,
  statusMessage: 6,
} as const;
/** Lists of a span. */
const list = { events: 0, links: 1 } as const;

const statusPlan = new ScanPlan().text(0x12, "text", column.statusMessage).number(0x18, "varint", field.statusCode);

const plan = new ScanPlan()
  .text(0x0a, "id", column.traceId)
  .text(0x12, "id", column.spanId)
  .text(0x1a, "text", column.traceState)
  .text(0x22, "id", column.parentSpanId)
  .text(0x2a, "text", column.name)
  .number(0x30, "varint", field.kind)
  .number(0x39, "fixed64", field.begin)
  .number(0x41, "fixed64", field.end)
  .attribute(0x4a)
  .number(0x50, "varint", field.droppedAttributes)
  .element(0x5a, list.events)
  .number(0x60, "varint", field.droppedEvents)
  .element(0x6a, list.links)
  .number(0x70, "varint", field.droppedLinks)
  .part(0x7a, statusPlan)
  .number(0x85, "fixed32", field.flags);

const textsOf = (columns: SpanTable["columns"]): Utf8Column[] => [
  columns.properties,
  columns.trace_id,
  columns.span_id,
  columns.parent_span_id,
  columns.trace_state,
  columns.name,
  columns.status_message,
];

const parentRange = rangeOf(column.parentSpanId);

/** Decodes the Span in `[start, end)`; `depth` is its own. Rejected ones leave no row. */
export function decodeSpan(context: DecodeContext, table: SpanTable, start: number, end: number, depth: number): void {
  const { scanner } = context;
  const { columns } = table;
  const row = columns.time.validity.rows;
  const textBefore = columns.properties.byteLength;
  table.texts ??= textsOf(columns);
  if (!scanner.scan(plan, table.texts, start, end)) {
    readMessage(context, plan, table.texts, start, end, depth, (of, from, to) =>
      decodeElement(context, table, of, from, to, depth + 1),
    );
  }
  const { fields, elements } = scanner;
  for (let at = 0; at < 3 * scanner.elementCount; at += 3) {
    decodeElement(context, table, elements[at]!, elements[at + 1]!, elements[at + 2]!, depth + 1);
  }
  const beginLow = fields[2 * field.begin]!;
  const beginHigh = fields[2 * field.begin + 1]!;
  const endLow = fields[2 * field.end]!;
  const endHigh = fields[2 * field.end + 1]!;

  context.problem ??=
    badTimes(beginLow, beginHigh, endLow, endHigh) ??
    badSpanIds(columns, fields[parentRange + 1]! - fields[parentRange]!);

  columns.time.push(beginLow, beginHigh);
  columns.end_time.push(endLow, endHigh);
  const durationLow = (endLow - beginLow) | 0;
  const borrow = endLow >>> 0 < beginLow >>> 0 ? 1 : 0;
  columns.duration_ns.push(durationLow, (endHigh - beginHigh - borrow) | 0);
  finishTexts(columns);
  columns.kind.push(fields[2 * field.kind]!);
  columns.status_code.push(fields[2 * field.statusCode]!);
  columns.flags.push(fields[2 * field.flags]!, 0);
  columns.dropped_attributes_count.push(fields[2 * field.droppedAttributes]!, 0);
  columns.events.finish();
  columns.dropped_events_count.push(fields[2 * field.droppedEvents]!, 0);
  columns.links.finish();
  columns.dropped_links_count.push(fields[2 * field.droppedLinks]!, 0);

  context.charge(decodedCost.row + end - start + columns.properties.byteLength - textBefore);
  if (!context.settle()) {
    table.truncate(row);
    return;
  }
  context.noteTime(beginLow, beginHigh);
}

function finishTexts(columns: SpanTable["columns"]): void {
  columns.trace_id.finish();
  columns.span_id.finish();
  columns.parent_span_id.finishOrNull();
  columns.trace_state.finishOrNull();
  columns.name.finish();
  columns.status_message.finishOrNull();
  columns.properties.finish();
}

/** Why the ids cannot be stored, or null: those of zeros have no digits. */
function badSpanIds(columns: SpanTable["columns"], parentLength: number): string | null {
  if (unfinished(columns.trace_id) !== 32) {
    return rejectReason.traceId;
  }
  if (unfinished(columns.span_id) !== 16 || (parentLength !== 8 && parentLength !== 0)) {
    return rejectReason.spanId;
  }
  return null;
}

function unfinished(column: Utf8Column): number {
  return column.byteLength - column.valueStart;
}

function decodeElement(
  context: DecodeContext,
  table: SpanTable,
  of: number,
  start: number,
  end: number,
  depth: number,
): void {
  if (of === list.events) {
    decodeEvent(context, table, start, end, depth);
  } else {
    decodeLink(context, table, start, end, depth);
  }
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
  // A link may lead to no span, and only have attributes: SDKs send zeros for its ids, the Collector nothing.
  context.problem ??= badOptionalIds(traceEnd - traceStart, spanEnd - spanStart);
  appendId(reader, traceStart, traceEnd, columns.trace_id);
  columns.trace_id.finish();
  appendId(reader, spanStart, spanEnd, columns.span_id);
  columns.span_id.finish();
  pushOptionalText(context, stateStart, stateEnd, columns.trace_state);
  columns.flags.push(flags, 0);
  finishAttributes(columns.properties);
  columns.dropped_attributes_count.push(dropped, 0);
  context.charge(decodedCost.element + columns.properties.byteLength - textBefore);
}
