/** The embedded database of a bench. */
import { startEmbeddedPostgres } from "../../src/db/embedded/embedded.js";
import { migrate } from "../../src/db/migrations.js";
import { connect, type Sql } from "../../src/db/sql.js";
import type { Logger } from "../../src/runtime/log/log.js";

interface BenchDatabase {
  readonly connectionString: string;
  readonly sql: Sql;
  readonly stop: () => Promise<void>;
}

/** Starts and migrates it, and opens a pool. Its files stay. */
export async function startBenchDatabase(o: {
  readonly dataDirectory: string;
  readonly maxConnections: number;
  readonly logger: Logger;
}): Promise<BenchDatabase> {
  const postgres = await startEmbeddedPostgres({ dataDirectory: o.dataDirectory, logger: o.logger });
  const { connectionString } = postgres;
  const sql = connect({
    connectionString,
    maxConnections: o.maxConnections,
    applicationName: "bench",
    logger: o.logger,
  });
  const stop = async (): Promise<void> => {
    await sql.end({ timeout: 5 });
    await postgres.stop();
  };
  try {
    await migrate(sql, o.logger);
  } catch (error) {
    await stop();
    throw error;
  }
  return { connectionString, sql, stop };
}
