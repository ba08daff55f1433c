/**
 * Statements, and readers, that are meant to hurt a server: others are answered all the same, what is
 * sent is stored, and no result that an engine's death cut short is taken for a whole one.
 */
import { afterAll, beforeAll, expect, it } from "vitest";

import { attacks } from "../../bench/load/attacks.js";
import { sending } from "../../bench/load/bystanders.js";
import { killEngines } from "../../bench/load/engine-kills.js";
import { childrenOf, hasLoaded } from "../helpers/processes.js";
import { hurt } from "../../bench/load/hurting.js";
import { mintAnalyticsKey, mintIngestionKey } from "../../src/auth/keys/keys.js";
import { sampled } from "../helpers/effort.js";
import { temporaryDirectory } from "../helpers/servers/monolith.js";
import { createTestDatabase, type TestDatabase } from "../helpers/postgres/postgres.js";
import { type ServerProcess, startServerProcess } from "../helpers/servers/server-process.js";

let database: TestDatabase;
let data: Awaited<ReturnType<typeof temporaryDirectory>>;
let server: ServerProcess;
let analytics: string;
const keys: Record<string, string> = {};
const tenantRows = 20;
const tried = sampled(attacks, 4);

beforeAll(async () => {
  database = await createTestDatabase();
  data = await temporaryDirectory();
  const { sql, connectionString } = database;
  for (const audience of ["attacker", "tenant"]) {
    const minted = await mintAnalyticsKey(sql, { name: audience, createdBy: "test" });
    await sql`insert into audience_grants (audience, kind, member, created_by)
      values (${audience}, 'read', ${`key:${minted.keyId}`}, 'test')`;
    keys[audience] = minted.key;
  }
  for (const audience of ["tenant", "other"]) {
    const minted = await mintIngestionKey(sql, { name: audience, audience, createdBy: "test" });
    keys[`${audience} sends`] = minted.key;
  }
  server = await startServerProcess(
    "telemetry-monolith",
    {
      SVC_ROLES: "ingestion,analytics,maintenance",
      SVC_SQL_CONNECTION_STRING: connectionString,
      SVC_DATA_DIR: data.directory,
      SVC_INGESTION_LISTEN: "127.0.0.1:0",
      SVC_ANALYTICS_LISTEN: "127.0.0.1:0",
      SVC_ANALYTICS_HEALTH_LISTEN: "127.0.0.1:0",
    },
    /OTLP\/HTTP on (http:\/\/127\.0\.0\.1:[1-9]\d*)[^]*"msg":"ready"/u,
  );
  analytics = /grpc:\/\/(127\.0\.0\.1:\d+)/u.exec(server.output())?.[1] ?? "";
  const send = sending(server.url, keys["tenant sends"] ?? "");
  for (let i = 0; i < tenantRows; i++) {
    await send();
  }
});

afterAll(async () => {
  await server.end("SIGTERM");
  await data.remove();
  await database.drop();
});

it("answers every other tenant, and stores all that is sent, whatever one tenant asks", async () => {
  const found = await hurt({
    analytics,
    ingestionUrl: server.url,
    alive: () => true,
    attackerKey: keys["attacker"] ?? "",
    tenantKey: keys["tenant"] ?? "",
    tenantRows,
    sendKey: keys["other sends"] ?? "",
    attacks: tried,
    rounds: 1,
    patienceMs: 1000,
    watchMs: 100,
  });
  expect(found.flatMap(({ failures }) => failures)).toEqual([]);
  expect(found).toHaveLength(tried.length);
}, 600_000);

it("lets no result be taken for a whole one whose engine was killed", async () => {
  const { kills, whole, wrong } = await killEngines({
    uri: `grpc://${analytics}`,
    key: keys["tenant"] ?? "",
    serverPid: server.pid,
    forMs: 2_000,
    atOnce: 3,
  });
  expect(wrong).toEqual([]);
  expect(kills).toBeGreaterThan(0);
  expect(whole).toBeGreaterThan(0);
  await expect.poll(() => childrenOf(server.pid, "engine-process").length).toBeGreaterThan(0);
});

it("has DuckDB in its engines, and none in itself", async () => {
  await expect
    .poll(() => childrenOf(server.pid, "engine-process").some((pid) => hasLoaded(pid, "libduckdb")))
    .toBe(true);
  expect(hasLoaded(server.pid, "node")).toBe(true);
  expect(hasLoaded(server.pid, "duckdb")).toBe(false);
});
