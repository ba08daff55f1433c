/**
 * The database-backed key store as an Authenticator: bearer keys against the shared-memory cache, misses against the
 * key-lookup actor. One owner per process and table (`createKeyAuthenticator`, on the thread that has the database),
 * any number of readers on other threads (`openKeyAuthenticator`), all equal on the hot path.
 */
import { MessageChannel, type MessagePort } from "node:worker_threads";
import type { Sql } from "../../db/sql.js";
import type { Logger } from "../../runtime/log/log.js";
import type { Metrics } from "../../runtime/metrics.js";
import { authenticationFailed, type Authenticator, type AuthOutcome, invalidToken } from "../authenticator.js";
import { DeadlineSql } from "../../db/deadline-sql.js";
import { bearerTokenStart } from "../bearer.js";
import { hashKeyBinary, isWellFormedKey, keyLength } from "../key-string.js";
import { type KeyLookupClient, RemoteKeyLookup, serveKeyLookups } from "./key-lookup-port.js";
import { KeyLookup } from "./key-lookup.js";
import { KeyUsage } from "./key-usage.js";
import type { KeyTable } from "./keys.js";
import { createSharedClock, type SharedClock } from "../shared-clock.js";
import {
  createSharedKeyCache,
  openSharedKeyCache,
  type SharedKeyCacheHandle,
  type SharedKeyCacheReader,
  SharedKeyCacheWriter,
} from "./shared-key-cache.js";

/** Options of the key store. */
export interface KeyAuthenticatorOptions {
  /** Pool for look-ups and `last_used_at`; two connections are enough. Not closed here. */
  readonly sql: Sql;
  /** Opens another pool like `sql`, for when its connections hang; see deadline-sql.ts. */
  readonly reopen?: () => Sql;
  readonly table: KeyTable;
  /** `SVC_API_KEY_CACHE_SIZE`. */
  readonly cacheSize: number;
  /** `SVC_AUTH_CACHE_TTL_SECONDS`, in milliseconds. */
  readonly cacheTtlMs: number;
  /** `SVC_API_KEY_UNKNOWN_CACHE_SIZE`. */
  readonly unknownCacheSize: number;
  /** `SVC_API_KEY_UNKNOWN_CACHE_TTL_SECONDS`, in milliseconds. */
  readonly unknownCacheTtlMs: number;
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** Tests move time with it; every thread of one cache must use the same. */
  readonly clock?: SharedClock;
  /** A statement that takes longer counts as a database error. Default 5000 ms, at most the TTL. */
  readonly statementTimeoutMs?: number;
}

/** What another thread needs; structured-clonable when `port` is in the transfer list. */
export interface KeyAuthenticatorHandle {
  readonly cache: SharedKeyCacheHandle;
  readonly port: MessagePort;
}

/** The owner's side of the key store. */
export interface KeyAuthenticator extends Authenticator {
  /** False when the key-lookup actor keeps failing; `/health` says so. */
  readonly healthy: boolean;
  /** A handle for one more thread: `worker.postMessage(handle, [handle.port])`, or in workerData. */
  share(): KeyAuthenticatorHandle;
  /** Write pending `last_used_at` values now rather than at the end of the minute. */
  flushUsage(): Promise<void>;
}

// The last quarter of its life, but never more than 15 s, is when a used entry is refreshed.
const refreshWindow = (ttlMs: number): number => Math.min(ttlMs / 4, 15_000);

/** Make the key store of this process for one key table. Stopping it flushes `last_used_at`. */
export function createKeyAuthenticator(o: KeyAuthenticatorOptions): KeyAuthenticator {
  const clock = o.clock ?? createSharedClock();
  const principalKind = o.table === "ingestion_api_keys" ? "ingestion_key" : "analytics_key";
  const handle = createSharedKeyCache({
    maxLive: o.cacheSize,
    maxUnknown: o.unknownCacheSize,
    principalKind,
    refreshWindowMs: refreshWindow(o.cacheTtlMs),
  });
  const timeoutMs = o.statementTimeoutMs ?? 5000;
  const sql = new DeadlineSql({
    sql: o.sql,
    reopen: o.reopen,
    timeoutMs: o.cacheTtlMs > 0 ? Math.min(timeoutMs, o.cacheTtlMs) : timeoutMs,
  });
  const cache = new SharedKeyCacheWriter(handle, (use) => usage.add(use));
  const usage = new KeyUsage({
    sql,
    table: o.table,
    takeUses: () => cache.takeUses(),
    clock,
    wallMs: () => Date.now(),
    logger: o.logger,
  });
  const lookups = new KeyLookup({
    sql,
    table: o.table,
    cache,
    principalKind,
    ttlMs: o.cacheTtlMs,
    unknownTtlMs: o.unknownCacheTtlMs,
    clock,
    logger: o.logger,
    metrics: o.metrics,
  });
  const ports: MessagePort[] = [];
  const reader = openSharedKeyCache(handle, {
    clock,
    requestRefresh: (hash) => lookups.refresh(hash),
  });
  return {
    ...answersFrom(reader, lookups),
    name: `key-authenticator ${o.table}`,
    get healthy() {
      return lookups.healthy;
    },
    share() {
      const { port1, port2 } = new MessageChannel();
      serveKeyLookups(port1, lookups);
      ports.push(port1);
      return { cache: handle, port: port2 };
    },
    flushUsage: () => usage.flush(),
    async stop() {
      await lookups.stop();
      await usage.stop();
      await sql.stop();
      // Last, so that answers on their way still leave.
      for (const port of ports) {
        port.close();
      }
    },
  };
}

/** Open the key store on another thread. Stopping it closes its port, not the store. */
export function openKeyAuthenticator(handle: KeyAuthenticatorHandle): Authenticator {
  const lookups = new RemoteKeyLookup(handle.port);
  const reader = openSharedKeyCache(handle.cache, {
    clock: createSharedClock(),
    requestRefresh: (hash) => lookups.refresh(hash),
  });
  return {
    ...answersFrom(reader, lookups),
    name: "key-authenticator (shared)",
    stop() {
      lookups.close();
      return Promise.resolve();
    },
  };
}

// A presented key is compared by its SHA-256 alone. There is deliberately no shortcut by the text of the last header
// seen: it would keep cleartext keys in memory and compare them in variable time, to save the 0.5 us of the hash.
function answersFrom(
  cache: SharedKeyCacheReader,
  lookups: KeyLookupClient,
): Pick<Authenticator, "authenticateNow" | "authenticate"> {
  // Live keys are recalled before their checksum is computed: only a key that the database confirmed
  // can be recalled. Whatever is not recalled must have a good checksum to get any further.
  const fromMemory = (authorization: string): AuthOutcome | string => {
    const start = bearerTokenStart(authorization);
    if (start < 0) {
      return authenticationFailed;
    }
    if (authorization.length - start !== keyLength) {
      return invalidToken;
    }
    const hash = hashKeyBinary(authorization.slice(start));
    const recalled = cache.recall(hash);
    if (recalled !== null) {
      return recalled;
    }
    if (!isWellFormedKey(authorization, start)) {
      return invalidToken;
    }
    return cache.lookup(hash) ?? hash;
  };
  return {
    authenticateNow(authorization) {
      const outcome = fromMemory(authorization);
      return typeof outcome === "string" ? null : outcome;
    },
    authenticate(authorization) {
      const outcome = fromMemory(authorization);
      return typeof outcome === "string" ? lookups.lookup(outcome) : Promise.resolve(outcome);
    },
  };
}
