/**
 * Metric (opentelemetry/proto/metrics/v1) into measures (gauge, sum) or histograms (histogram,
 * exponential histogram, summary). A row per point; what holds for the metric follows as runs.
 */
import type { RunColumn } from "../../lake/tables/columns.js";
import { appendAttribute, finishAttributes } from "./any-value.js";
import type { AudienceRows } from "../rows/audience-rows.js";
import { type DecodeContext, DecodedSizeError, maxAttributesBytes, rejectReason } from "./decode-context.js";
import { decodeExponentialPoint, decodeHistogramPoint, decodeSummaryPoint } from "./decode-histogram-points.js";
import { decodeNumberPoint } from "./decode-number-points.js";
import type { TableState } from "../rows/table-state.js";
import { appendText } from "./text.js";

/** Numbers of the members of Metric.data. */
const dataKind = { none: 0, gauge: 5, sum: 7, histogram: 9, exponential: 10, summary: 11 } as const;

function utf8(text: string): Uint8Array {
  return Uint8Array.from(text, (letter) => letter.charCodeAt(0));
}

const typeNames: Record<number, Uint8Array> = {
  [dataKind.gauge]: utf8("gauge"),
  [dataKind.sum]: utf8("sum"),
  [dataKind.histogram]: utf8("histogram"),
  [dataKind.exponential]: utf8("exponential_histogram"),
  [dataKind.summary]: utf8("summary"),
};

/** AggregationTemporality; a number that OTLP does not know yet is unspecified. */
const temporalityNames = [utf8("unspecified"), utf8("delta"), utf8("cumulative")];

/** Columns of {@link measures} and {@link histograms} that hold for a whole metric. */
interface MetricColumns {
  readonly name: RunColumn;
  readonly unit: RunColumn;
  readonly description: RunColumn;
  readonly metric_type: RunColumn;
  readonly temporality: RunColumn;
  readonly metric_properties: RunColumn;
}

/** Decodes the Metric in `[start, end)`; `depth` is its own. */
export function decodeMetric(
  context: DecodeContext,
  rows: AudienceRows,
  start: number,
  end: number,
  depth: number,
): void {
  const { reader, metadata } = context;
  let nameStart = 0;
  let nameEnd = 0;
  let descriptionStart = 0;
  let descriptionEnd = 0;
  let unitStart = 0;
  let unitEnd = 0;
  let kind: number = dataKind.none;
  let dataStart = 0;
  let dataEnd = 0;
  let earlier: number[] | null = null;
  metadata.reset();
  let metadataBytes = 0;
  let pos = start;
  while (pos < end) {
    let tag = reader.bytes[pos++]!;
    if (tag > 0x7f) {
      tag = reader.longTag(pos);
      pos = reader.next;
    }
    switch (tag) {
      case 0x0a: // name
        nameEnd = reader.delimited(pos, end);
        nameStart = reader.next;
        pos = nameEnd;
        break;
      case 0x12: // description
        descriptionEnd = reader.delimited(pos, end);
        descriptionStart = reader.next;
        pos = descriptionEnd;
        break;
      case 0x1a: // unit
        unitEnd = reader.delimited(pos, end);
        unitStart = reader.next;
        pos = unitEnd;
        break;
      case 0x2a: // gauge
      case 0x3a: // sum
      case 0x4a: // histogram
      case 0x52: // exponential_histogram
      case 0x5a: // summary
        if (kind !== dataKind.none) {
          earlier ??= [];
          earlier.push(kind, dataStart, dataEnd);
        }
        kind = tag >> 3;
        dataEnd = reader.delimited(pos, end);
        dataStart = reader.next;
        pos = dataEnd;
        break;
      case 0x62: {
        // metadata
        const stop = reader.delimited(pos, end);
        metadataBytes += stop - pos;
        if (metadataBytes > maxAttributesBytes) {
          throw new DecodedSizeError(
            `the metadata of a metric has more than ${maxAttributesBytes} bytes; give it less`,
          );
        }
        appendAttribute(context, reader.next, stop, depth + 1, metadata);
        pos = stop;
        break;
      }
      default:
        pos = reader.skip(tag, pos, end, depth);
    }
  }
  reader.finished(pos, end);
  context.charge(metadata.byteLength);
  // Points answer for their own text only.
  let isTextBad = context.badText;
  context.badText = false;
  if (kind === dataKind.none) {
    return;
  }

  const counts = context.counts();
  const table: TableState<"measures"> | TableState<"histograms"> =
    kind === dataKind.gauge || kind === dataKind.sum ? rows.measures : rows.histograms;
  const mark = table.rows;
  context.temporality = 0;
  context.isMonotonic = false;
  if (earlier !== null) {
    decodeEarlier(context, rows, earlier, kind, depth + 1);
  }
  decodeData(context, rows, kind, dataStart, dataEnd, depth + 1);

  const count = table.rows - mark;
  if (count === 0) {
    return;
  }
  finishAttributes(metadata);
  const columns: MetricColumns = table.columns;
  const { scratch } = context;
  if (!appendShared(context, columns.name, nameStart, nameEnd, count)) {
    isTextBad = true;
  }
  if (!appendShared(context, columns.unit, unitStart, unitEnd, count)) {
    isTextBad = true;
  }
  if (!appendShared(context, columns.description, descriptionStart, descriptionEnd, count)) {
    isTextBad = true;
  }
  columns.metric_properties.appendBytes(metadata.bytes, 0, metadata.byteLength, count);
  const typeName = typeNames[kind]!;
  columns.metric_type.appendBytes(typeName, 0, typeName.length, count);
  if (kind === dataKind.gauge || kind === dataKind.summary) {
    columns.temporality.append(-1, count);
  } else {
    const temporality = temporalityNames[context.temporality] ?? temporalityNames[0]!;
    columns.temporality.appendBytes(temporality, 0, temporality.length, count);
  }
  if (table.name === "measures") {
    const monotonic = table.columns.is_monotonic;
    for (let index = 0; index < count; index++) {
      if (kind === dataKind.sum) {
        monotonic.push(context.isMonotonic);
      } else {
        monotonic.pushNull();
      }
    }
  }
  scratch.reset();
  if (!isTextBad) {
    return;
  }
  table.truncate(mark);
  context.rejectSince(counts, rejectReason.text);
}

