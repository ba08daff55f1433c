/**
 * The three export requests (opentelemetry/proto/collector): resource entries, their scopes, and the
 * records in them. All three signals have the same outer shape and field numbers: request { 1: entry },
 * entry { 1: resource, 2: scope entries, 3: schema URL }, scope entry { 1: scope, 2: records, 3: schema URL }.
 *
 * Rows are written as they are met; what they share (scope, process) follows as runs when its message
 * ends, because its fields may come last. A row of leaf columns without its runs never leaves here: the
 * caller truncates every table after an error.
 */
import type { OtlpSignal } from "../wire/rpc-status.js";
import type { AudienceRows } from "./audience-rows.js";
import { type DecodeContext, decodedCost, rejectReason } from "./decode-context.js";
import { decodeLogRecord } from "./decode-logs.js";
import { decodeMetric } from "./decode-metrics.js";
import { decodeSpan } from "./decode-spans.js";
import { blockIdOf, type ProcessIdentity, streamIdOf } from "./identity.js";
import type { ResourceReader } from "./resource.js";
import type { TableState } from "./table-state.js";
import { appendText } from "./text.js";

/** A block whose rows stand in the segment. */
export interface DecodedBlock {
  readonly blockId: string;
  readonly streamId: string;
  readonly process: ProcessIdentity;
  readonly signal: OtlpSignal;
  readonly beginTimeNs: bigint | null;
  readonly endTimeNs: bigint | null;
  readonly rowCount: number;
  readonly payloadBytes: number;
}

/** Where decoded requests go. */
export interface DecodeTarget {
  readonly rows: AudienceRows;
  readonly resources: ResourceReader;
  /** insert_time of every row: 8 bytes little-endian. */
  readonly insertTime: Uint8Array;
  /** Whether rows of this block are wanted: it is neither excluded nor met before. */
  isNew(blockId: string): boolean;
  /** Called for every new block that holds rows. */
  addBlock(block: DecodedBlock): void;
}

const depthOfEntry = 1;
const depthOfScope = 2;
const depthOfRecord = 3;

/** Decodes the request that the reader holds at `[start, end)`. Throws MalformedError or DecodedSizeError. */
export function decodeRequest(
  context: DecodeContext,
  target: DecodeTarget,
  signal: OtlpSignal,
  start: number,
  end: number,
): void {
  const { reader } = context;
  let pos = start;
  while (pos < end) {
    let tag = reader.bytes[pos++]!;
    if (tag > 0x7f) {
      tag = reader.longTag(pos);
      pos = reader.next;
    }
    if (tag !== 0x0a) {
      pos = reader.skip(tag, pos, end, 0);
      continue;
    }
    const stop = reader.delimited(pos, end);
    decodeEntry(context, target, signal, reader.next, stop);
    pos = stop;
  }
  reader.finished(pos, end);
}

/** ResourceLogs, ResourceMetrics or ResourceSpans: one block. */
function decodeEntry(
  context: DecodeContext,
  target: DecodeTarget,
  signal: OtlpSignal,
  start: number,
  end: number,
): void {
  const { reader } = context;
  const { rows } = target;
  reader.enter(depthOfEntry);
  context.charge(decodedCost.block);
  context.hasTime = false;
  const counts = context.counts();
  const firstMark = rowsOf(rows.primary(signal));
  const secondMark = rowsOf(rows.secondary(signal));
  const resources: number[] = [];
  let urlStart = 0;
  let urlEnd = 0;
  let pos = start;
  while (pos < end) {
    let tag = reader.bytes[pos++]!;
    if (tag > 0x7f) {
      tag = reader.longTag(pos);
      pos = reader.next;
    }
    if (tag !== 0x0a && tag !== 0x12 && tag !== 0x1a) {
      pos = reader.skip(tag, pos, end, depthOfEntry);
      continue;
    }
    const stop = reader.delimited(pos, end);
    pos = reader.next;
    if (tag === 0x12) {
      decodeScopeEntry(context, target, signal, pos, stop);
    } else if (tag === 0x0a) {
      resources.push(pos, stop);
    } else {
      urlStart = pos;
      urlEnd = stop;
    }
    pos = stop;
  }
  reader.finished(pos, end);

  const process = target.resources.process(rows.identity, resources, depthOfScope);
  context.droppedAttributes += process.droppedAttributes;
  const isTextBad = !readText(context, urlStart, urlEnd) || process.badText;
  const first = rows.primary(signal);
  const second = rows.secondary(signal);
  const added = rowsOf(first) - firstMark + rowsOf(second) - secondMark;
  if (added === 0) return;
  if (isTextBad) {
    first?.truncate(firstMark);
    second?.truncate(secondMark);
    context.rejectSince(counts, rejectReason.resourceText);
    return;
  }
  const blockId = blockIdOf(reader, rows.identity, signal, start, end);
  if (!target.isNew(blockId)) {
    // The rows stand elsewhere already; they count as stored.
    first?.truncate(firstMark);
    second?.truncate(secondMark);
    return;
  }
  const streamId = streamIdOf(process, signal);
  const ids = Buffer.from(streamId + blockId, "latin1");
  if (first !== null) appendProcess(context, target, first, process, ids, firstMark);
  if (second !== null) appendProcess(context, target, second, process, ids, secondMark);
  target.addBlock({
    blockId,
    streamId,
    process,
    signal,
    beginTimeNs: context.hasTime ? toBigInt(context.firstLow, context.firstHigh) : null,
    endTimeNs: context.hasTime ? toBigInt(context.lastLow, context.lastHigh) : null,
    rowCount: added,
    payloadBytes: end - start,
  });
}

