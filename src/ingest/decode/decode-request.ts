/**
 * The three export requests (opentelemetry/proto/collector): resource entries, their scopes, and the
 * records in them. All three signals have the same outer shape and field numbers: request { 1: entry },
 * entry { 1: resource, 2: scope entries, 3: schema URL }, scope entry { 1: scope, 2: records, 3: schema URL }.
 *
 * Rows are written as they are met; what they share (scope, process) follows as runs when its message
 * ends, because its fields may come last. A row of leaf columns without its runs never leaves here: the
 * caller truncates every table after an error.
 */
import type { OtlpSignal } from "../../wire/otlp/rpc-status.js";
import type { AudienceRows } from "../rows/audience-rows.js";
import type { BlockSet } from "../rows/block-set.js";
import { type DecodeContext, decodedCost, rejectReason, uuidTextLength } from "./decode-context.js";
import { decodeLogRecord } from "./decode-logs.js";
import { decodeMetric } from "./decode-metrics.js";
import { decodeSpan } from "./decode-spans.js";
import { blockIdOf, type ProcessIdentity } from "../rows/identity.js";
import type { ResourceReader } from "./resource.js";
import type { TableState } from "../rows/table-state.js";
import { appendText } from "./text.js";

/** What requests are decoded with, and where their blocks go. */
export interface DecodeTarget {
  readonly resources: ResourceReader;
  /** insert_time of every row: 8 bytes little-endian. */
  readonly insertTime: Uint8Array;
  readonly blocks: BlockSet;
}

const depthOfEntry = 1;
const depthOfScope = 2;
const depthOfRecord = 3;

/**
 * Decodes the request that the reader holds at `[start, end)` into the rows of its audience. Throws
 * MalformedError or DecodedSizeError.
 */
export function decodeRequest(
  context: DecodeContext,
  target: DecodeTarget,
  rows: AudienceRows,
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
    decodeEntry(context, target, rows, signal, reader.next, stop);
    pos = stop;
  }
  reader.finished(pos, end);
}

/** ResourceLogs, ResourceMetrics or ResourceSpans: one block. */
function decodeEntry(
  context: DecodeContext,
  target: DecodeTarget,
  rows: AudienceRows,
  signal: OtlpSignal,
  start: number,
  end: number,
): void {
  const { reader } = context;
  reader.enter(depthOfEntry);
  context.chargeBlock();
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
      decodeScopeEntry(context, target, rows, signal, pos, stop);
    } else if (tag === 0x0a) {
      resources.push(pos, stop);
    } else {
      urlStart = pos;
      urlEnd = stop;
    }
    pos = stop;
  }
  reader.finished(pos, end);

  const process = target.resources.process(rows.identity, signal, resources, depthOfScope);
  context.chargeProcess(process.row);
  context.droppedAttributes += process.droppedAttributes;
  const isTextBad = !readText(context, urlStart, urlEnd) || process.badText;
  const first = rows.primary(signal);
  const second = rows.secondary(signal);
  const added = rowsOf(first) - firstMark + rowsOf(second) - secondMark;
  if (added === 0) {
    return;
  }
  if (isTextBad) {
    first?.truncate(firstMark);
    second?.truncate(secondMark);
    context.rejectSince(counts, rejectReason.resourceText);
    return;
  }
  const blockId = blockIdOf(reader, rows.identity, signal, start, end);
  if (!target.blocks.isNew(blockId)) {
    // The block is already committed, or in this segment: its sender is told so, and nothing is counted twice.
    first?.truncate(firstMark);
    second?.truncate(secondMark);
    context.records = counts.records;
    return;
  }
  for (let index = 0; index < uuidTextLength; index++) {
    context.blockId[index] = blockId.charCodeAt(index);
  }
  if (first !== null) {
    appendProcess(context, target, first, process, firstMark);
  }
  if (second !== null) {
    appendProcess(context, target, second, process, secondMark);
  }
  target.blocks.add({
    blockId,
    process,
    beginTimeNs: context.firstTime(),
    endTimeNs: context.lastTime(),
    rowCount: added,
    payloadBytes: end - start,
  });
}

/** Runs of the process columns for the rows from `mark` on. */
function appendProcess(
  context: DecodeContext,
  target: DecodeTarget,
  table: TableState,
  process: ProcessIdentity,
  mark: number,
): void {
  const count = table.rows - mark;
  if (count === 0) {
    return;
  }
  const { common } = table;
  process.values.append(table, table.processColumns, count);
  common.block_id.appendBytes(context.blockId, 0, uuidTextLength, count);
  if (table.insertTimeIndex === -1) {
    const { insertTime } = target;
    table.insertTimeIndex = common.insert_time.dictionary.intern(insertTime, 0, insertTime.length);
  }
  common.insert_time.append(table.insertTimeIndex, count);
  const { scratch } = context;
  if (scratch.byteLength === 0) {
    common.resource_schema_url.append(-1, count);
  } else {
    common.resource_schema_url.appendBytes(scratch.bytes, 0, scratch.byteLength, count);
  }
}

/** ScopeLogs, ScopeMetrics or ScopeSpans. */
function decodeScopeEntry(
  context: DecodeContext,
  target: DecodeTarget,
  rows: AudienceRows,
  signal: OtlpSignal,
  start: number,
  end: number,
): void {
  const { reader } = context;
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
      if (signal === 1) {
        decodeLogRecord(context, rows.logs, pos, stop, depthOfRecord);
      } else if (signal === 2) {
        decodeMetric(context, rows, pos, stop, depthOfRecord);
      } else {
        decodeSpan(context, rows.spans, pos, stop, depthOfRecord);
      }
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
    if (table === null) {
      continue;
    }
    const count = table.rows - (table === first ? firstMark : secondMark);
    scope.values.append(table, table.scopeColumns, count);
    const { scratch } = context;
    const url = table.common.scope_schema_url;
    if (scratch.byteLength === 0) {
      url.append(-1, count);
    } else {
      url.appendBytes(scratch.bytes, 0, scratch.byteLength, count);
    }
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
