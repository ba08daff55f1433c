/**
 * HistogramDataPoint, ExponentialHistogramDataPoint and SummaryDataPoint (opentelemetry/proto/metrics/v1)
 * into the columns of histograms. Hot code. The three messages number their fields differently; what
 * they have in common is gathered in one object that lives as long as the worker's columns.
 */
import type { Float64Column, Int64Column } from "../../lake/tables/columns.js";
import { appendAttribute, finishAttributes } from "./any-value.js";
import { type DecodeContext, decodedCost, type HistogramPoint } from "./decode-context.js";
import { decodeExemplar } from "./decode-exemplars.js";
import { badTimes, pushOptionalTime } from "./fields.js";
import type { TableState } from "../rows/table-state.js";

type HistogramTable = TableState<"histograms">;

/** Decodes the HistogramDataPoint in `[start, end)`; `depth` is its own. */
export function decodeHistogramPoint(
  context: DecodeContext,
  table: HistogramTable,
  start: number,
  end: number,
  depth: number,
): void {
  const { reader } = context;
  const { columns } = table;
  const point = beginPoint(context, table, depth);
  let pos = start;
  while (pos < end) {
    let tag = reader.bytes[pos++]!;
    if (tag > 0x7f) {
      tag = reader.longTag(pos);
      pos = reader.next;
    }
    switch (tag) {
      case 0x11: // start_time_unix_nano
      case 0x19: // time_unix_nano
      case 0x21: // count
      case 0x29: // sum
        pos = readCommonField(context, point, tag, pos);
        break;
      case 0x31: // bucket_counts, unpacked
      case 0x32: // bucket_counts, packed
        pos = readFixed64(context, columns.bucket_counts.children.element, tag, pos, end);
        break;
      case 0x39: // explicit_bounds, unpacked
      case 0x3a: // explicit_bounds, packed
        pos = readFixed64(context, columns.explicit_bounds.children.element, tag, pos, end);
        break;
      case 0x42: {
        // exemplars
        const stop = reader.delimited(pos, end);
        decodeExemplar(context, columns.exemplars, reader.next, stop, depth + 1);
        pos = stop;
        break;
      }
      case 0x4a: {
        // attributes
        const stop = reader.delimited(pos, end);
        appendAttribute(context, reader.next, stop, depth + 1, columns.properties);
        pos = stop;
        break;
      }
      case 0x50: // flags
        reader.varint(pos);
        point.flags = reader.low;
        pos = reader.next;
        break;
      case 0x59: // min
        pos = readMin(context, point, pos);
        break;
      case 0x61: // max
        pos = readMax(context, point, pos);
        break;
      default:
        pos = reader.skip(tag, pos, end, depth);
    }
  }
  reader.finished(pos, end);
  columns.scale.pushNull();
  columns.zero_count.pushNull();
  columns.zero_threshold.pushNull();
  columns.positive_offset.pushNull();
  columns.negative_offset.pushNull();
  finishPoint(context, table, point, end - start);
}

/** Decodes the ExponentialHistogramDataPoint in `[start, end)`; `depth` is its own. */
export function decodeExponentialPoint(
  context: DecodeContext,
  table: HistogramTable,
  start: number,
  end: number,
  depth: number,
): void {
  const { reader } = context;
  const { columns } = table;
  const point = beginPoint(context, table, depth);
  let scale = 0;
  let zeroCountLow = 0;
  let zeroCountHigh = 0;
  let thresholdLow = 0;
  let thresholdHigh = 0;
  let hasPositive = false;
  let hasNegative = false;
  let positiveOffset = 0;
  let negativeOffset = 0;
  let pos = start;
  while (pos < end) {
    let tag = reader.bytes[pos++]!;
    if (tag > 0x7f) {
      tag = reader.longTag(pos);
      pos = reader.next;
    }
    switch (tag) {
      case 0x0a: {
        // attributes
        const stop = reader.delimited(pos, end);
        appendAttribute(context, reader.next, stop, depth + 1, columns.properties);
        pos = stop;
        break;
      }
      case 0x11: // start_time_unix_nano
      case 0x19: // time_unix_nano
      case 0x21: // count
      case 0x29: // sum
        pos = readCommonField(context, point, tag, pos);
        break;
      case 0x30: // scale
        reader.varint(pos);
        scale = zigZag(reader.low);
        pos = reader.next;
        break;
      case 0x39: // zero_count
        reader.fixed64(pos);
        zeroCountLow = reader.low;
        zeroCountHigh = reader.high;
        pos = reader.next;
        break;
      case 0x42: {
        // positive
        const stop = reader.delimited(pos, end);
        const counts = columns.positive_bucket_counts.children.element;
        positiveOffset = readBuckets(context, counts, positiveOffset, stop, depth + 1);
        hasPositive = true;
        pos = stop;
        break;
      }
      case 0x4a: {
        // negative
        const stop = reader.delimited(pos, end);
        const counts = columns.negative_bucket_counts.children.element;
        negativeOffset = readBuckets(context, counts, negativeOffset, stop, depth + 1);
        hasNegative = true;
        pos = stop;
        break;
      }
      case 0x50: // flags
        reader.varint(pos);
        point.flags = reader.low;
        pos = reader.next;
        break;
      case 0x5a: {
        // exemplars
        const stop = reader.delimited(pos, end);
        decodeExemplar(context, columns.exemplars, reader.next, stop, depth + 1);
        pos = stop;
        break;
      }
      case 0x61: // min
        pos = readMin(context, point, pos);
        break;
      case 0x69: // max
        pos = readMax(context, point, pos);
        break;
      case 0x71: // zero_threshold
        reader.fixed64(pos);
        thresholdLow = reader.low;
        thresholdHigh = reader.high;
        pos = reader.next;
        break;
      default:
        pos = reader.skip(tag, pos, end, depth);
    }
  }
  reader.finished(pos, end);
  columns.scale.push(scale);
  columns.zero_count.push(zeroCountLow, zeroCountHigh);
  columns.zero_threshold.push(thresholdLow, thresholdHigh);
  if (hasPositive) {
    columns.positive_offset.push(positiveOffset);
  } else {
    columns.positive_offset.pushNull();
  }
  if (hasNegative) {
    columns.negative_offset.push(negativeOffset);
  } else {
    columns.negative_offset.pushNull();
  }
  finishPoint(context, table, point, end - start);
}

