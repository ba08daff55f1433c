/**
 * Thread entry of the encode pool: one task turns one batch of requests into Parquet objects.
 *
 * The builder and its memory live as long as the thread. A task returns only after every object is
 * synced to the store; after a failure it removes what it wrote, since nobody else knows of it
 * (maintenance removes what a crash leaves).
 */
import { randomUUID } from "node:crypto";

import { codeEncoding, codeFormat, codeSignal } from "../ingest/request.js";
import { type DecodedSegment, type RequestOutcome, SegmentBuilder } from "../ingest/segment.js";
import type { PartitionRow } from "../lake/catalogue-rows.js";
import type { ObjectStore } from "../lake/store/object-store.js";
import { openObjectStore } from "../lake/store/open-store.js";
import { encodeTable } from "../lake/parquet/write.js";
import { objectPath } from "../lake/store/paths.js";
import { type TableName, tables } from "../lake/tables/tables.js";
import { ServiceError } from "../runtime/errors.js";
import { defineTask, taskWorkerData, transferred } from "../runtime/threads/task-worker.js";
import {
  type EncodeRequest,
  type EncodeResponse,
  type EncodeWorkerData,
  OUTCOME_WORDS,
  outcomeKind,
  type OutcomeText,
  REQUEST_WORDS,
} from "./encode-messages.js";

/** A partition lists its processes up to this many. */
const maxListedProcesses = 32;

const tableNames = Object.keys(tables) as TableName[];

const failureKinds = {
  BAD_REQUEST: outcomeKind.badRequest,
  PAYLOAD_TOO_LARGE: outcomeKind.payloadTooLarge,
  OVERLOADED: outcomeKind.overloaded,
} as const;

/** Which signal's blocks fill a table. */
const tableSignal = { log_entries: 1, measures: 2, histograms: 2, spans: 3 } as const;

const settings = taskWorkerData() as EncodeWorkerData;
const store = await openObjectStore(settings.objectStoreUri);
const builder = new SegmentBuilder({
  maxInflatedBytes: settings.maxInflatedBytes,
  maxDepth: settings.maxDepth,
});

function decode(request: EncodeRequest, texts: OutcomeText[]): Float64Array {
  const { requests, audiences } = request;
  const views = request.buffers.map((buffer) => new Uint8Array(buffer));
  const count = requests.length / REQUEST_WORDS;
  const outcomes = new Float64Array(count * OUTCOME_WORDS);
  builder.begin(request.receivedUnixNano, new Set(request.excludedBlocks));
  for (let index = 0; index < count; index++) {
    const at = index * REQUEST_WORDS;
    const view = views[requests[at] ?? 0] ?? new Uint8Array(0);
    const offset = requests[at + 1] ?? 0;
    const code = requests[at + 3] ?? 0;
    const outcome = builder.add(view.subarray(offset, offset + (requests[at + 2] ?? 0)), {
      signal: codeSignal(code),
      format: codeFormat(code),
      encoding: codeEncoding(code),
      audience: audiences[requests[at + 4] ?? -1] ?? null,
    });
    writeOutcome(outcome, outcomes, index, texts);
  }
  return outcomes;
}

function writeOutcome(
  outcome: RequestOutcome,
  outcomes: Float64Array,
  index: number,
  texts: OutcomeText[],
): void {
  const at = index * OUTCOME_WORDS;
  if (outcome.kind === "failed") {
    outcomes[at] = failureKinds[outcome.code];
    texts.push({ index, text: outcome.message });
    return;
  }
  outcomes[at + 1] = outcome.records;
  outcomes[at + 2] = outcome.rejected;
  outcomes[at + 3] = outcome.droppedAttributes;
  outcomes[at + 4] = outcome.inflatedBytes;
  if (outcome.rejectedReason !== null) texts.push({ index, text: outcome.rejectedReason });
}

/** Processes whose rows an object holds, or null when they are too many to list. */
function processesOf(
  segment: DecodedSegment,
  table: TableName,
  audience: string | null,
): string[] | null {
  const ids = new Set<string>();
  for (const block of segment.blocks) {
    if (block.audience !== audience || block.signal !== tableSignal[table]) continue;
    ids.add(block.processId);
    if (ids.size > maxListedProcesses) return null;
  }
  return [...ids];
}

async function writeObjects(
  target: ObjectStore,
  segment: DecodedSegment,
  insertTimeMs: number,
  written: PartitionRow[],
): Promise<void> {
  for (const { audience, tables: filled } of segment.groups) {
    for (const table of tableNames) {
      const { rows, columns } = filled[table];
      if (rows === 0) continue;
      const file = encodeTable(table, columns, rows, { compression: settings.compression });
      const partitionId = randomUUID();
      const path = objectPath(table, audience, insertTimeMs, partitionId);
      written.push({
        partitionId,
        viewSet: table,
        audience,
        path,
        fileBytes: file.bytes,
        rowCount: file.rowCount,
        minTimeNs: file.minTimeNs,
        maxTimeNs: file.maxTimeNs,
        insertTimeMs,
        level: 0,
        schemaHash: file.schemaHash,
        sortOrder: "",
        processIds: processesOf(segment, table, audience),
      });
      // One after the other: the pages of a file may be in memory that the next one is encoded into.
      await target.put(path, file.chunks);
    }
  }
}

async function encode(request: EncodeRequest): Promise<EncodeResponse> {
  const texts: OutcomeText[] = [];
  const outcomes = decode(request, texts);
  const segment = builder.finish();
  const partitions: PartitionRow[] = [];
  const insertTimeMs = Number(request.receivedUnixNano / 1_000_000n);
  try {
    await writeObjects(store, segment, insertTimeMs, partitions);
  } catch (error) {
    await Promise.allSettled(partitions.map(({ path }) => store.remove(path)));
    throw error instanceof ServiceError && error.code !== "INTERNAL"
      ? error
      : new ServiceError("UNAVAILABLE", "the object store cannot be written", { cause: error });
  }
  return {
    outcomes,
    texts,
    commit: {
      processes: [...segment.processes],
      streams: [...segment.streams],
      blocks: [...segment.blocks],
      partitions,
    },
  };
}

export default defineTask<EncodeRequest, EncodeResponse>(async (request) => {
  const response = await encode(request);
  return transferred(response, [response.outcomes.buffer as ArrayBuffer]);
});
