/** An analytics server over a fresh database and lake. */
import { mintAnalyticsKey } from "../../src/auth/keys.js";
import type { Sql } from "../../src/db/sql.js";
import { parseConfig } from "../../src/runtime/config/parse.js";
import { createSilentLogger } from "../../src/runtime/log.js";
import { createMetrics, type Metrics } from "../../src/runtime/metrics.js";
import { type AnalyticsServer, startAnalyticsServer } from "../../src/servers/analytics.js";
import { createTestLake, type TestLake } from "./lake.js";
import { createTestDatabase } from "./postgres.js";

export interface TestAnalytics {
  readonly server: AnalyticsServer;
  readonly port: number;
  readonly key: string;
  readonly keyId: string;
  readonly sql: Sql;
  readonly connectionString: string;
  readonly lake: TestLake;
  readonly metrics: Metrics;
  stop(): Promise<void>;
}

/**
 * Starts one. `environment` adds to its variables; the key may read `public`. The server reaches its
 * database by what `route` makes of the connection string.
 */
export async function startTestAnalytics(
  environment: Readonly<Record<string, string>> = {},
  route: (connectionString: string) => Promise<string> = (direct) => Promise.resolve(direct),
): Promise<TestAnalytics> {
  const database = await createTestDatabase();
  const lake = await createTestLake();
  const { key, keyId } = await mintAnalyticsKey(database.sql, { name: "test", createdBy: "test" });
  const config = parseConfig("analytics", [], {
    SVC_ANALYTICS_LISTEN: "127.0.0.1:0",
    SVC_ANALYTICS_HEALTH_LISTEN: "127.0.0.1:0",
    SVC_AUTH_CACHE_TTL_SECONDS: "0",
    ...environment,
  });
  const metrics = createMetrics();
  const server = await startAnalyticsServer({
    config,
    connectionString: await route(database.connectionString),
    objectStoreUri: lake.uri,
    logger: createSilentLogger(),
    metrics,
  });
  return {
    server,
    port: server.address.port,
    key,
    keyId,
    sql: database.sql,
    connectionString: database.connectionString,
    lake,
    metrics,
    stop: async () => {
      await server.stop();
      await database.drop();
      await lake.remove();
    },
  };
}