/** Decodes the SummaryDataPoint in `[start, end)`; `depth` is its own. */
export function decodeSummaryPoint(
  context: DecodeContext,
  table: HistogramTable,
  start: number,
  end: number,
  depth: number,
): void {
  const { reader } = context;
  const { columns } = table;
  const point = beginPoint(context, table, depth);
  // proto3 gives the sum of a summary no presence: absent is 0.
  point.hasSum = true;
  let pos = start;
  while (pos < end) {
    let tag = reader.bytes[pos++]!;
    if (tag > 0x7f) {
      tag = reader.longTag(pos);
      pos = reader.next;
    }
    switch (tag) {
      case 0x11: // start_time_unix_nano
      case 0x19: // time_unix_nano
      case 0x21: // count
      case 0x29: // sum
        pos = readCommonField(context, point, tag, pos);
        break;
      case 0x32: {
        // quantile_values
        const stop = reader.delimited(pos, end);
        readQuantile(context, table, reader.next, stop, depth + 1);
        pos = stop;
        break;
      }
      case 0x3a: {
        // attributes
        const stop = reader.delimited(pos, end);
        appendAttribute(context, reader.next, stop, depth + 1, columns.properties);
        pos = stop;
        break;
      }
      case 0x40: // flags
        reader.varint(pos);
        point.flags = reader.low;
        pos = reader.next;
        break;
      default:
        pos = reader.skip(tag, pos, end, depth);
    }
  }
  reader.finished(pos, end);
  columns.scale.pushNull();
  columns.zero_count.pushNull();
  columns.zero_threshold.pushNull();
  columns.positive_offset.pushNull();
  columns.negative_offset.pushNull();
  finishPoint(context, table, point, end - start);
}

function beginPoint(context: DecodeContext, table: HistogramTable, depth: number): HistogramPoint {
  context.reader.enter(depth);
  const { point } = context;
  point.row = table.columns.time.validity.rows;
  point.textBefore = table.columns.properties.byteLength;
  point.startLow = 0;
  point.startHigh = 0;
  point.timeLow = 0;
  point.timeHigh = 0;
  point.countLow = 0;
  point.countHigh = 0;
  point.hasSum = false;
  point.sumLow = 0;
  point.sumHigh = 0;
  point.hasMin = false;
  point.hasMax = false;
  point.flags = 0;
  return point;
}

/** start_time_unix_nano, time_unix_nano, count and sum have the same numbers in all three kinds. */
function readCommonField(context: DecodeContext, point: HistogramPoint, tag: number, pos: number): number {
  const { reader } = context;
  reader.fixed64(pos);
  const { low, high } = reader;
  if (tag === 0x11) {
    point.startLow = low;
    point.startHigh = high;
  } else if (tag === 0x19) {
    point.timeLow = low;
    point.timeHigh = high;
  } else if (tag === 0x21) {
    point.countLow = low;
    point.countHigh = high;
  } else {
    point.hasSum = true;
    point.sumLow = low;
    point.sumHigh = high;
  }
  return reader.next;
}

function readMin(context: DecodeContext, point: HistogramPoint, pos: number): number {
  const { reader } = context;
  reader.fixed64(pos);
  point.hasMin = true;
  point.minLow = reader.low;
  point.minHigh = reader.high;
  return reader.next;
}

function readMax(context: DecodeContext, point: HistogramPoint, pos: number): number {
  const { reader } = context;
  reader.fixed64(pos);
  point.hasMax = true;
  point.maxLow = reader.low;
  point.maxHigh = reader.high;
  return reader.next;
}

