/**
 * Objects behind a network, read through an object cache as long as that is the faster way. A read never fails, and never
 * differs, because of the cache: what it does not give in time, or breaks off, comes from the store, from that byte on.
 */
import { Breaker } from "../../runtime/breaker.js";
import { abortReason } from "../../runtime/errors.js";
import type { Component } from "../../runtime/lifecycle.js";
import type { Logger } from "../../runtime/log/log.js";
import type { Metrics } from "../../runtime/metrics.js";
import type { ByteRange, OnBytes, RemoteObjects } from "../store/object-store.js";
import { type CacheClient, CacheFailure } from "./cache-client.js";

/** What reads are made of. */
interface CachedReadsOptions {
  readonly remote: RemoteObjects;
  /** Closed at the end. */
  readonly client: CacheClient;
  readonly monotonicMs: () => number;
  readonly logger: Logger;
  readonly metrics: Metrics;
}

/** Everything but reads is the store's. */
export interface CachedReads extends RemoteObjects, Component {}

const failuresInARow = 5;
const pauseMs = 10_000;

/** Puts a cache before a store. */
export function createCachedReads(o: CachedReadsOptions): CachedReads {
  const { remote, client, logger, metrics } = o;
  const reads = metrics.counter(
    "object_cache_client_reads_total",
    "Reads that the object cache was asked for, by what became of them; skipped: it was not asked, having failed before",
    ["result"],
  );
  const bytesRead = metrics.counter("object_cache_client_bytes_total", "Bytes that came from the object cache");
  const shut = metrics.gauge("object_cache_client_open", "1 while the object cache is not asked, having failed before");
  shut.set(0);
  let lastFailure: unknown;
  const breaker = new Breaker({
    failures: failuresInARow,
    pauseMs,
    monotonicMs: o.monotonicMs,
    onChange: (open) => {
      shut.set(open ? 1 : 0);
      if (open) {
        logger.warn(
          { err: lastFailure },
          "the object cache is slow, broken, or refuses: the object store is read without it for a while",
        );
      } else {
        logger.info("the object cache answers again");
      }
    },
  });

  const read = async (
    path: string,
    range: ByteRange | null,
    onBytes: OnBytes,
    signal: AbortSignal,
    size?: number,
  ): Promise<void> => {
    const attempt = range?.length === 0 ? null : breaker.enter();
    if (attempt === null) {
      reads.inc({ result: "skipped" });
      await remote.read(path, range, onBytes, signal, size);
      return;
    }
    const start = range?.start ?? 0;
    let at = start;
    try {
      const take: OnBytes = async (bytes, place) => {
        await onBytes(bytes, place);
        at = place + bytes.length;
        bytesRead.inc(bytes.length);
      };
      await client.read(path, range, take, signal, size);
      attempt.succeeded();
      reads.inc({ result: "whole" });
      return;
    } catch (error) {
      if (signal.aborted || !(error instanceof CacheFailure)) {
        // It was not the cache that ended it.
        attempt.left();
        throw signal.aborted ? abortReason(signal) : error;
      }
      if (error.declined) {
        attempt.succeeded();
      } else {
        lastFailure = error;
        attempt.failed();
        logger.debug({ err: error }, "an object is read from the object store, because the object cache failed");
      }
      reads.inc({ result: error.declined ? "declined" : at === start ? "failed" : "resumed" });
    }
    const end = range === null ? size : start + range.length;
    if (at === start) {
      await remote.read(path, range, onBytes, signal, size);
    } else if (end === undefined) {
      await remote.read(path, null, behind(at, onBytes), signal);
    } else if (at < end) {
      await remote.read(path, { start: at, length: end - at }, onBytes, signal, size);
    }
  };

  return {
    name: "object cache client",
    read,
    putFile: (path, file) => remote.putFile(path, file),
    verify: () => remote.verify(),
    stop: () => client.close(),
  };
}

/** Leaves out what lies before a byte. */
function behind(first: number, onBytes: OnBytes): OnBytes {
  return async (bytes, at) => {
    const rest = bytes.subarray(Math.max(0, first - at));
    if (rest.length > 0) {
      await onBytes(rest, at + bytes.length - rest.length);
    }
  };
}
