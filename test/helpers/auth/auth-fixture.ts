/** A key store over a fresh database, with a clock that the test moves and a log it can read. */
import { connect } from "../../../src/db/sql.js";
import {
  createKeyAuthenticator,
  type KeyAuthenticator,
  type KeyAuthenticatorOptions,
} from "../../../src/auth/keys/key-authenticator.js";
import { createLogger, createSilentLogger, type Logger } from "../../../src/runtime/log/log.js";
import { createMetrics, type Metrics } from "../../../src/runtime/metrics.js";
import { recordOutput } from "../cleartext/cleartext-tap.js";
import { createTestDatabase, type TestDatabase } from "../postgres/postgres.js";

/** Everything a logger wrote, parsed. */
export function createRecordingLogger(): { logger: Logger; lines: Record<string, unknown>[] } {
  const lines: Record<string, unknown>[] = [];
  const logger = createLogger({
    level: "debug",
    service: "test",
    destination: {
      write: (line: string) => {
        recordOutput("log", line);
        lines.push(JSON.parse(line) as Record<string, unknown>);
      },
    },
  });
  return { logger, lines };
}

/** Sum over the values of a metric whose labels include `labels`. */
export async function metricValue(
  metrics: Metrics,
  name: string,
  labels: Readonly<Record<string, string>> = {},
): Promise<number> {
  const metric = await metrics.registry.getSingleMetric(name)?.get();
  let sum = 0;
  for (const value of metric?.values ?? []) {
    if (Object.entries(labels).every(([k, v]) => value.labels[k] === v)) {
      sum += value.value;
    }
  }
  return sum;
}

export interface KeyStoreFixture {
  readonly db: TestDatabase;
  readonly keys: KeyAuthenticator;
  readonly metrics: Metrics;
  readonly lines: Record<string, unknown>[];
  /** Moves the key store's clock. */
  advance(ms: number): void;
  /** Statements sent to look keys up so far. */
  statements(): Promise<number>;
  stop(): Promise<void>;
}

/** @param through makes the connection string of the key store's own pool out of the database's. */
export async function createKeyStore(
  o: Partial<KeyAuthenticatorOptions> = {},
  through: (connectionString: string) => Promise<string> | string = (s) => s,
): Promise<KeyStoreFixture> {
  const db = await createTestDatabase();
  const sql = connect({
    connectionString: await through(db.connectionString),
    maxConnections: 2,
    applicationName: "key store",
    logger: createSilentLogger(),
  });
  const { logger, lines } = createRecordingLogger();
  const metrics = createMetrics();
  let nowMs = 1_000_000;
  const keys = createKeyAuthenticator({
    sql,
    table: "ingestion_api_keys",
    cacheSize: 1000,
    cacheTtlMs: 60_000,
    unknownCacheSize: 1000,
    unknownCacheTtlMs: 10_000,
    logger,
    metrics,
    clock: () => nowMs,
    ...o,
  });
  return {
    db,
    keys,
    metrics,
    lines,
    advance: (ms) => {
      nowMs += ms;
    },
    statements: () => metricValue(metrics, "api_key_lookup_statement_count"),
    async stop() {
      await keys.stop();
      await sql.end({ timeout: 1 });
      await db.drop();
    },
  };
}
