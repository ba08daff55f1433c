/** Wires the object cache: keyring, tiers, listener. It has no database, and only reads the object store. */
import { mkdir } from "node:fs/promises";
import path from "node:path";

import { createKeyring } from "../auth/keyring.js";
import { defaultCacheBytes } from "../lake/cache/default-cache-bytes.js";
import { openObjectStore } from "../lake/store/open-store.js";
import type { FillPoint } from "../object-cache/blocks.js";
import { ObjectCache } from "../object-cache/object-cache.js";
import { createObjectCacheCounts } from "../object-cache/object-cache-counts.js";
import { originOf } from "../object-cache/origin.js";
import { PrefetchQueue } from "../object-cache/prefetch.js";
import { answering, exposed, type HealthProbes } from "../routes/http/health.js";
import { ObjectCacheFront } from "../routes/object-cache/front.js";
import { listenObjectCache } from "../routes/object-cache/listener.js";
import { systemClock } from "../runtime/clock.js";
import { formatListenAddress } from "../runtime/config/kinds.js";
import type { Config } from "../runtime/config/parse.js";
import { acquireDirectoryLock, directorySecret } from "../runtime/directory-lock.js";
import { ServiceError } from "../runtime/errors.js";
import { type Component, Scope } from "../runtime/lifecycle.js";
import type { Logger } from "../runtime/log/log.js";
import type { Metrics } from "../runtime/metrics.js";
import { Periodic } from "../runtime/periodic.js";
import { objectStoreUriOf } from "./stores.js";

/** What the object cache needs beside its configuration. */
interface ObjectCacheServerOptions {
  readonly config: Config<"object-cache">;
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** Is told of each step of a fill, and may end the process there. */
  readonly at?: (point: FillPoint) => Promise<void> | void;
}

/** A running object cache. */
interface ObjectCacheServer extends Component {
  readonly address: { readonly host: string; readonly port: number };
}

const shortKey = 16;

/**
 * Starts the object cache and waits until it listens.
 * @throws ServiceError NOT_CONFIGURED without keys; UNAVAILABLE when its directory or its address cannot be used; CONFLICT
 *   when another process uses the directory
 */
export async function startObjectCacheServer(o: ObjectCacheServerOptions): Promise<ObjectCacheServer> {
  const { config, logger, metrics } = o;
  const { apiKeys } = config;
  if (apiKeys === null) {
    throw new ServiceError("NOT_CONFIGURED", `no caller has a key: set SVC_API_KEYS='[{"name": "...", "key": "..."}]'`);
  }
  for (const { name } of apiKeys.filter(({ key }) => key.length < shortKey)) {
    logger.warn({ holder: name }, `a key of SVC_API_KEYS has less than ${shortKey} characters and could be guessed`);
  }
  const scope = new Scope("object cache", logger);
  return scope.orStop(async () => {
    const store = await openObjectStore(objectStoreUriOf(config), { make: false });
    const counts = createObjectCacheCounts(metrics);
    const disk = await openDirectory(scope, config);
    const cache = await scope.start("tiers", async () => {
      const opened = await ObjectCache.open({
        origin: originOf(store),
        memoryBytes: config.objectCacheMemoryBytes,
        disk,
        ttlMs: config.objectCacheTtlSeconds * 1000,
        monotonicMs: () => systemClock.monotonicMs(),
        counts,
        logger,
        ...(o.at === undefined ? {} : { at: o.at }),
      }).catch((error: unknown) => {
        throw directoryFailure(error);
      });
      return Object.assign(opened, { name: "tiers" });
    });
    const { diskBytes: bytes, objects } = cache;
    logger.info({ directory: disk?.directory, maxBytes: disk?.maxBytes, bytes, objects }, "blocks of earlier are here");
    scope.defer(
      "shown sizes",
      metrics.onCollect(() => {
        counts.memoryBytes.set(cache.memoryBytes);
        counts.diskBytes.set(cache.diskBytes);
        counts.objects.set(cache.objects);
      }),
    );
    startSweep(scope, cache, config.objectCacheTtlSeconds * 1000);
    const prefetch = new PrefetchQueue(cache, counts, logger);
    const probes: HealthProbes = {
      health: () => null,
      ready: async () => {
        await answering("object store", cache.probe());
        return null;
      },
      ...exposed(metrics),
    };
    const front = new ObjectCacheFront({
      cache,
      prefetch,
      keyring: createKeyring(apiKeys),
      prefixes: config.objectCachePrefix,
      logger,
      metrics,
    });
    const listener = await scope.start("listener", () =>
      listenObjectCache({
        ...config.objectCacheListen,
        driver: config.httpDriver,
        maxConnections: config.httpMaxConnections,
        front,
        probes,
        logger,
      }),
    );
    scope.defer("prefetch", () => {
      prefetch.stop();
    });
    const url = `http://${formatListenAddress(listener.address)}`;
    logger.info({ address: url, callers: apiKeys.length }, `object cache on ${url}`);
    return { name: "object cache", address: listener.address, stop: () => scope.stop() };
  });
}

/** Takes the directory for this process; null when nothing is to be kept on a disk. */
async function openDirectory(
  scope: Scope,
  config: Config<"object-cache">,
): Promise<{ readonly directory: string; readonly maxBytes: number } | null> {
  if (config.objectCacheDiskBytes === 0) {
    return null;
  }
  const directory = path.resolve(config.objectCacheDir ?? path.join(config.dataDir, "object-cache"));
  try {
    await mkdir(directory, { recursive: true, mode: 0o700 });
    const lock = await acquireDirectoryLock({
      directory,
      secret: await directorySecret(directory),
      what: "object cache in",
      remedy: "set SVC_OBJECT_CACHE_DIR to a directory of its own for this one",
    });
    scope.defer("lock of the directory", () => lock.release());
    return {
      directory: path.join(directory, "blocks"),
      maxBytes: config.objectCacheDiskBytes ?? (await defaultCacheBytes(directory)),
    };
  } catch (error) {
    throw directoryFailure(error);
  }
}

function directoryFailure(cause: unknown): ServiceError {
  return cause instanceof ServiceError
    ? cause
    : new ServiceError("UNAVAILABLE", "the directory of the object cache cannot be used (SVC_OBJECT_CACHE_DIR)", {
        cause,
      });
}

/** Often enough that what is past its time does not stay for long. */
function startSweep(scope: Scope, cache: ObjectCache, ttlMs: number): void {
  const sweeps = new Periodic(() => Promise.resolve(cache.sweep()), Math.min(60_000, Math.max(250, ttlMs / 20)));
  scope.defer("sweep", () => sweeps.stop());
}