const uuidTextLength = 36;

/** Runs of the process columns for the rows from `mark` on. `ids`: stream id and block id. */
function appendProcess(
  context: DecodeContext,
  target: DecodeTarget,
  table: TableState,
  process: ProcessIdentity,
  ids: Uint8Array,
  mark: number,
): void {
  const count = table.rows - mark;
  if (count === 0) return;
  const { common } = table;
  process.values.append(table, table.processColumns, count);
  common.stream_id.appendBytes(ids, 0, uuidTextLength, count);
  common.block_id.appendBytes(ids, uuidTextLength, 2 * uuidTextLength, count);
  common.insert_time.appendBytes(target.insertTime, 0, target.insertTime.length, count);
  const { scratch } = context;
  if (scratch.byteLength === 0) common.resource_schema_url.append(-1, count);
  else common.resource_schema_url.appendBytes(scratch.bytes, 0, scratch.byteLength, count);
}

/** ScopeLogs, ScopeMetrics or ScopeSpans. */
function decodeScopeEntry(
  context: DecodeContext,
  target: DecodeTarget,
  signal: OtlpSignal,
  start: number,
  end: number,
): void {
  const { reader } = context;
  const { rows } = target;
  reader.enter(depthOfScope);
  context.charge(decodedCost.scope);
  const counts = context.counts();
  const firstMark = rowsOf(rows.primary(signal));
  const secondMark = rowsOf(rows.secondary(signal));
  const scopes: number[] = [];
  let urlStart = 0;
  let urlEnd = 0;
  let pos = start;
  while (pos < end) {
    let tag = reader.bytes[pos++]!;
    if (tag > 0x7f) {
      tag = reader.longTag(pos);
      pos = reader.next;
    }
    if (tag !== 0x0a && tag !== 0x12 && tag !== 0x1a) {
      pos = reader.skip(tag, pos, end, depthOfScope);
      continue;
    }
    const stop = reader.delimited(pos, end);
    pos = reader.next;
    if (tag === 0x12) {
      reader.enter(depthOfRecord);
      if (signal === 1) decodeLogRecord(context, rows.logs, pos, stop, depthOfRecord);
      else if (signal === 2) decodeMetric(context, rows, pos, stop, depthOfRecord);
      else decodeSpan(context, rows.spans, pos, stop, depthOfRecord);
    } else if (tag === 0x0a) {
      scopes.push(pos, stop);
    } else {
      urlStart = pos;
      urlEnd = stop;
    }
    pos = stop;
  }
  reader.finished(pos, end);

  const scope = target.resources.scope(scopes, depthOfRecord);
  context.droppedAttributes += scope.droppedAttributes;
  const isTextBad = !readText(context, urlStart, urlEnd) || scope.badText;
  const first = rows.primary(signal);
  const second = rows.secondary(signal);
  if (isTextBad) {
    first?.truncate(firstMark);
    second?.truncate(secondMark);
    context.rejectSince(counts, rejectReason.scopeText);
    return;
  }
  for (const table of [first, second]) {
    if (table === null) continue;
    const count = table.rows - (table === first ? firstMark : secondMark);
    scope.values.append(table, table.scopeColumns, count);
    const { scratch } = context;
    const url = table.common.scope_schema_url;
    if (scratch.byteLength === 0) url.append(-1, count);
    else url.appendBytes(scratch.bytes, 0, scratch.byteLength, count);
  }
}

/** Reads text into the scratch memory of the context. @returns false when it is not UTF-8. */
function readText(context: DecodeContext, start: number, end: number): boolean {
  context.scratch.reset();
  return appendText(context.reader, start, end, context.scratch);
}

function rowsOf(table: TableState | null): number {
  return table === null ? 0 : table.rows;
}

function toBigInt(low: number, high: number): bigint {
  return (BigInt(high) << 32n) | BigInt(low >>> 0);
}
