/** Thread entry of the encode pool: one task turns one batch of requests into Parquet objects. */
import { BatchEncoder } from "../ingest/encode-batch.js";
import { openObjectStore } from "../lake/store/open-store.js";
import { serveTasks } from "../runtime/threads/task-worker.js";
import type { EncodeThread } from "./encode-client.js";

export default await serveTasks<EncodeThread>(async (settings) => {
  const encoder = new BatchEncoder(await openObjectStore(settings.objectStoreUri), settings);
  return { encode: (batch) => encoder.encode(batch) };
});
