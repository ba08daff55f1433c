import { chmod, mkdtemp, readFile, readdir, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";

import {
  type DevelopmentAddresses,
  type DevelopmentKeys,
  parseDevelopmentFile,
  prepareDevelopmentKeys,
  writeDevelopmentFile,
} from "../../src/servers/development/keys.js";
import { type TestDatabase, createTestDatabase } from "../helpers/postgres/postgres.js";

const addresses: DevelopmentAddresses = {
  ingestionUrl: "http://127.0.0.1:9000",
  analyticsUri: "grpc://127.0.0.1:50051",
  webUrl: null,
  login: null,
};

let db: TestDatabase;
let directory: string;
beforeEach(async () => {
  db = await createTestDatabase();
  directory = await mkdtemp(path.join(tmpdir(), "development-"));
});
afterEach(async () => {
  await db.drop();
  await rm(directory, { recursive: true });
});

const file = (): string => path.join(directory, "dev.env");
const prepare = (audience = "team-a", administrator: string | null = null): Promise<DevelopmentKeys> =>
  prepareDevelopmentKeys({ sql: db.sql, dataDirectory: directory, audience, administrator, addresses });

/** `audience member` of every grant but the seeded one. */
async function readGrants(): Promise<string[]> {
  const rows = await db.sql<{ grant: string }[]>`
    select audience || ' ' || member as grant from audience_grants
    where kind = 'read' and created_by = 'development mode' order by 1`;
  return rows.map((row) => row.grant);
}

async function keyCounts(): Promise<number[]> {
  const [row] = await db.sql<{ ingestion: number; analytics: number }[]>`
    select (select count(*)::int from ingestion_api_keys) as ingestion,
           (select count(*)::int from analytics_api_keys) as analytics`;
  return [row?.ingestion ?? -1, row?.analytics ?? -1];
}

describe("the keys of development mode", () => {
  it("are minted once, into a file that only its owner can read", async () => {
    const keys = await prepare();
    expect((await stat(file())).mode & 0o777).toBe(0o600);
    expect(parseDevelopmentFile(await readFile(file(), "utf8"))).toEqual(keys);
    expect(await keyCounts()).toEqual([1, 1]);
    const [row] = await db.sql`select audience from ingestion_api_keys`;
    expect(row?.["audience"]).toBe("team-a");
    expect(await readdir(directory)).toEqual(["dev.env"]);
  });

  it("read what they write, also after the audience has changed", async () => {
    const first = await prepare("team-a");
    const [row] = await db.sql<{ key_id: string }[]>`select key_id from analytics_api_keys`;
    const member = `key:${row?.key_id}`;
    expect(await readGrants()).toEqual([`team-a ${member}`]);
    const second = await prepare("team-z");
    expect(second.analyticsKey).toBe(first.analyticsKey);
    expect(second.ingestionKey).not.toBe(first.ingestionKey);
    expect(await readGrants()).toEqual([`team-a ${member}`, `team-z ${member}`]);
    expect(await prepare("team-z")).toEqual(second);
    const audiences = await db.sql`select audience from ingestion_api_keys order by audience`;
    expect(audiences.map((found) => found["audience"])).toEqual(["team-a", "team-z"]);
    // Everybody may read it.
    await prepare("public");
    expect(await readGrants()).toHaveLength(2);
  });

  it("are joined by what the administrator may who logs in, where not everybody may", async () => {
    await prepare("team-a", "user:dev@localhost");
    await prepare("public", "user:dev@localhost");
    const grants = await db.sql`
      select audience || ' ' || kind as of from audience_grants where member = 'user:dev@localhost' order by 1`;
    expect(grants.map((row) => row["of"])).toEqual(["public mint", "team-a mint", "team-a read"]);
  });

  it("are used again while they are live, whatever else happened to the file's mode", async () => {
    const first = await prepare();
    await chmod(file(), 0o644);
    expect(await prepare()).toEqual(first);
    await writeDevelopmentFile(directory, first, addresses);
    expect((await stat(file())).mode & 0o777).toBe(0o600);
    expect(await keyCounts()).toEqual([1, 1]);
  });

  it("are replaced one by one: only the revoked one is minted again", async () => {
    const first = await prepare();
    await db.sql`update analytics_api_keys set revoked_at = now(), revoked_by = 'test'`;
    const second = await prepare();
    expect(second.ingestionKey).toBe(first.ingestionKey);
    expect(second.analyticsKey).not.toBe(first.analyticsKey);
    expect(parseDevelopmentFile(await readFile(file(), "utf8"))).toEqual(second);
    expect(await keyCounts()).toEqual([1, 2]);
  });

  it("are minted again when the file holds nothing usable", async () => {
    await writeFile(file(), "export SVC_ANALYTICS_API_KEY='svk_forged'\n");
    const keys = await prepare();
    expect(keys.analyticsKey).not.toBe("svk_forged");
    expect(await keyCounts()).toEqual([1, 1]);
  });

  it("stay when only the addresses change", async () => {
    const keys = await prepare();
    const moved: DevelopmentAddresses = {
      ingestionUrl: "http://[::1]:1234",
      analyticsUri: "grpc://[::1]:5678",
      webUrl: "http://[::1]:3000/telemetry",
      login: { issuer: "http://[::1]:3001", clientId: "telemetry-cli" },
    };
    await writeDevelopmentFile(directory, keys, moved);
    const text = await readFile(file(), "utf8");
    expect(text).toContain("export OTEL_EXPORTER_OTLP_ENDPOINT='http://[::1]:1234/ingestion/otlp'\n");
    expect(text).toContain("export SVC_ANALYTICS_URI='grpc://[::1]:5678'\n");
    expect(text).toContain("export SVC_WEB_URL='http://[::1]:3000/telemetry'\n");
    expect(text).toContain("export SVC_OIDC_ISSUER='http://[::1]:3001'\n");
    expect(text).toContain("export SVC_OIDC_CLIENT_ID='telemetry-cli'\n");
    expect(parseDevelopmentFile(text)).toEqual(keys);
    expect((await stat(file())).mode & 0o777).toBe(0o600);
  });
});
