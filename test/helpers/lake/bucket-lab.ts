/** Merging in a bucket without a server around it, and its objects as a query reads them: through a cache on disk. */
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";

import { type CachedFiles, openCachedFiles } from "../../../src/lake/cache/cached-files.js";
import type { MergeLimits } from "../../../src/lake/merge/merge.js";
import type { ObjectStore, RemoteObjects } from "../../../src/lake/store/object-store.js";
import { withEndpoint } from "../../../src/lake/store/s3-address.js";
import { openS3Store } from "../../../src/lake/store/s3-store.js";
import { createMetrics } from "../../../src/runtime/metrics.js";
import { createTappedLogger } from "../cleartext/cleartext-tap.js";
import { type MergeLab, startMergeLab } from "./lake-merge.js";
import { addAged, type AgedPartition } from "./lake-tasks.js";

export interface BucketLab extends MergeLab {
  readonly store: ObjectStore;
  readonly remote: RemoteObjects;
  readonly files: CachedFiles;
  /** Of the cache, and of what is merged. */
  readonly directory: string;
  /** Adds an object to the bucket. @returns its path */
  readonly add: (partition: AgedPartition) => Promise<string>;
}

/** An empty lake below a prefix of the bucket `lake`, and its database; `limits` narrow what a merge may do. */
export async function startBucketLab(
  endpoint: string,
  prefix: string,
  limits: Partial<MergeLimits> = {},
): Promise<BucketLab> {
  const directory = await mkdtemp(path.join(tmpdir(), "telemetry-test-bucket-"));
  const store = await openS3Store(withEndpoint(`s3://lake/${prefix}`, endpoint));
  const { remote } = store;
  if (remote === null) {
    throw new TypeError("a store without a network");
  }
  const local = await startMergeLab(limits);
  const files = await openCachedFiles({
    remote,
    directory: path.join(directory, "cache"),
    maxBytes: 1 << 30,
    logger: createTappedLogger(),
    metrics: createMetrics(),
  });
  // Objects are made as files; the store is the bucket.
  const where = { store, root: path.join(directory, "work") };
  return {
    ...local,
    context: { ...local.context, ...where },
    limited: (other) => ({ ...local.limited(other), ...where }),
    store,
    remote,
    files,
    directory,
    async add(partition) {
      const { path: object } = await addAged(local, partition);
      await store.put(object, [await readFile(path.join(local.lake.directory, object))]);
      return object;
    },
    async stop() {
      await files.stop();
      await local.stop();
      await rm(directory, { recursive: true, force: true });
    },
  };
}
