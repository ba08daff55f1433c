/** Fields that several signals have in common, from the input into columns. Hot code. */
import type { Utf8Column } from "../../lake/tables/columns.js";
import type { ProtobufReader } from "../../wire/protobuf-reader.js";
import { type DecodeContext, isTimeOutOfRange, rejectReason } from "./decode-context.js";
import type { Int64Column } from "../../lake/tables/columns.js";
import { appendHex, appendText } from "./text.js";

/** Pushes text, null when it is empty (proto3 does not tell empty from absent). */
export function pushOptionalText(context: DecodeContext, start: number, end: number, column: Utf8Column): void {
  if (start === end) {
    column.pushNull();
    return;
  }
  if (!appendText(context.reader, start, end, column)) {
    context.badText = true;
  }
  column.finish();
}

/** Pushes text, empty or not. */
export function pushText(context: DecodeContext, start: number, end: number, column: Utf8Column): void {
  if (!appendText(context.reader, start, end, column)) {
    context.badText = true;
  }
  column.finish();
}

/** Whether every byte of an id is zero, as of an empty one. */
function isZeroId(reader: ProtobufReader, start: number, end: number): boolean {
  const { bytes } = reader;
  for (let pos = start; pos < end; pos++) {
    if (bytes[pos] !== 0) {
      return false;
    }
  }
  return true;
}

/** Appends a trace or span id in hex; nothing for one of zeros. */
export function appendId(reader: ProtobufReader, start: number, end: number, column: Utf8Column): void {
  if (!isZeroId(reader, start, end)) {
    appendHex(reader, start, end, column);
  }
}

/** Pushes a trace or span id in hex, null when it is empty or all zero. */
export function pushOptionalId(reader: ProtobufReader, start: number, end: number, column: Utf8Column): void {
  if (isZeroId(reader, start, end)) {
    column.pushNull();
    return;
  }
  appendHex(reader, start, end, column);
  column.finish();
}

/** Pushes a time, null when it is 0 (OTLP: unknown or missing). */
export function pushOptionalTime(low: number, high: number, column: Int64Column): void {
  if ((low | high) === 0) {
    column.pushNull();
  } else {
    column.push(low, high);
  }
}

/** Why ids that may be absent cannot be stored, or null when they can. */
export function badOptionalIds(traceLength: number, spanLength: number): string | null {
  if (traceLength !== 16 && traceLength !== 0) {
    return rejectReason.traceId;
  }
  return spanLength === 8 || spanLength === 0 ? null : rejectReason.spanId;
}

/** Why two times cannot be stored, or null when they can. */
export function badTimes(firstLow: number, firstHigh: number, secondLow: number, secondHigh: number): string | null {
  return isTimeOutOfRange(firstLow, firstHigh) || isTimeOutOfRange(secondLow, secondHigh) ? rejectReason.time : null;
}
