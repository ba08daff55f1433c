/**
 * LogRecord (opentelemetry/proto/logs/v1) into the columns of log_entries. Hot code: see scan/message-scanner.ts
 * and protobuf-reader.ts for its manners. A record is read to its end before any column gets its value, so that fields
 * may come in any order and the last one wins.
 */
import type { Utf8Column } from "../../lake/tables/columns.js";
import type { LogColumns } from "../../lake/tables/tables.js";
import type { TableState } from "../rows/table-state.js";
import { valueKind } from "./any-value.js";
import { type DecodeContext, decodedCost } from "./decode-context.js";
import { badOptionalIds, badTimes, pushOptionalTime } from "./fields.js";
import { rangeOf } from "./scan/message-scanner.js";
import { ScanPlan } from "./scan/plan.js";
import { readMessage } from "./scan/read-message.js";
import { levelOf } from "./severity.js";

const kindNames = ["empty", "string", "bool", "int", "double", "array", "kvlist", "bytes"].map((name) =>
  Uint8Array.from(name, (letter) => letter.charCodeAt(0)),
);

/** Numbers of a record, as the scanner leaves them. */
const field = { time: 0, observedTime: 1, severity: 2, droppedAttributes: 3, flags: 4 } as const;
/** Texts of a record: places in {@link textsOf}. */
const column = { properties: 0, msg: 1, severityText: 2, eventName: 3, traceId: 4, spanId: 5 } as const;

const plan = new ScanPlan()
  .number(0x09, "fixed64", field.time)
  .number(0x59, "fixed64", field.observedTime)
  .number(0x10, "varint", field.severity)
  .text(0x1a, "text", column.severityText)
  .text(0x2a, "body", column.msg)
  .attribute(0x32)
  .number(0x38, "varint", field.droppedAttributes)
  .number(0x45, "fixed32", field.flags)
  .text(0x4a, "id", column.traceId)
  .text(0x52, "id", column.spanId)
  .text(0x62, "text", column.eventName);

const textsOf = (columns: LogColumns): Utf8Column[] => [
  columns.properties,
  columns.msg,
  columns.severity_text,
  columns.event_name,
  columns.trace_id,
  columns.span_id,
];

const severityRange = rangeOf(column.severityText);
const bodyRange = rangeOf(column.msg);
const traceRange = rangeOf(column.traceId);
const spanRange = rangeOf(column.spanId);

/** Decodes the LogRecord in `[start, end)`; `depth` is its own. Rejected ones leave no row. */
export function decodeLogRecord(
  context: DecodeContext,
  table: TableState<"log_entries">,
  start: number,
  end: number,
  depth: number,
): void {
  const { reader, scanner } = context;
  const { columns } = table;
  const row = columns.time.validity.rows;
  const textBefore = columns.properties.byteLength;
  const bodyBefore = columns.msg.byteLength;
  table.texts ??= textsOf(columns);
  if (!scanner.scan(plan, table.texts, start, end)) {
    readMessage(context, plan, table.texts, start, end, depth);
  }
  const { fields } = scanner;
  let timeLow = fields[2 * field.time]!;
  let timeHigh = fields[2 * field.time + 1]!;
  const observedLow = fields[2 * field.observedTime]!;
  const observedHigh = fields[2 * field.observedTime + 1]!;

  context.problem ??=
    badTimes(timeLow, timeHigh, observedLow, observedHigh) ??
    badOptionalIds(fields[traceRange + 1]! - fields[traceRange]!, fields[spanRange + 1]! - fields[spanRange]!);

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
  pushSeverity(reader.bytes, columns, fields);
  finishTexts(columns);
  const bodyKind = fields[bodyRange]!;
  finishBody(table, bodyKind);
  columns.flags.push(fields[2 * field.flags]!, 0);
  columns.dropped_attributes_count.push(fields[2 * field.droppedAttributes]!, 0);

  // A text is as long as it was sent; what becomes JSON may be longer.
  const bodyBytes = bodyKind >= valueKind.array ? columns.msg.byteLength - bodyBefore : 0;
  context.charge(decodedCost.row + end - start + columns.properties.byteLength - textBefore + bodyBytes);
  if (context.settle()) {
    context.noteTime(timeLow, timeHigh);
  } else {
    table.truncate(row);
  }
}

// The columns are written in a few functions, because V8 inlines only so much into each: with all of it
// in one, every push is a call.

function pushSeverity(bytes: Uint8Array, columns: LogColumns, fields: Int32Array): void {
  const severity = fields[2 * field.severity]!;
  const level = levelOf(severity, bytes, fields[severityRange]!, fields[severityRange + 1]!);
  if (level === 0) {
    columns.level.pushNull();
  } else {
    columns.level.push(level);
  }
  columns.severity_number.push(severity);
}

function finishTexts(columns: LogColumns): void {
  columns.severity_text.finishOrNull();
  columns.trace_id.finishOrNull();
  columns.span_id.finishOrNull();
  columns.event_name.finishOrNull();
  columns.properties.finish();
}

function finishBody(table: TableState<"log_entries">, kind: number): void {
  const { msg, body_type } = table.columns;
  if (kind === valueKind.empty) {
    msg.pushNull();
  } else {
    msg.finish();
  }
  body_type.append(bodyTypeIndex(table, kind), 1);
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
