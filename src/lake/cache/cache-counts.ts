import { durationBucketsSeconds, type Metrics } from "../../runtime/metrics.js";

/** What a cache counts. */
export type CacheCounts = ReturnType<typeof createCacheCounts>;

/** Metrics of the cache of the lake. */
export function createCacheCounts(metrics: Metrics) {
  const lookups = metrics.counter("lake_cache_files_total", "Files that queries asked the cache of the lake for", [
    "result",
  ]);
  return {
    hits: lookups.labels("hit"),
    misses: lookups.labels("miss"),
    fetchedBytes: metrics.counter("lake_cache_fetched_bytes_total", "Bytes read from the object store for queries"),
    evictedBytes: metrics.counter(
      "lake_cache_evicted_bytes_total",
      "Bytes removed from the cache of the lake for others",
    ),
    mismatches: metrics.counter(
      "lake_cache_mismatches_total",
      "Objects of which an object cache gave other bytes than were written; they were read from the object store",
    ),
    bytes: metrics.gauge("lake_cache_bytes", "Bytes in the cache of the lake, and on their way there"),
    fetchSeconds: metrics.histogram(
      "lake_cache_fetch_seconds",
      "Time to fetch a file from the object store",
      durationBucketsSeconds,
    ),
  };
}
