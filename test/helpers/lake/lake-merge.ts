/** Merging without a server around it, and what Parquet's own metadata says about the objects. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";

import { DuckDBInstance, type DuckDBValue } from "@duckdb/node-api";

import type { Sql } from "../../../src/db/sql.js";
import type { CheckContext } from "../../../src/lake/check/check-lake.js";
import { MergeEngines } from "../../../src/lake/merge/merge-engine.js";
import { type MergeContext, type MergeLimits, type MergeRequest } from "../../../src/lake/merge/merge.js";
import { openObjectStore } from "../../../src/lake/store/open-store.js";
import { systemClock } from "../../../src/runtime/clock.js";
import { mergeLimits } from "./lake-merge-limits.js";
import { createTestLake, type TestLake } from "./lake.js";
import { createTestDatabase } from "../postgres/postgres.js";

export interface MergeLab {
  readonly lake: TestLake;
  readonly sql: Sql;
  readonly connectionString: string;
  /** Its merges share an engine process, also with those of other labs. */
  readonly context: MergeContext & Pick<CheckContext, "unstampedAudience">;
  /** A context with other limits; each of its merges has an engine process of its own. */
  limited(limits: Partial<MergeLimits>): MergeContext;
  /** Runs SQL in a DuckDB that may read everything. */
  duck(sql: string): Promise<Record<string, DuckDBValue>[]>;
  stop(): Promise<void>;
}

/** Every audience, a wide range, an hour. */
export const mergeAll: MergeRequest = {
  viewSet: "log_entries",
  audiences: { kind: "all" },
  beginNs: -(2n ** 62n),
  endNs: 2n ** 62n,
  widthSeconds: 3600,
  regenerate: false,
};

let sharedEngines: Promise<MergeEngines> | null = null;

/** Of all labs of this process that have no limits of their own. It ends when nobody merges, or with the process. */
async function startSharedEngines(): Promise<MergeEngines> {
  return new MergeEngines(mergeLimits(await mkdtemp(path.join(tmpdir(), "telemetry-test-merges-"))));
}

/** An empty lake and its database; `narrower` are limits of what a merge may do. */
export async function startMergeLab(narrower: Partial<MergeLimits> = {}): Promise<MergeLab> {
  const database = await createTestDatabase();
  const lake = await createTestLake();
  const tempDirectory = await mkdtemp(path.join(tmpdir(), "telemetry-test-merge-"));
  const instance = await DuckDBInstance.create(":memory:", { threads: "1" });
  const connection = await instance.connect();
  const limits = { ...mergeLimits(tempDirectory), ...narrower };
  const isShared = Object.keys(narrower).length === 0;
  const engines = isShared ? await (sharedEngines ??= startSharedEngines()) : new MergeEngines(limits);
  const context = {
    sql: database.sql,
    store: await openObjectStore(lake.uri),
    root: lake.directory,
    limits,
    clock: systemClock,
    cancelled: () => false,
  };
  return {
    lake,
    sql: database.sql,
    connectionString: database.connectionString,
    context: { ...context, engines, unstampedAudience: "public" },
    limited: (other) => ({ ...context, limits: { ...limits, ...other } }),
    duck: async (sql) => (await connection.runAndReadAll(sql)).getRowObjects(),
    stop: async () => {
      if (!isShared) {
        await engines.stop();
      }
      connection.closeSync();
      instance.closeSync();
      await database.drop();
      await lake.remove();
      await rm(tempDirectory, { recursive: true, force: true });
    },
  };
}
