/** An analytics server over a fresh database and lake. */
import { mintAnalyticsKey } from "../../../src/auth/keys/keys.js";
import type { Sql } from "../../../src/db/sql.js";
import { parseConfig } from "../../../src/runtime/config/parse.js";
import { createMetrics, type Metrics } from "../../../src/runtime/metrics.js";
import {
  type AnalyticsServer,
  type AnalyticsServerOptions,
  startAnalyticsServer,
} from "../../../src/servers/analytics.js";
import { createTappedLogger } from "../cleartext/cleartext-tap.js";
import { connectRows, type FlightRows } from "../flight/flight-rows.js";
import { type FlightQuery, plainRows } from "../flight/plain-rows.js";
import { createTestLake, type TestLake } from "../lake/lake.js";
import { createTestDatabase } from "../postgres/postgres.js";
import { until } from "../until.js";

export interface TestAnalytics {
  readonly server: AnalyticsServer;
  readonly port: number;
  readonly key: string;
  readonly keyId: string;
  /** A caller with the key, over the client of the service. Its name is `test-client/1`. */
  readonly caller: Omit<FlightRows, "close">;
  /** Rows with the key as plain values: numbers for integers, lists and objects. */
  readonly plainRows: FlightQuery;
  readonly sql: Sql;
  readonly connectionString: string;
  readonly lake: TestLake;
  readonly metrics: Metrics;
  /** The value of a metric without labels; -1 when there is none. */
  gauge(name: string): Promise<number>;
  /** Waits until a metric without labels has a value. */
  untilGauge(name: string, value: number): Promise<void>;
  /** Starts another server of the same group: over the same database and lake. Stop it first. */
  another(environment?: Readonly<Record<string, string>>): Promise<OtherAnalytics>;
  stop(): Promise<void>;
}

/** A server that shares database and lake with the one it was started by. */
interface OtherAnalytics {
  readonly port: number;
  readonly healthPort: number;
  stop(): Promise<void>;
}

/**
 * Starts one. `environment` adds to its variables; the key may read `public`. The server reaches its
 * database by what `route` makes of the connection string. `o` adds to its options.
 */
export async function startTestAnalytics(
  environment: Readonly<Record<string, string>> = {},
  route: (connectionString: string) => Promise<string> = (direct) => Promise.resolve(direct),
  o: Pick<AnalyticsServerOptions, "stalledMs" | "span"> = {},
): Promise<TestAnalytics> {
  const database = await createTestDatabase();
  const lake = await createTestLake();
  const { key, keyId } = await mintAnalyticsKey(database.sql, { name: "test", createdBy: "test" });
  const routed = await route(database.connectionString);
  const start = (variables: Readonly<Record<string, string>>, metrics: Metrics): Promise<AnalyticsServer> =>
    startAnalyticsServer({
      ...o,
      config: parseConfig("analytics", [], {
        SVC_ANALYTICS_LISTEN: "127.0.0.1:0",
        SVC_ANALYTICS_HEALTH_LISTEN: "127.0.0.1:0",
        SVC_AUTH_CACHE_TTL_SECONDS: "0",
        ...variables,
      }),
      connectionString: routed,
      objectStoreUri: lake.uri,
      logger: createTappedLogger(),
      metrics,
    });
  const metrics = createMetrics();
  const server = await start(environment, metrics);
  const { port } = server.address;
  const caller = connectRows(port, key, "test-client/1");
  const gauge = async (name: string): Promise<number> => {
    const line = new RegExp(`^${name} (?<n>[0-9.]+)`, "mu").exec(await metrics.text());
    return Number(line?.groups?.["n"] ?? "-1");
  };
  return {
    server,
    port,
    key,
    keyId,
    caller,
    plainRows: (sql) => plainRows({ port, key }, sql),
    sql: database.sql,
    connectionString: database.connectionString,
    lake,
    metrics,
    gauge,
    untilGauge: (name, value) => until(async () => (await gauge(name)) === value),
    another: async (variables = {}) => {
      const other = await start(variables, createMetrics());
      return { port: other.address.port, healthPort: other.healthAddress.port, stop: () => other.stop() };
    },
    stop: async () => {
      caller.close();
      await server.stop();
      await database.drop();
      await lake.remove();
    },
  };
}
