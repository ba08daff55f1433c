/** The objects of the lake as files for engines: where they are, or through a cache. Wiring only. */
import path from "node:path";
import { fileURLToPath } from "node:url";

import { openCachedFiles } from "../lake/cache/cached-files.js";
import { type LakeFiles, localFiles } from "../lake/cache/lake-files.js";
import { createCacheClient } from "../lake/cache-client/cache-client.js";
import { createCachedReads } from "../lake/cache-client/cached-reads.js";
import type { ObjectStore } from "../lake/store/object-store.js";
import { systemClock } from "../runtime/clock.js";
import type { Config } from "../runtime/config/parse.js";
import type { Scope } from "../runtime/lifecycle.js";
import type { Logger } from "../runtime/log/log.js";
import type { Metrics } from "../runtime/metrics.js";

/** Files of a store, and the directory, absolute, that all of them lie below. */
export async function startLakeFiles(
  scope: Scope,
  store: ObjectStore,
  { config, logger, metrics }: { config: Config<"analytics">; logger: Logger; metrics: Metrics },
): Promise<{ readonly files: LakeFiles; readonly root: string }> {
  const { remote } = store;
  const { objectCacheUri, objectCacheApiKey } = config;
  if (remote === null) {
    if (objectCacheUri !== null) {
      logger.warn("SVC_OBJECT_CACHE_URI is not used: the object store is a directory that this machine sees");
    }
    return { files: localFiles(store), root: fileURLToPath(store.uri) };
  }
  const directory = path.resolve(config.lakeCacheDir ?? path.join(config.dataDir, "lake-cache"));
  const reads =
    objectCacheUri === null || objectCacheApiKey === null
      ? remote
      : await scope.start("object cache client", async () => {
          const client = await createCacheClient(objectCacheUri, objectCacheApiKey);
          return createCachedReads({ remote, client, monotonicMs: () => systemClock.monotonicMs(), logger, metrics });
        });
  const files = await scope.start("cache of the lake", () =>
    openCachedFiles({
      remote: reads,
      ...(reads === remote ? {} : { origin: remote }),
      directory,
      maxBytes: config.lakeCacheBytes,
      logger,
      metrics,
    }),
  );
  return { files, root: directory };
}
