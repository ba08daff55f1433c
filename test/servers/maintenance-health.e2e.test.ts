/** Whether maintenance is well: a process of its own says so, and beside other roles theirs do. */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";

import { afterAll, beforeAll, expect, it } from "vitest";

import { createTestDatabase, type TestDatabase } from "../helpers/postgres/postgres.js";
import { temporaryDirectory } from "../helpers/servers/monolith.js";
import { startServerProcess } from "../helpers/servers/server-process.js";

let database: TestDatabase;
let data: Awaited<ReturnType<typeof temporaryDirectory>>;

beforeAll(async () => {
  database = await createTestDatabase();
  data = await temporaryDirectory();
});

afterAll(async () => {
  await data.remove();
  await database.drop();
});

function environment(roles: string, health: string): Record<string, string> {
  return {
    SVC_ROLES: roles,
    SVC_SQL_CONNECTION_STRING: database.connectionString,
    SVC_DATA_DIR: data.directory,
    SVC_INGESTION_LISTEN: "127.0.0.1:0",
    SVC_MAINTENANCE_HEALTH_LISTEN: health,
    SVC_DISABLE_AUTH: "true",
  };
}

it("alone in its process, it serves /health, /ready and /metrics", async () => {
  const server = await startServerProcess(
    "telemetry-monolith",
    environment("maintenance", "127.0.0.1:0"),
    /maintenance tells how it is on (http:\/\/127\.0\.0\.1:[1-9]\d*)/u,
  );
  try {
    for (const path of ["/health", "/ready"]) {
      const response = await fetch(`${server.url}${path}`);
      expect([path, response.status, await response.json()]).toEqual([path, 200, { status: "ok" }]);
    }
    const metrics = await (await fetch(`${server.url}/metrics`)).text();
    expect(metrics).toMatch(/^maintenance_leader [01]$/mu);
    expect((await fetch(`${server.url}/`)).status).toBe(404);
  } finally {
    expect(await server.end("SIGTERM")).toBe(0);
  }
});

it("beside another role it opens no address of its own", async () => {
  const taken = createServer().listen(0, "127.0.0.1");
  await once(taken, "listening");
  const { port } = taken.address() as AddressInfo;
  const server = await startServerProcess(
    "telemetry-monolith",
    environment("ingestion,maintenance", `127.0.0.1:${port}`),
  );
  try {
    expect((await fetch(`${server.url}/health`)).status).toBe(200);
  } finally {
    expect(await server.end("SIGTERM")).toBe(0);
    taken.close();
  }
});
