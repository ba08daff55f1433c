/** The encode pool behind the interface that the batcher knows. */
import type { Encoder } from "../ingest/batcher.js";
import { type EncodeApi, type EncodeOptions, toEncodeBatch, toEncodedBatch } from "../ingest/encode-batch.js";
import type { Clock } from "../runtime/clock.js";
import type { Component } from "../runtime/lifecycle.js";
import type { Logger } from "../runtime/log/log.js";
import type { Metrics } from "../runtime/metrics.js";
import { TaskPool } from "../runtime/threads/task-pool.js";

/** How batches are encoded, and where the objects go. */
interface EncodeSettings extends EncodeOptions {
  readonly objectStoreUri: string;
}

/** What encode threads are opened with, and offer. */
export interface EncodeThread {
  readonly settings: EncodeSettings;
  readonly methods: EncodeApi;
}

/** Options of {@link startEncodePool}. */
interface EncodePoolOptions extends EncodeSettings {
  readonly threads: number;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
}

/** The encode pool as a component. */
type EncodePool = Encoder & Component;

/**
 * Starts the threads that turn batches into objects.
 * @throws ServiceError UNAVAILABLE when a thread cannot be started, for example without an object store.
 */
export async function startEncodePool(o: EncodePoolOptions): Promise<EncodePool> {
  const { objectStoreUri, maxInflatedBytes, maxDepth, compression, batchBytes } = o;
  const pool = await TaskPool.create<EncodeThread>({
    name: "encode",
    entry: new URL("./encode-thread.js", import.meta.url),
    threads: o.threads,
    settings: { objectStoreUri, maxInflatedBytes, maxDepth, compression, batchBytes },
    logger: o.logger,
    metrics: o.metrics,
  });
  const inflated = o.metrics.counter("ingestion_inflated_bytes_total", "Bytes of request bodies after decompression");
  return {
    name: "encode-pool",
    concurrency: o.threads,
    get healthy() {
      return pool.healthy;
    },
    async encode(requests, excludedBlocks, large) {
      const batch = toEncodeBatch(requests, excludedBlocks, o.clock.nowUnixNano(), large);
      const objects = await pool.run("encode", batch, { transfer: [batch.words.buffer] });
      inflated.inc(objects.inflatedBytes);
      return toEncodedBatch(objects);
    },
    stop: () => pool.stop(),
  };
}
