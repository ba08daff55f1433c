/** The ingestion server with what it needs when nobody else runs it: a database and a store. Wiring only. */

import { resolve } from "node:path";

import { startEmbeddedPostgres } from "../db/embedded/embedded.js";
import type { Scope } from "../runtime/lifecycle.js";
import { type IngestionServer, type IngestionServerOptions, startIngestionServer } from "./ingestion.js";
import { objectStoreUriOf } from "./stores.js";

/** As for the ingestion server; where data lies follows from the configuration. */
type IngestionProcessOptions = Omit<IngestionServerOptions, "connectionString" | "objectStoreUri">;

/**
 * Starts the ingestion server in `scope`, after an embedded Postgres when no database is configured.
 * @throws ServiceError as `startIngestionServer` and `startEmbeddedPostgres` do.
 */
export async function startIngestionProcess(scope: Scope, o: IngestionProcessOptions): Promise<IngestionServer> {
  const { config, logger } = o;
  const dataDirectory = resolve(config.dataDir);
  const connectionString =
    config.sqlConnectionString ??
    (await scope.start("embedded Postgres", () => startEmbeddedPostgres({ dataDirectory, logger }))).connectionString;
  const objectStoreUri = objectStoreUriOf(config);
  return await scope.start("ingestion server", () => startIngestionServer({ ...o, connectionString, objectStoreUri }));
}
