/**
 * A segment's catalogue rows on their way between threads. There is a block for each request and resource: to clone 256
 * objects takes 0.28 ms, and 0.04 as numbers and one text.
 */
import type { BlockRow, SegmentCommit, Signal, StreamRow } from "./catalogue-rows.js";

/** See the head of this file. */
export interface PackedCommit extends Pick<SegmentCommit, "processes" | "partitions"> {
  /** Id of each stream and of its process, one after the other without anything between. */
  readonly streamIds: string;
  /** Of each stream. */
  readonly signals: readonly Signal[];
  readonly audiences: readonly (string | null)[];
  /** Id of each block, one after the other without anything between. */
  readonly blockIds: string;
  /** Numbers of each block; see `blockAt`. */
  readonly numbers: Float64Array<ArrayBuffer>;
}

/** Where the numbers of a block are. Its times are 64 bits each of a BigInt64Array over the same memory. */
const blockAt = { stream: 0, rowCount: 1, payloadBytes: 2, timed: 3, begin: 4, end: 5, size: 6 } as const;

const idLength = 36;

/**
 * What {@link unpackCommit} turns back into an equal commit. A block has both its times or none, and the process, audience
 * and signal of its stream.
 * @throws RangeError when a block is of none of its streams
 */
export function packCommit({ processes, streams, blocks, partitions }: SegmentCommit): PackedCommit {
  const numbers = new Float64Array(blocks.length * blockAt.size);
  const times = new BigInt64Array(numbers.buffer);
  const streamAt = new Map(streams.map(({ streamId }, index) => [streamId, index]));
  let blockIds = "";
  blocks.forEach((block, index) => {
    const stream = streamAt.get(block.streamId);
    if (stream === undefined) {
      throw new RangeError(`block ${block.blockId} is of no stream of its segment`);
    }
    const at = index * blockAt.size;
    blockIds += block.blockId;
    numbers[at + blockAt.stream] = stream;
    numbers[at + blockAt.rowCount] = block.rowCount;
    numbers[at + blockAt.payloadBytes] = block.payloadBytes;
    if (block.beginTimeNs !== null && block.endTimeNs !== null) {
      numbers[at + blockAt.timed] = 1;
      times[at + blockAt.begin] = block.beginTimeNs;
      times[at + blockAt.end] = block.endTimeNs;
    }
  });
  return {
    processes,
    streamIds: streams.map(({ streamId, processId }) => streamId + processId).join(""),
    signals: streams.map(({ signal }) => signal),
    audiences: streams.map(({ audience }) => audience),
    blockIds,
    numbers,
    partitions,
  };
}

/** The commit again. */
export function unpackCommit(packed: PackedCommit): SegmentCommit {
  const { processes, numbers, partitions } = packed;
  const times = new BigInt64Array(numbers.buffer);
  const streams = packed.signals.map((signal, index): StreamRow => ({
    streamId: idAt(packed.streamIds, index * 2),
    processId: idAt(packed.streamIds, index * 2 + 1),
    audience: packed.audiences[index] ?? null,
    signal,
  }));
  const blocks: BlockRow[] = [];
  for (let at = 0, index = 0; at < numbers.length; at += blockAt.size, index++) {
    const stream = streams[numbers[at + blockAt.stream] ?? 0];
    if (stream === undefined) {
      throw new RangeError(`block ${index} is of no stream`);
    }
    const timed = numbers[at + blockAt.timed] === 1;
    blocks.push({
      blockId: idAt(packed.blockIds, index),
      streamId: stream.streamId,
      processId: stream.processId,
      audience: stream.audience,
      signal: stream.signal,
      beginTimeNs: timed ? (times[at + blockAt.begin] ?? null) : null,
      endTimeNs: timed ? (times[at + blockAt.end] ?? null) : null,
      rowCount: numbers[at + blockAt.rowCount] ?? 0,
      payloadBytes: numbers[at + blockAt.payloadBytes] ?? 0,
    });
  }
  return { processes, streams, blocks, partitions };
}

function idAt(ids: string, index: number): string {
  return ids.slice(index * idLength, (index + 1) * idLength);
}
