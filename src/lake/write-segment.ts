/** A segment becomes Parquet objects: one for each of its audiences and tables that has rows. */
import { randomUUID } from "node:crypto";

import { ServiceError } from "../runtime/errors.js";
import type { BlockRow, PartitionRow, SegmentCommit } from "./catalogue-rows.js";
import type { Compression } from "./parquet/column-chunk.js";
import { encodeTable } from "./parquet/write.js";
import { checksumOf } from "./store/checksum.js";
import type { ObjectStore } from "./store/object-store.js";
import { objectPath } from "./store/paths.js";
import { type ColumnsOf, type TableName, tables } from "./tables/tables.js";

/** Everything that one batch adds to the lake and its catalogue. */
export interface Segment extends Omit<SegmentCommit, "partitions"> {
  readonly groups: readonly AudienceGroup[];
}

/** The rows of one write audience. The columns are the builder's: read them before it begins the next segment. */
export interface AudienceGroup {
  readonly audience: string | null;
  readonly tables: {
    readonly [T in TableName]: {
      readonly rows: number;
      readonly columns: ColumnsOf<(typeof tables)[T]>;
    };
  };
}

/** How a segment is written. */
interface SegmentWrite {
  /** When the batch was received, milliseconds since 1970 UTC. */
  readonly insertTimeMs: number;
  readonly compression: Compression;
}

/** Objects of one segment that are being synced, or on their way over a network, at a time. */
const parallelPuts = 8;

/**
 * Objects up to this size have a checksum from the start. It costs 0.09 us a record, which is nothing in a small batch and a
 * twentieth of all in a large one; what is larger is merged soon, and has one then.
 */
const summedBytes = 128 << 10;

/** A partition lists its processes up to this many. */
const maxListedProcesses = 32;

const tableNames = Object.keys(tables) as TableName[];

/** Which signal's blocks fill a table. */
const tableSignal = { log_entries: 1, measures: 2, histograms: 2, spans: 3 } as const;

/**
 * Writes and syncs every object of a segment, and says what is to be committed for them to be seen. When one
 * cannot be written the others are removed again, since nobody else knows of them; what a crash leaves behind is
 * swept by maintenance.
 * @throws ServiceError UNAVAILABLE when the store cannot be written
 */
export async function writeSegment(store: ObjectStore, segment: Segment, o: SegmentWrite): Promise<SegmentCommit> {
  const partitions: PartitionRow[] = [];
  const left = segment.groups.flatMap((group) =>
    tableNames.flatMap((table) => (group.tables[table].rows === 0 ? [] : [{ group, table }])),
  );
  const among = left.length > 1;
  const writeMore = async (): Promise<void> => {
    try {
      for (let next = left.pop(); next !== undefined; next = left.pop()) {
        const { row, chunks } = encodeObject(next.group, next.table, segment.blocks, o);
        partitions.push(row);
        await store.put(row.path, chunks, among);
      }
    } catch (error) {
      left.length = 0;
      throw error;
    }
  };
  const running = Array.from({ length: Math.min(parallelPuts, left.length) }, writeMore);
  await Promise.allSettled(running);
  try {
    await Promise.all(running);
  } catch (error) {
    await Promise.allSettled(partitions.map(({ path }) => store.remove(path)));
    throw error instanceof ServiceError && error.code !== "INTERNAL"
      ? error
      : new ServiceError("UNAVAILABLE", "the object store cannot be written", { cause: error });
  }
  return {
    processes: [...segment.processes],
    streams: [...segment.streams],
    blocks: [...segment.blocks],
    partitions,
  };
}

function encodeObject(
  { audience, tables: filled }: AudienceGroup,
  table: TableName,
  blocks: readonly BlockRow[],
  { insertTimeMs, compression }: SegmentWrite,
): { readonly row: PartitionRow; readonly chunks: Uint8Array[] } {
  const { rows, columns } = filled[table];
  const file = encodeTable(table, columns, rows, { compression });
  const partitionId = randomUUID();
  const row: PartitionRow = {
    partitionId,
    viewSet: table,
    audience,
    path: objectPath(table, audience, insertTimeMs, partitionId),
    fileBytes: file.bytes,
    checksum: file.bytes <= summedBytes ? checksumOf(file.chunks) : null,
    rowCount: file.rowCount,
    minTimeNs: file.minTimeNs,
    maxTimeNs: file.maxTimeNs,
    insertTimeMs,
    level: 0,
    schemaHash: file.schemaHash,
    sortOrder: "",
    processIds: processesOf(blocks, table, audience),
  };
  return { row, chunks: file.chunks };
}

/** Processes whose rows an object holds, or null when they are too many to list. */
function processesOf(blocks: readonly BlockRow[], table: TableName, audience: string | null): string[] | null {
  const ids = new Set<string>();
  for (const block of blocks) {
    if (block.audience !== audience || block.signal !== tableSignal[table]) {
      continue;
    }
    ids.add(block.processId);
    if (ids.size > maxListedProcesses) {
      return null;
    }
  }
  return [...ids];
}
