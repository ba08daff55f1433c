/** Exemplar (opentelemetry/proto/metrics/v1) as an element of a table's `exemplars`. Hot code. */
import type { MeasureColumns } from "../../lake/tables/tables.js";
import { appendAttribute, finishAttributes } from "./any-value.js";
import { type DecodeContext, decodedCost, isTimeOutOfRange, rejectReason } from "./decode-context.js";
import { badOptionalIds, pushOptionalId, pushOptionalTime } from "./fields.js";

/** Which member of the value oneof was sent last. */
export const numberKind = { none: 0, double: 1, int: 2 } as const;

/** Decodes the Exemplar in `[start, end)`; `depth` is its own. Problems count against its point. */
export function decodeExemplar(
  context: DecodeContext,
  exemplars: MeasureColumns["exemplars"],
  start: number,
  end: number,
  depth: number,
): void {
  const { reader } = context;
  const { bytes } = reader;
  const columns = exemplars.children;
  const textBefore = columns.properties.byteLength;
  reader.enter(depth);
  let timeLow = 0;
  let timeHigh = 0;
  let kind: number = numberKind.none;
  let valueLow = 0;
  let valueHigh = 0;
  let traceStart = 0;
  let traceEnd = 0;
  let spanStart = 0;
  let spanEnd = 0;
  let pos = start;
  while (pos < end) {
    let tag = bytes[pos++]!;
    if (tag > 0x7f) {
      tag = reader.longTag(pos);
      pos = reader.next;
    }
    switch (tag) {
      case 0x11: // time_unix_nano
        reader.fixed64(pos);
        timeLow = reader.low;
        timeHigh = reader.high;
        pos += 8;
        break;
      case 0x19: // as_double
      case 0x31: // as_int
        reader.fixed64(pos);
        valueLow = reader.low;
        valueHigh = reader.high;
        kind = tag === 0x19 ? numberKind.double : numberKind.int;
        pos += 8;
        break;
      case 0x22: // span_id
        spanEnd = reader.delimited(pos, end);
        spanStart = reader.next;
        pos = spanEnd;
        break;
      case 0x2a: // trace_id
        traceEnd = reader.delimited(pos, end);
        traceStart = reader.next;
        pos = traceEnd;
        break;
      case 0x3a: {
        // filtered_attributes
        const stop = reader.delimited(pos, end);
        appendAttribute(context, reader.next, stop, depth + 1, columns.properties);
        pos = stop;
        break;
      }
      default:
        pos = reader.skip(tag, pos, end, depth);
    }
  }
  reader.finished(pos, end);
  if (isTimeOutOfRange(timeLow, timeHigh)) {
    context.problem ??= rejectReason.time;
  }
  context.problem ??= badOptionalIds(traceEnd - traceStart, spanEnd - spanStart);
  pushOptionalTime(timeLow, timeHigh, columns.time);
  if (kind === numberKind.double) {
    columns.value.push(valueLow, valueHigh);
  } else {
    columns.value.pushNull();
  }
  if (kind === numberKind.int) {
    columns.value_int.push(valueLow, valueHigh);
  } else {
    columns.value_int.pushNull();
  }
  pushOptionalId(reader, traceStart, traceEnd, columns.trace_id);
  pushOptionalId(reader, spanStart, spanEnd, columns.span_id);
  finishAttributes(columns.properties);
  context.charge(decodedCost.element + columns.properties.byteLength - textBefore);
}
