import { durationBucketsSeconds, type Metrics } from "../runtime/metrics.js";

/** What the object cache counts. */
export type ObjectCacheCounts = ReturnType<typeof createObjectCacheCounts>;

/** Metrics of the object cache. */
export function createObjectCacheCounts(metrics: Metrics) {
  const blocks = metrics.counter(
    "object_cache_blocks_total",
    "Blocks that were asked for, by where they came from; flight: somebody else had asked for it",
    ["from"],
  );
  const bytes = metrics.gauge("object_cache_bytes", "Bytes kept", ["tier"]);
  const evicted = metrics.counter("object_cache_evicted_bytes_total", "Bytes removed for others", ["tier"]);
  return {
    fromMemory: blocks.labels("memory"),
    fromDisk: blocks.labels("disk"),
    fromOrigin: blocks.labels("origin"),
    joined: blocks.labels("flight"),
    memoryBytes: bytes.labels("memory"),
    diskBytes: bytes.labels("disk"),
    evictedMemory: evicted.labels("memory"),
    evictedDisk: evicted.labels("disk"),
    objects: metrics.gauge("object_cache_objects", "Objects of which something is known"),
    damagedBlocks: metrics.counter("object_cache_damaged_blocks_total", "Blocks on the disk that were not as written"),
    unwrittenBlocks: metrics.counter(
      "object_cache_unwritten_blocks_total",
      "Blocks that did not get onto the disk, because it was too slow, full or broken",
    ),
    originRequests: metrics.counter("object_cache_origin_requests_total", "Requests to the object store", ["kind"]),
    originBytes: metrics.counter("object_cache_origin_bytes_total", "Bytes read from the object store"),
    originFailures: metrics.counter("object_cache_origin_failures_total", "Requests to the object store that failed"),
    originSeconds: metrics.histogram(
      "object_cache_origin_seconds",
      "Time of a read from the object store",
      durationBucketsSeconds,
    ),
    gone: metrics.counter("object_cache_gone_objects_total", "Objects that left, by why", ["why"]),
    prefetches: metrics.counter("object_cache_prefetches_total", "Objects to fetch ahead, by what became of them", [
      "result",
    ]),
  };
}
