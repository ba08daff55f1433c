/**
 * Runs once for a whole vitest run: one embedded Postgres, and in it a template database with the current
 * schema, from which `createTestDatabase` makes a fresh database per call; and the watch over minted keys.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";

import type { TestProject } from "vitest/node";

import { startEmbeddedPostgres } from "../../src/db/embedded/embedded.js";
import { migrate } from "../../src/db/migrations.js";
import { connect } from "../../src/db/sql.js";
import { createSilentLogger } from "../../src/runtime/log/log.js";
import watchCleartext from "./cleartext/cleartext-watch.js";

declare module "vitest" {
  interface ProvidedContext {
    /** Superuser's connection string of the run's own cluster. */
    testClusterUrl: string;
  }
}

/** The migrated database that test databases are copied from; nobody may stay connected to it. */
export const templateDatabase = "tsvc_test_template";

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const logger = createSilentLogger();
  const dataDirectory = await mkdtemp(path.join(tmpdir(), "tsvc-test-cluster-"));
  const cluster = await startEmbeddedPostgres({
    dataDirectory,
    logger,
    // Thrown away at the end, so losing it to a power cut is no loss.
    durable: false,
    maxConnections: 200,
  });
  const common = { maxConnections: 1, applicationName: "test-setup", logger };
  const admin = connect({ ...common, connectionString: cluster.connectionString });
  await admin`create database ${admin(templateDatabase)}`;
  await admin.end();
  const template = connect({
    ...common,
    connectionString: databaseUrl(cluster.connectionString, templateDatabase),
  });
  await migrate(template, logger);
  await template.end();
  project.provide("testClusterUrl", cluster.connectionString);
  const endWatch = await watchCleartext(project);
  return async () => {
    await cluster.stop();
    await rm(dataDirectory, { recursive: true, force: true, maxRetries: 5 });
    await endWatch();
  };
}

/** The same server and user with another database. */
export function databaseUrl(connectionString: string, database: string): string {
  const url = new URL(connectionString);
  url.pathname = `/${database}`;
  return url.href;
}
