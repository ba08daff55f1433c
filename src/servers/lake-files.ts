/** The objects of the lake as files for engines: where they are, or through a cache. Wiring only. */
import path from "node:path";
import { fileURLToPath } from "node:url";

import { openCachedFiles } from "../lake/cache/cached-files.js";
import { type LakeFiles, localFiles } from "../lake/cache/lake-files.js";
import type { ObjectStore } from "../lake/store/object-store.js";
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
  if (remote === null) {
    return { files: localFiles(store), root: fileURLToPath(store.uri) };
  }
  const directory = path.resolve(config.lakeCacheDir ?? path.join(config.dataDir, "lake-cache"));
  const files = await scope.start("cache of the lake", () =>
    openCachedFiles({ remote, directory, maxBytes: config.lakeCacheBytes, logger, metrics }),
  );
  return { files, root: directory };
}