/** Appends `count` rows of a text of the metric. @returns false when it is not UTF-8. */
function appendShared(context: DecodeContext, column: RunColumn, start: number, end: number, count: number): boolean {
  const { scratch } = context;
  scratch.reset();
  const isText = appendText(context.reader, start, end, scratch);
  column.appendBytes(scratch.bytes, 0, isText ? scratch.byteLength : 0, count);
  return isText;
}

/**
 * Decodes occurrences of Metric.data before the last one: those of its kind that no other kind comes
 * between merge with it, the rest is only checked and taken back.
 */
function decodeEarlier(
  context: DecodeContext,
  rows: AudienceRows,
  occurrences: readonly number[],
  lastKind: number,
  depth: number,
): void {
  let firstMerged = occurrences.length;
  while (firstMerged > 0 && occurrences[firstMerged - 3] === lastKind) {
    firstMerged -= 3;
  }
  for (let at = 0; at < occurrences.length; at += 3) {
    const kind = occurrences[at]!;
    const isMerged = at >= firstMerged;
    const target = kind === dataKind.gauge || kind === dataKind.sum ? rows.measures : rows.histograms;
    const before = isMerged ? null : { mark: target.rows, counts: context.counts() };
    decodeData(context, rows, kind, occurrences[at + 1]!, occurrences[at + 2]!, depth);
    if (before === null) {
      continue;
    }
    target.truncate(before.mark);
    context.restore(before.counts);
    context.temporality = 0;
    context.isMonotonic = false;
  }
}

/** Gauge, Sum, Histogram, ExponentialHistogram or Summary: { 1: points, 2: temporality, 3: is_monotonic }. */
function decodeData(
  context: DecodeContext,
  rows: AudienceRows,
  kind: number,
  start: number,
  end: number,
  depth: number,
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
    if (tag === 0x0a) {
      const stop = reader.delimited(pos, end);
      pos = reader.next;
      if (kind === dataKind.gauge || kind === dataKind.sum) {
        decodeNumberPoint(context, rows.measures, pos, stop, depth + 1);
      } else if (kind === dataKind.histogram) {
        decodeHistogramPoint(context, rows.histograms, pos, stop, depth + 1);
      } else if (kind === dataKind.exponential) {
        decodeExponentialPoint(context, rows.histograms, pos, stop, depth + 1);
      } else {
        decodeSummaryPoint(context, rows.histograms, pos, stop, depth + 1);
      }
      pos = stop;
    } else if (tag === 0x10 && kind !== dataKind.gauge && kind !== dataKind.summary) {
      reader.varint(pos);
      context.temporality = reader.low;
      pos = reader.next;
    } else if (tag === 0x18 && kind === dataKind.sum) {
      reader.varint(pos);
      context.isMonotonic = (reader.low | reader.high) !== 0;
      pos = reader.next;
    } else {
      pos = reader.skip(tag, pos, end, depth);
    }
  }
  reader.finished(pos, end);
}