/** A repeated field of 8-byte values, packed or one at a time (protobuf readers take both). */
function readFixed64(
  context: DecodeContext,
  column: Int64Column | Float64Column,
  tag: number,
  pos: number,
  end: number,
): number {
  const { reader } = context;
  const { view } = reader;
  let stop = pos + 8;
  if ((tag & 7) === 2) {
    stop = reader.delimited(pos, end);
    pos = reader.next;
    reader.finished(pos + ((stop - pos) & ~7), stop);
  }
  context.charge(stop - pos);
  for (; pos < stop; pos += 8) {
    column.push(view.getInt32(pos, true), view.getInt32(pos + 4, true));
  }
  return stop;
}

/** Buckets of an exponential histogram, from `reader.next` on. @returns their offset. */
function readBuckets(
  context: DecodeContext,
  counts: Int64Column,
  earlierOffset: number,
  end: number,
  depth: number,
): number {
  const { reader } = context;
  reader.enter(depth);
  let offset = earlierOffset;
  let pos = reader.next;
  while (pos < end) {
    let tag = reader.bytes[pos++]!;
    if (tag > 0x7f) {
      tag = reader.longTag(pos);
      pos = reader.next;
    }
    if (tag === 0x08) {
      reader.varint(pos);
      offset = zigZag(reader.low);
      pos = reader.next;
    } else if (tag === 0x10) {
      reader.varint(pos);
      context.charge(decodedCost.word);
      counts.push(reader.low, reader.high);
      pos = reader.next;
    } else if (tag === 0x12) {
      const stop = reader.delimited(pos, end);
      pos = reader.next;
      context.charge((stop - pos) * decodedCost.word);
      while (pos < stop) {
        reader.varint(pos);
        counts.push(reader.low, reader.high);
        pos = reader.next;
      }
      reader.finished(pos, stop);
    } else {
      pos = reader.skip(tag, pos, end, depth);
    }
  }
  reader.finished(pos, end);
  return offset;
}

function zigZag(value: number): number {
  return (value >>> 1) ^ -(value & 1);
}

/** SummaryDataPoint.ValueAtQuantile as an element of `quantiles`. */
function readQuantile(context: DecodeContext, table: HistogramTable, start: number, end: number, depth: number): void {
  const { reader } = context;
  const { quantile, value } = table.columns.quantiles.children;
  reader.enter(depth);
  context.charge(decodedCost.element);
  let quantileLow = 0;
  let quantileHigh = 0;
  let valueLow = 0;
  let valueHigh = 0;
  let pos = start;
  while (pos < end) {
    let tag = reader.bytes[pos++]!;
    if (tag > 0x7f) {
      tag = reader.longTag(pos);
      pos = reader.next;
    }
    if (tag === 0x09) {
      reader.fixed64(pos);
      quantileLow = reader.low;
      quantileHigh = reader.high;
      pos = reader.next;
    } else if (tag === 0x11) {
      reader.fixed64(pos);
      valueLow = reader.low;
      valueHigh = reader.high;
      pos = reader.next;
    } else {
      pos = reader.skip(tag, pos, end, depth);
    }
  }
  reader.finished(pos, end);
  quantile.push(quantileLow, quantileHigh);
  value.push(valueLow, valueHigh);
}

/** Writes the common fields and closes the lists; a rejected point leaves no row. */
function finishPoint(context: DecodeContext, table: HistogramTable, point: HistogramPoint, pointBytes: number): void {
  const { columns } = table;
  context.problem ??= badTimes(point.startLow, point.startHigh, point.timeLow, point.timeHigh);
  let { timeLow, timeHigh } = point;
  if ((timeLow | timeHigh) === 0) {
    timeLow = context.receivedLow;
    timeHigh = context.receivedHigh;
  }
  columns.time.push(timeLow, timeHigh);
  pushOptionalTime(point.startLow, point.startHigh, columns.start_time);
  columns.count.push(point.countLow, point.countHigh);
  if (point.hasSum) {
    columns.sum.push(point.sumLow, point.sumHigh);
  } else {
    columns.sum.pushNull();
  }
  if (point.hasMin) {
    columns.min.push(point.minLow, point.minHigh);
  } else {
    columns.min.pushNull();
  }
  if (point.hasMax) {
    columns.max.push(point.maxLow, point.maxHigh);
  } else {
    columns.max.pushNull();
  }
  columns.bucket_counts.finish();
  columns.explicit_bounds.finish();
  columns.positive_bucket_counts.finish();
  columns.negative_bucket_counts.finish();
  columns.quantiles.finish();
  columns.flags.push(point.flags, 0);
  finishAttributes(columns.properties);
  columns.exemplars.finish();

  const textBytes = columns.properties.byteLength - point.textBefore;
  context.charge(decodedCost.row + pointBytes + textBytes);
  if (context.settle()) {
    context.noteTime(timeLow, timeHigh);
  } else {
    table.truncate(point.row);
  }
}
