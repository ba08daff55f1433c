/**
 * Catalogue rows in the order of their ids, in which all commits take locks. An encode thread sorts those of its segment:
 * rows that come sorted take the main thread a look each.
 */
import type { BlockRow, PartitionRow, ProcessRow, SegmentCommit, StreamRow } from "./catalogue-rows.js";

/**
 * Rows of all commits, each id once, sorted.
 * @throws TypeError when a block is in two of them
 */
export function sortedRows(commits: readonly SegmentCommit[]): SegmentCommit {
  const processes = new Map<string, ProcessRow>();
  const streams = new Map<string, StreamRow>();
  const blocks = new Map<string, BlockRow>();
  const partitions: PartitionRow[] = [];
  for (const commit of commits) {
    for (const row of commit.processes) {
      if (!processes.has(row.processId)) {
        processes.set(row.processId, row);
      }
    }
    for (const row of commit.streams) {
      if (!streams.has(row.streamId)) {
        streams.set(row.streamId, row);
      }
    }
    for (const row of commit.blocks) {
      if (blocks.has(row.blockId)) {
        throw new TypeError(`block ${row.blockId} is committed twice`);
      }
      blocks.set(row.blockId, row);
    }
    partitions.push(...commit.partitions);
  }
  return {
    processes: [...processes.values()].sort((a, b) => compareText(a.processId, b.processId)),
    streams: [...streams.values()].sort((a, b) => compareText(a.streamId, b.streamId)),
    blocks: [...blocks.values()].sort((a, b) => compareText(a.blockId, b.blockId)),
    partitions: partitions.sort((a, b) => compareText(a.partitionId, b.partitionId)),
  };
}

function compareText(a: string, b: string): number {
  if (a === b) {
    return 0;
  }
  return a < b ? -1 : 1;
}
