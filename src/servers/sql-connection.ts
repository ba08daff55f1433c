/** The database of a monolith, for a second server on the same machine. */
import { runningEmbeddedPostgres } from "../db/embedded/embedded-connection.js";
import type { Config } from "../runtime/config/parse.js";
import { createSilentLogger } from "../runtime/log/log.js";

/**
 * The connection string, password included: the configured one, else that of the embedded Postgres that runs in the
 * data directory.
 * @throws ServiceError as runningEmbeddedPostgres.
 */
export async function sqlConnectionOf(
  config: Pick<Config<"monolith">, "sqlConnectionString" | "dataDir">,
): Promise<string> {
  return (
    config.sqlConnectionString ??
    (await runningEmbeddedPostgres({ dataDirectory: config.dataDir, logger: createSilentLogger() }))
  );
}
