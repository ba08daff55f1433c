/**
 * `telemetry erase`, `retention` and `lake` against servers of all roles, each under its own database role: what was
 * sent over OTLP is erased while queries run, and sending the same bytes again does not bring it back.
 */
import { mkdir, mkdtemp, readdir, rm, unlink, utimes, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";

import { afterAll, beforeAll, expect, it } from "vitest";

import { mintAnalyticsKey } from "../../src/auth/keys/keys.js";
import { parseConfig } from "../../src/runtime/config/parse.js";
import { createMetrics } from "../../src/runtime/metrics.js";
import { type AnalyticsServer, startAnalyticsServer } from "../../src/servers/analytics.js";
import { type MaintenanceServer, startMaintenance } from "../../src/servers/maintenance.js";
import { createRoleLogin, type RoleLogin } from "../helpers/auth/auth-roles.js";
import { createTappedLogger } from "../helpers/cleartext/cleartext-tap.js";
import { type CliFinished, runCommand } from "../helpers/cli/run-cli.js";
import { connectRows, type FlightRows } from "../helpers/flight/flight-rows.js";
import { startTestIngestion, type TestIngestion } from "../helpers/servers/ingest-server.js";
import { type Identities, startIdentities, startTestWeb, type TestWeb } from "../helpers/web/web-server.js";

let t: TestIngestion;
let identities: Identities;
let web: TestWeb;
let analytics: AnalyticsServer;
let maintenance: MaintenanceServer;
let asking: FlightRows;
let home: string;
const logins: RoleLogin[] = [];

beforeAll(async () => {
  t = await startTestIngestion();
  const { sql, connectionString } = t.database;
  const { key, keyId } = await mintAnalyticsKey(sql, { name: "test", createdBy: "test" });
  await sql`insert into audience_grants (audience, kind, member, created_by)
    values ('team-a', 'read', ${`key:${keyId}`}, 'test')`;
  for (const role of ["analytics", "ingestion", "web"] as const) {
    logins.push(await createRoleLogin(sql, connectionString, role));
  }
  const [ofAnalytics, ofMaintenance, ofWeb] = logins.map((login) => login.connectionString);
  const shared = { objectStoreUri: t.storeUri, logger: createTappedLogger(), metrics: createMetrics() };
  analytics = await startAnalyticsServer({
    ...shared,
    config: parseConfig("analytics", [], {
      SVC_ANALYTICS_LISTEN: "127.0.0.1:0",
      SVC_ANALYTICS_HEALTH_LISTEN: "127.0.0.1:0",
      SVC_AUTH_CACHE_TTL_SECONDS: "0",
    }),
    connectionString: ofAnalytics ?? "",
  });
  maintenance = await startMaintenance({
    ...shared,
    metrics: createMetrics(),
    config: parseConfig("maintenance", [], { SVC_MAINTENANCE_INTERVAL_SECONDS: "0.2", SVC_RETENTION_DAYS: "30" }),
    connectionString: ofMaintenance ?? "",
    alone: false,
  });
  asking = connectRows(analytics.address.port, key, "asking");
  identities = await startIdentities();
  web = await startTestWeb({
    identities,
    beside: t,
    admins: ["admin@example.com"],
    connectionString: () => ofWeb ?? "",
  });
  home = await mkdtemp(path.join(tmpdir(), "lake-cli-"));
  await mkdir(path.join(home, ".telemetry"));
  const cookie = await identities.cookie("admin@example.com");
  await writeFile(path.join(home, "token"), cookie.slice("id_token=".length), { mode: 0o600 });
});

afterAll(async () => {
  await web?.stop();
  await identities?.stop();
  asking?.close();
  await maintenance?.stop();
  await analytics?.stop();
  for (const login of logins) {
    await login.drop();
  }
  await t?.stop();
  await rm(home, { recursive: true, force: true });
});

const command = (...args: string[]): Promise<CliFinished> =>
  runCommand([...args, "--token-file", path.join(home, "token")], {
    env: { SVC_WEB_URL: web.url },
    homeDirectory: home,
    workingDirectory: home,
  });

const telemetry = async (...args: string[]): Promise<unknown> => {
  const { code, stdout, stderr } = await command(...args, "--json");
  expect([code, stderr]).toEqual([0, ""]);
  return JSON.parse(stdout) as unknown;
};

function body(service: string, user: string): Buffer {
  const attributes = [{ key: "user.id", value: { stringValue: user } }];
  const logRecords = [{ timeUnixNano: "1763726400000000000", body: { stringValue: `${service} ${user}` }, attributes }];
  const resource = { attributes: [{ key: "service.name", value: { stringValue: service } }] };
  return Buffer.from(JSON.stringify({ resourceLogs: [{ resource, scopeLogs: [{ logRecords }] }] }));
}

async function send(service: string, user: string): Promise<void> {
  const response = await t.post("logs", body(service, user), { "content-type": "application/json" });
  expect(response.status).toBe(200);
}

const messages = async (): Promise<unknown[]> =>
  (await asking.rows("SELECT msg FROM log_entries ORDER BY msg")).map((row) => row["msg"]);

it("erases what was sent, while it is merged and queried, and it does not come back", async () => {
  for (let i = 0; i < 12; i++) {
    await send(i % 2 === 0 ? "shop" : "bank", `u${String(i).padStart(2, "0")}`);
  }
  expect(await messages()).toHaveLength(12);
  const seen = { done: false, fewest: 12 };
  const reading = (async () => {
    while (!seen.done) {
      // Never an error, and never another row than those of the shop less.
      const now = await messages();
      expect(now.filter((msg) => String(msg).startsWith("bank"))).toHaveLength(6);
      seen.fewest = now.length;
    }
  })();
  const erased = await telemetry("erase", "--audience", "team-a", "--where", "service=shop");
  seen.done = true;
  await reading;
  expect(erased).toMatchObject({ state: "done", rows_removed: 6, where: { service: "shop" } });
  expect(await messages()).toHaveLength(6);
  await send("shop", "u00");
  expect(await messages()).toHaveLength(6);
  const again = await telemetry("erase", "--audience", "team-a", "--where", "service=shop");
  expect(again).toMatchObject({ rows_removed: 0, objects_rewritten: 0, objects_removed: 0 });
  const one = await telemetry(
    "erase",
    "--audience",
    "team-a",
    "--where",
    "attribute",
    "user.id=u03",
    "--begin",
    "2025-01-01",
  );
  expect(one).toMatchObject({ rows_removed: 1 });
  expect(await messages()).not.toContain("bank u03");
  const services = await asking.rows("SELECT service_name FROM processes");
  expect(services).toEqual([{ service_name: "bank" }]);
  expect(await telemetry("erase", "list")).toHaveLength(3);
  const { stdout: shown } = await command("erase", "show", (one as { erasure_id: string }).erasure_id);
  expect(shown).toMatch(/^where +attribute user\.id=u03\nbegin +2025-01-01T00:00:00\.0{9}Z\nend$/mu);
  const audit = (await telemetry("audit", "--limit", "2")) as { action: string; details: Record<string, string> }[];
  expect(audit.map(({ action }) => action)).toEqual(["erasure.done", "erasure.create"]);
  expect(audit[0]?.details).toMatchObject({ rows_removed: "1" });
});

it("sets how long rows are kept, which maintenance heeds", async () => {
  await t.database.sql`update lakehouse_partitions set min_insert_time = now() - interval '10 days',
    max_insert_time = now() - interval '10 days'`;
  await t.database.sql`update lake_state set seen_at = now(), hold_until = null`;
  const before = (await messages()).length;
  await telemetry("retention", "set", "log_entries", "365", "--audience", "team-a");
  await telemetry("retention", "set", "log_entries", "9");
  expect(await telemetry("retention", "list")).toMatchObject([
    { view: "log_entries", audience: null, days: 9 },
    { view: "log_entries", audience: "team-a", days: 365 },
  ]);
  expect(await messages()).toHaveLength(before);
  expect(before).toBeGreaterThan(0);
  await telemetry("retention", "set", "log_entries", "9", "--audience", "team-a");
  await expect.poll(async () => (await messages()).length).toBe(0);
});

it("checks the lake, and mends what can be mended", async () => {
  const root = fileURLToPath(t.storeUri);
  expect(await telemetry("lake", "check")).toMatchObject({ report: { counts: { missing: 0, wrong_rows: 0 } } });
  await send("lost", "u1");
  const [newest] = await t.database.sql<{ path: string }[]>`
    select path from lakehouse_partitions order by created_at desc limit 1`;
  const lost = path.join(root, newest?.path ?? "");
  await unlink(lost);
  const orphan = path.join(path.dirname(lost), "orphan.l0.parquet");
  await writeFile(orphan, "never published");
  const old = new Date(Date.now() - 7_200_000);
  await utimes(orphan, old, old);
  await expect(messages()).rejects.toThrow(
    /object of the lake is missing or cannot be read.*telemetry lake check.*request id/u,
  );
  const failing = await command("erase", "--audience", "team-a", "--where", "service=none");
  expect([failing.code, failing.stdout]).toEqual([1, ""]);
  expect(failing.stderr).toMatch(/An object is missing or damaged: log_entries.*telemetry lake check --deep --repair/u);
  expect(await telemetry("lake", "check")).toMatchObject({
    report: { counts: { missing: 1, orphan: 1, mended: 0 } },
  });
  const { stdout: report } = await command("lake", "check");
  expect(report).toMatch(/^report\.counts\.missing +1$/mu);
  expect(report).toMatch(/^report\.problems\nkind +│ path[^]*\nmissing +│ log_entries\//mu);
  expect(await telemetry("lake", "check", "--repair")).toMatchObject({
    report: { counts: { missing: 1, orphan: 1, mended: 2 } },
  });
  expect(await messages()).toBeDefined();
  expect(await readdir(path.dirname(lost))).not.toContain("orphan.l0.parquet");
});

it.each([
  [["erase"], /--audience and --where are missing/u],
  [["erase", "--audience", "a", "--where", "name=x"], /--where takes service=<name>/u],
  [["erase", "--audience", "a", "--where", "attribute", "x"], /--where takes/u],
  [["erase", "--audience", "a", "--where", "attribute", "=x"], /--where takes/u],
  [["erase", "--audience", "a", "--where", "service=x", "--begin", "soon"], /--begin takes a time/u],
  [["retention", "set", "spans", "long"], /days is a whole number/u],
] as const)("tells what is wrong with %j", async (args, message) => {
  const { code, stderr } = await command(...args);
  expect([code, message.test(stderr)]).toEqual([2, true]);
});
