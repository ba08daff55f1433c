/** A lake with rows of every shape, and what docs/schema.md tells other engines to do with it. */
import { readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";

import * as fc from "fast-check";
import { expect } from "vitest";

import { mintAnalyticsKey } from "../../../src/auth/keys/keys.js";
import { type TableName, tables } from "../../../src/lake/tables/tables.js";
import { parseConfig } from "../../../src/runtime/config/parse.js";
import { createMetrics } from "../../../src/runtime/metrics.js";
import { startAnalyticsServer } from "../../../src/servers/analytics.js";
import { createTappedLogger } from "../cleartext/cleartext-tap.js";
import { connectRows } from "../flight/flight-rows.js";
import { arbitraryRequest } from "../otlp/otlp-arbitraries.js";
import { encodePlain } from "../otlp/otlp-proto.js";
import { sendWithSdk } from "../otlp/sdk-traffic.js";
import { startTestIngestion, type TestIngestion } from "../servers/ingest-server.js";
import { addPartition } from "./lake.js";

/** The tables of the lake. */
export const tableNames = Object.keys(tables) as TableName[];

/** What docs/schema.md shows, block by block; its table is log_entries, its root a place of its own. */
interface OpenFormatGuide {
  /** Asks Postgres for all objects of a table. */
  readonly catalogue: string;
  /** Asks for those that may have rows of an hour. */
  readonly catalogueOfHour: string;
  readonly duckdb: string;
  readonly python: string;
  /** Makes the login of a reader. */
  readonly role: string;
}

/** What Flight SQL gives as the audience of rows whose objects have none. */
export const unstamped = "nobody";

/** The hour of {@link OpenFormatGuide.catalogueOfHour}. */
export const guideHour = { begin: 1_763_740_800_000_000_000n, end: 1_763_744_400_000_000_000n } as const;

/** Takes the statements out of docs/schema.md. */
async function readGuide(): Promise<OpenFormatGuide> {
  const text = await readFile(new URL("../../../../docs/schema.md", import.meta.url), "utf8");
  const section = text.split(/^## /mu).find((part) => part.startsWith("Reading the lake with another engine\n")) ?? "";
  const blocks = [...section.matchAll(/^```(?:sql|python)\n(.*?)^```$/gmsu)].map(([, block = ""]) => block);
  expect(blocks).toHaveLength(5);
  const [catalogue = "", catalogueOfHour = "", duckdb = "", python = "", role = ""] = blocks;
  return { catalogue, catalogueOfHour, duckdb, python, role };
}

/** A lake that servers read and write, with a caller who may read all of it. */
export interface OpenFormatWorld {
  readonly ingestion: TestIngestion;
  /** Of the analytics server. */
  readonly port: number;
  readonly key: string;
  /** The lake's directory, with a slash at its end. */
  readonly root: string;
  readonly guide: OpenFormatGuide;
  /** Asks Postgres as the reader of the guide; @param statement one of the guide's, about `log_entries` */
  objects(table: TableName, statement?: string): Promise<{ path: string; audience: string | null }[]>;
  /** The same as a file of CSV, as psql writes it; gives its path. */
  objectsFile(table: TableName): Promise<string>;
  /** A block of the guide about another table, root and file. */
  localized(block: string, table: TableName, file: string): string;
  stop(): Promise<void>;
}

/**
 * Starts servers and fills their lake: two audiences and unstamped rows, SDK traffic and random requests, some of it
 * merged, some fresh, and an object from before a column existed.
 */
export async function startOpenFormatWorld(): Promise<OpenFormatWorld> {
  const guide = await readGuide();
  const t = await startTestIngestion();
  const { sql } = t.database;
  const { key, keyId } = await mintAnalyticsKey(sql, { name: "test", createdBy: "test" });
  for (const audience of ["team-a", "team-b", unstamped]) {
    await sql`insert into audience_grants (audience, kind, member, created_by)
      values (${audience}, 'read', ${`key:${keyId}`}, 'test')`;
  }
  const analytics = await startAnalyticsServer({
    config: parseConfig("analytics", [], {
      SVC_ANALYTICS_LISTEN: "127.0.0.1:0",
      SVC_ANALYTICS_HEALTH_LISTEN: "127.0.0.1:0",
      SVC_UNSTAMPED_AUDIENCE: unstamped,
    }),
    connectionString: t.database.connectionString,
    objectStoreUri: t.storeUri,
    logger: createTappedLogger(),
    metrics: createMetrics(),
  });
  const root = `${fileURLToPath(t.storeUri)}/`;
  const port = analytics.address.port;
  await fill(t, root, port, key);

  const objects: OpenFormatWorld["objects"] = async (table, statement = guide.catalogue) => {
    let found: { path: string; audience: string | null }[] = [];
    const undone = new Error("undone");
    // The role is one of the whole server: it goes with the transaction.
    await sql
      .begin(async (own) => {
        await own.unsafe(guide.role);
        await own.unsafe("SET LOCAL ROLE telemetry_reader");
        found = [...(await own.unsafe(statement.replaceAll("log_entries", table)))].map((row) => ({
          path: String(row["path"]),
          audience: row["audience"] === null ? null : String(row["audience"]),
        }));
        throw undone;
      })
      .catch((error: unknown) => {
        if (error !== undone) {
          throw error;
        }
      });
    return found;
  };
  return {
    ingestion: t,
    port,
    key,
    root,
    guide,
    objects,
    objectsFile: async (table) => {
      const file = path.join(path.dirname(root), `${table}.csv`);
      const lines = (await objects(table)).map((object) => `${object.path},${object.audience ?? ""}\n`);
      await writeFile(file, `path,audience\n${lines.join("")}`);
      return file;
    },
    localized: (block, table, file) =>
      block
        .replaceAll("log_entries", table)
        .replaceAll("/var/lib/telemetry-service/lake/", root)
        .replaceAll("objects.csv", file),
    stop: async () => {
      await analytics.stop();
      await t.stop();
    },
  };
}

async function fill(t: TestIngestion, root: string, port: number, key: string): Promise<void> {
  const { sql } = t.database;
  const teamB = await t.mint("team-b");
  const send = async (round: number): Promise<void> => {
    for (const [audience, writeKey] of [
      ["a", t.key],
      ["b", teamB],
    ] as const) {
      await sendWithSdk({
        url: t.url,
        key: writeKey,
        format: "protobuf",
        compression: "none",
        service: `${audience}-${round}`,
      });
    }
    for (const [name, signal] of [
      ["logs", 1],
      ["metrics", 2],
      ["traces", 3],
    ] as const) {
      for (const message of fc.sample(arbitraryRequest[signal], { numRuns: 12, seed: 20 + round })) {
        expect((await t.post(name, Buffer.from(encodePlain(signal, message)))).status).toBe(200);
      }
    }
  };
  await send(1);
  const caller = connectRows(port, key);
  try {
    for (const table of tableNames) {
      const made = await caller.rows(
        `SELECT action FROM materialize_partitions('${table}', '1970-01-01', '2262-01-01', 31622400)`,
      );
      expect(made.length).toBeGreaterThan(0);
    }
  } finally {
    caller.close();
  }
  await send(2);
  for (const table of tableNames) {
    await addPartition({ directory: root, uri: t.storeUri, remove: () => Promise.resolve() }, sql, {
      table,
      audience: null,
      rowsSql: `SELECT make_timestamp_ns(${guideHour.begin} + i) AS time, 'p' AS process_id, '{"old": 1}' AS properties FROM range(3) t(i)`,
      without: ["resource_entity_refs"],
    });
  }
}
