/** NumberDataPoint (opentelemetry/proto/metrics/v1) into the columns of measures. Hot code. */
import { appendAttribute, finishAttributes } from "./any-value.js";
import { type DecodeContext, decodedCost } from "./decode-context.js";
import { decodeExemplar, numberKind } from "./decode-exemplars.js";
import { badTimes, pushOptionalTime } from "./fields.js";
import { highWord, int64ToDouble, lowWord } from "./numbers.js";
import type { TableState } from "../rows/table-state.js";

/**
 * Decodes the point in `[start, end)`; `depth` is its own. What belongs to the metric (runs, and
 * is_monotonic) is left to the caller. A rejected point leaves no row.
 */
export function decodeNumberPoint(
  context: DecodeContext,
  table: TableState<"measures">,
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
  reader.enter(depth);
  let startLow = 0;
  let startHigh = 0;
  let timeLow = 0;
  let timeHigh = 0;
  let kind: number = numberKind.none;
  let valueLow = 0;
  let valueHigh = 0;
  let flags = 0;
  let pos = start;
  while (pos < end) {
    let tag = bytes[pos++]!;
    if (tag > 0x7f) {
      tag = reader.longTag(pos);
      pos = reader.next;
    }
    switch (tag) {
      case 0x11: // start_time_unix_nano
        startLow = view.getInt32(pos, true);
        startHigh = view.getInt32(pos + 4, true);
        pos += 8;
        break;
      case 0x19: // time_unix_nano
        timeLow = view.getInt32(pos, true);
        timeHigh = view.getInt32(pos + 4, true);
        pos += 8;
        break;
      case 0x21: // as_double
      case 0x31: // as_int
        valueLow = view.getInt32(pos, true);
        valueHigh = view.getInt32(pos + 4, true);
        kind = tag === 0x21 ? numberKind.double : numberKind.int;
        pos += 8;
        break;
      case 0x2a: {
        // exemplars
        const stop = reader.delimited(pos, end);
        decodeExemplar(context, columns.exemplars, reader.next, stop, depth + 1);
        pos = stop;
        break;
      }
      case 0x3a: {
        // attributes
        const stop = reader.delimited(pos, end);
        appendAttribute(context, reader.next, stop, depth + 1, properties);
        pos = stop;
        break;
      }
      case 0x40: // flags
        reader.varint(pos);
        flags = reader.low;
        pos = reader.next;
        break;
      default:
        pos = reader.skip(tag, pos, end, depth);
    }
  }
  reader.finished(pos, end);
  context.problem ??= badTimes(startLow, startHigh, timeLow, timeHigh);
  if ((timeLow | timeHigh) === 0) {
    timeLow = context.receivedLow;
    timeHigh = context.receivedHigh;
  }

  columns.time.push(timeLow, timeHigh);
  pushOptionalTime(startLow, startHigh, columns.start_time);
  if (kind === numberKind.int) {
    const low = lowWord(int64ToDouble(valueLow, valueHigh));
    columns.value.push(low, highWord());
    columns.value_int.push(valueLow, valueHigh);
  } else {
    if (kind === numberKind.double) {
      columns.value.push(valueLow, valueHigh);
    } else {
      columns.value.pushNull();
    }
    columns.value_int.pushNull();
  }
  columns.flags.push(flags, 0);
  finishAttributes(properties);
  columns.exemplars.finish();

  context.charge(decodedCost.row + end - start + properties.byteLength - textBefore);
  if (context.settle()) {
    context.noteTime(timeLow, timeHigh);
  } else {
    table.truncate(row);
  }
}
