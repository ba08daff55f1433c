/**
 * A batch of requests becomes durable objects and a result for each request: what an encode thread does, and the
 * messages that it takes and gives.
 */
import { packCommit, type PackedCommit, unpackCommit } from "../lake/packed-commit.js";
import type { Compression } from "../lake/parquet/column-chunk.js";
import type { ObjectStore } from "../lake/store/object-store.js";
import { sortedRows } from "../lake/sorted-rows.js";
import { writeSegment } from "../lake/write-segment.js";
import type { EncodedBatch } from "./batcher.js";
import { InflatedSizes, type Underclaim } from "./claimed-bytes.js";
import { codeEncoding, codeFormat, codeSignal, type PendingRequest } from "./request.js";
import {
  createResults,
  eachRequest,
  type RequestBatch,
  requestCount,
  type ResultBatch,
  resultReader,
  writeRequests,
  writeResult,
} from "./request-words.js";
import { full, SegmentBuilder, type SegmentBuilderOptions } from "./segment.js";

/** One batch: bodies in shared memory, which stay in place until the answer. A request's source is its buffer. */
interface EncodeBatch extends Pick<RequestBatch, "words" | "audiences"> {
  readonly buffers: readonly SharedArrayBuffer[];
  /** Time of receipt: `insert_time` of every row, and of the objects' catalogue rows. */
  readonly receivedUnixNano: bigint;
  /** Blocks (UUID text) already committed, which are left out. */
  readonly excludedBlocks: readonly string[];
  /** Of large requests. */
  readonly large: boolean;
}

/** An encoded batch: every object in `commit.partitions` is durable, none is published yet. */
export interface EncodedObjects extends Pick<ResultBatch, "words" | "texts"> {
  /** Bytes of the bodies after decompression. */
  readonly inflatedBytes: number;
  readonly underclaims: readonly Underclaim[];
  /** Places of the requests that only a batch of large ones has room for. */
  readonly large: readonly number[];
  readonly commit: PackedCommit;
}

/** What encode threads offer. */
export interface EncodeApi {
  encode(batch: EncodeBatch): Promise<EncodedObjects>;
}

/** How batches are encoded. */
export interface EncodeOptions extends SegmentBuilderOptions {
  readonly compression: Compression;
  /** Bytes of bodies, inflated, beyond which a batch takes no further one: some claim to be smaller than they are. */
  readonly batchBytes: number;
}

/** Encodes batches one after the other; its memory lives as long as it does. */
export class BatchEncoder implements EncodeApi {
  readonly #store: ObjectStore;
  readonly #compression: Compression;
  readonly #batchBytes: number;
  readonly #builder: SegmentBuilder;

  constructor(store: ObjectStore, o: EncodeOptions) {
    this.#store = store;
    this.#compression = o.compression;
    this.#batchBytes = o.batchBytes;
    this.#builder = new SegmentBuilder(o);
  }

  /** Call it again only when it has answered. @throws ServiceError UNAVAILABLE when the store cannot be written */
  async encode(batch: EncodeBatch): Promise<EncodedObjects> {
    try {
      const decoded = this.#decode(batch);
      const commit = await writeSegment(this.#store, this.#builder.finish(), {
        insertTimeMs: Number(batch.receivedUnixNano / 1_000_000n),
        compression: this.#compression,
      });
      return { ...decoded, commit: packCommit(sortedRows([commit])) };
    } finally {
      this.#builder.end();
    }
  }

  #decode(batch: EncodeBatch): Omit<EncodedObjects, "commit"> {
    const views = batch.buffers.map((buffer) => new Uint8Array(buffer));
    const results = createResults(requestCount(batch));
    let inflatedBytes = 0;
    // Of stored requests and others.
    let spentBytes = 0;
    const sizes = new InflatedSizes();
    const large: number[] = [];
    let index = 0;
    this.#builder.begin(batch.receivedUnixNano, new Set(batch.excludedBlocks), batch.large);
    eachRequest(batch, (source, offset, length, code, audience) => {
      const [buffer, view] = [batch.buffers[source], views[source]];
      if (buffer === undefined || view === undefined) {
        throw new RangeError(`a batch has no buffer ${source}`);
      }
      const outcome =
        spentBytes > this.#batchBytes
          ? full
          : this.#builder.add(view.subarray(offset, offset + length), {
              signal: codeSignal(code),
              format: codeFormat(code),
              encoding: codeEncoding(code),
              audience,
            });
      if (outcome !== full) {
        const bytes = this.#builder.inflatedBytes;
        spentBytes += bytes;
        inflatedBytes += outcome.kind === "stored" ? bytes : 0;
        sizes.add({ buffer, offset, length, code }, audience, bytes);
      }
      if (outcome.kind === "large") {
        large.push(index);
      } else {
        writeResult(results, index, index, outcome);
      }
      index++;
    });
    return { words: results.words, texts: results.texts, inflatedBytes, underclaims: sizes.underclaims(), large };
  }
}

/** The message for a batch. */
export function toEncodeBatch(
  requests: readonly PendingRequest[],
  excludedBlocks: ReadonlySet<string>,
  receivedUnixNano: bigint,
  large = false,
): EncodeBatch {
  const buffers: SharedArrayBuffer[] = [];
  const { words, audiences } = writeRequests(requests, ({ buffer }) => bufferIndex(buffers, buffer));
  return { buffers, words, audiences, receivedUnixNano, excludedBlocks: [...excludedBlocks], large };
}

/** One buffer per acceptor, so a scan will do. */
function bufferIndex(buffers: SharedArrayBuffer[], buffer: SharedArrayBuffer): number {
  const known = buffers.indexOf(buffer);
  return known === -1 ? buffers.push(buffer) - 1 : known;
}

/** What the batcher makes of an answer. */
export function toEncodedBatch(objects: EncodedObjects): EncodedBatch {
  const large = new Set(objects.large);
  const read = resultReader(objects);
  return {
    commit: unpackCommit(objects.commit),
    underclaims: objects.underclaims,
    result: (index) => (large.has(index) ? { kind: "large" } : read(index)),
  };
}
