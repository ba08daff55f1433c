/** Where the servers of a trial keep objects: a directory, or a bucket of a real S3 server behind an object cache. */
import { pathToFileURL } from "node:url";

import { freePort } from "../helpers/free-port.js";
import { s3Environment, startS3Server } from "../helpers/lake/s3-server.js";
import { cacheKey } from "../helpers/object-cache/cache-world.js";
import type { Role } from "./cluster.js";

export interface TrialLake {
  /** How many object caches stand before it. */
  readonly objectCaches: number;
  /** What a server of a role is told of it. */
  environmentOf(role: Role): Readonly<Record<string, string>>;
  /** The server of objects, which can be killed and started again; null: files have none. */
  readonly server: { kill(): Promise<void>; start(): Promise<void> } | null;
  stop(): Promise<void>;
}

/** A lake of files. */
export function directoryLake(directory: string): TrialLake {
  const environment = { SVC_OBJECT_STORE_URI: pathToFileURL(directory).href };
  return { objectCaches: 0, environmentOf: () => environment, server: null, stop: () => Promise.resolve() };
}

/** A lake in a bucket of versitygw, and one object cache. @param program its file */
export async function bucketLake(program: string): Promise<TrialLake> {
  // Its clients know its address, so each process of it takes the same.
  const cache = `127.0.0.1:${await freePort()}`;
  const server = await startS3Server(program);
  const bucket = { ...s3Environment, SVC_OBJECT_STORE_URI: "s3://lake/telemetry", SVC_S3_ENDPOINT: server.endpoint };
  const environments: Readonly<Record<Role, Readonly<Record<string, string>>>> = {
    ingestion: bucket,
    analytics: { ...bucket, SVC_OBJECT_CACHE_URI: `http://${cache}`, SVC_OBJECT_CACHE_API_KEY: cacheKey },
    maintenance: bucket,
    "object-cache": {
      ...bucket,
      SVC_OBJECT_CACHE_LISTEN: cache,
      SVC_API_KEYS: JSON.stringify([{ name: "analytics", key: cacheKey }]),
    },
  };
  return { objectCaches: 1, environmentOf: (role) => environments[role], server, stop: () => server.stop() };
}
