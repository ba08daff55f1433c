/** The encode pool behind its interface: batches out as messages, encoded batches back. */

import type { EncodedBatch, Encoder } from "../ingest/batcher.js";
import type { PendingRequest } from "../ingest/request.js";
import type { Clock } from "../runtime/clock.js";
import type { Component } from "../runtime/lifecycle.js";
import type { Logger } from "../runtime/log/log.js";
import type { Metrics } from "../runtime/metrics.js";
import { TaskPool } from "../runtime/threads/task-pool.js";
import {
  type EncodeRequest,
  type EncodeResponse,
  type EncodeWorkerData,
  OUTCOME_WORDS,
  REQUEST_WORDS,
  resultOf,
} from "./encode-messages.js";

/** Options of {@link startEncodePool}. */
export interface EncodePoolOptions extends EncodeWorkerData {
  readonly threads: number;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
}

/** The encode pool as a component. */
export type EncodePool = Encoder & Component;

/**
 * Starts the threads that turn batches into objects.
 * @throws ServiceError UNAVAILABLE when a thread cannot be started, for example without an object store.
 */
export async function startEncodePool(o: EncodePoolOptions): Promise<EncodePool> {
  const workerData: EncodeWorkerData = {
    objectStoreUri: o.objectStoreUri,
    maxInflatedBytes: o.maxInflatedBytes,
    maxDepth: o.maxDepth,
    compression: o.compression,
  };
  const pool = await TaskPool.create<EncodeRequest, EncodeResponse>({
    name: "encode",
    entry: new URL("./encode-thread.js", import.meta.url),
    threads: o.threads,
    workerData,
    logger: o.logger,
    metrics: o.metrics,
  });
  const inflated = o.metrics.counter(
    "ingestion_inflated_bytes_total",
    "Bytes of request bodies after decompression",
  );
  return {
    name: "encode-pool",
    concurrency: o.threads,
    get healthy() {
      return pool.healthy;
    },
    async encode(requests, excludedBlocks) {
      const message = toMessage(requests, excludedBlocks, o.clock.nowUnixNano());
      const response = await pool.run(message, {
        transfer: [message.requests.buffer as ArrayBuffer],
      });
      inflated.inc(inflatedBytes(response));
      return toEncodedBatch(response);
    },
    stop: () => pool.stop(),
  };
}

function toMessage(
  requests: readonly PendingRequest[],
  excludedBlocks: ReadonlySet<string>,
  receivedUnixNano: bigint,
): EncodeRequest {
  const buffers: SharedArrayBuffer[] = [];
  const audiences: string[] = [];
  const words = new Float64Array(requests.length * REQUEST_WORDS);
  const audienceIndex = new Map<string, number>();
  let lastAudience: string | null = null;
  let lastIndex = -1;
  let at = 0;
  for (const { buffer, offset, length, code, audience } of requests) {
    words[at] = bufferIndex(buffers, buffer);
    words[at + 1] = offset;
    words[at + 2] = length;
    words[at + 3] = code;
    if (audience !== lastAudience) {
      lastAudience = audience;
      lastIndex = audience === null ? -1 : indexOf(audience, audiences, audienceIndex);
    }
    words[at + 4] = lastIndex;
    at += REQUEST_WORDS;
  }
  return {
    buffers,
    audiences,
    requests: words,
    receivedUnixNano,
    excludedBlocks: [...excludedBlocks],
  };
}

/** One buffer per acceptor, so a scan will do. */
function bufferIndex(buffers: SharedArrayBuffer[], buffer: SharedArrayBuffer): number {
  const known = buffers.indexOf(buffer);
  return known === -1 ? buffers.push(buffer) - 1 : known;
}

function indexOf(audience: string, audiences: string[], known: Map<string, number>): number {
  const index = known.get(audience);
  if (index !== undefined) return index;
  known.set(audience, audiences.length);
  return audiences.push(audience) - 1;
}

function toEncodedBatch(response: EncodeResponse): EncodedBatch {
  const texts = new Map(response.texts.map(({ index, text }) => [index, text]));
  return {
    commit: response.commit,
    result: (index) => resultOf(response, index, texts.get(index) ?? null),
  };
}

function inflatedBytes({ outcomes }: EncodeResponse): number {
  let total = 0;
  for (let at = 4; at < outcomes.length; at += OUTCOME_WORDS) total += outcomes[at] ?? 0;
  return total;
}
