/** The web server as a whole: what it needs, what it answers when it lacks something, and its document. */
import { cp, mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { randomBytes } from "node:crypto";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { migrate } from "../../../src/db/migrations.js";
import { parseConfig } from "../../../src/runtime/config/parse.js";
import { createSilentLogger } from "../../../src/runtime/log/log.js";
import { createMetrics } from "../../../src/runtime/metrics.js";
import { startWebServer } from "../../../src/servers/web.js";
import { startTcpProxy } from "../../helpers/auth/auth-tcp-proxy.js";
import { runProgram } from "../../helpers/servers/monolith.js";
import { createTestDatabase } from "../../helpers/postgres/postgres.js";
import { routes, useWeb } from "../../helpers/web/web-fixture.js";
import { startIdentities, startTestWeb, type TestWeb } from "../../helpers/web/web-server.js";

const { ingestion } = routes;

const t = useWeb({ SVC_SELF_SERVICE_MINT: "true" });

describe("--disable-auth", () => {
  let open: TestWeb;

  beforeAll(async () => {
    open = await t.start({
      beside: t.web,
      environment: { SVC_DISABLE_AUTH: "true" },
    });
  });
  afterAll(() => open.stop());

  it.each(["/api/ingestion-api-keys", "/api/analytics-api-keys", "/api/audience-grants", "/api/groups"])(
    "everything that begins with %s is 503 AUTH_DISABLED",
    async (prefix) => {
      for (const suffix of ["", "/", "/x", "/x/y/z", "?limit=0", "-and-more", "/my-audiences"]) {
        for (const method of ["GET", "POST", "DELETE", "PUT"]) {
          const answer = await open.request(method, `${prefix}${suffix}`, { cookie: t.admin });
          expect([answer.status, answer.json.code]).toEqual([503, "AUTH_DISABLED"]);
        }
      }
    },
  );

  it("the audit is not for everybody then, health and the document are", async () => {
    expect((await open.request("GET", "/api/audit")).json.code).toBe("AUTH_DISABLED");
    expect((await open.request("GET", "/auth/login")).json.code).toBe("AUTH_DISABLED");
    expect((await open.request("GET", "/health")).status).toBe(200);
    expect((await open.request("GET", "/api/openapi.json")).status).toBe(200);
    expect((await open.request("GET", "/api/other")).status).toBe(404);
  });

  it("needs no database; a route that would use one is 503 NOT_CONFIGURED", async () => {
    const bare = await t.start({
      beside: t.web,
      environment: { SVC_DISABLE_AUTH: "true" },
      connectionString: () => null,
    });
    expect((await bare.request("GET", "/api/audit")).json.code).toBe("NOT_CONFIGURED");
    expect((await bare.request("GET", ingestion)).json.code).toBe("AUTH_DISABLED");
    expect((await bare.request("GET", "/ready")).status).toBe(200);
    await bare.stop();
  });
});

describe("readiness", () => {
  it("says what to do about a database without a schema, which the server leaves as it is", async () => {
    const empty = await createTestDatabase({ migrate: false });
    const own = await t.start({ database: empty });
    const answer = await own.request("GET", "/ready");
    expect([answer.status, answer.json.message]).toEqual([503, "the database has no schema; start ingestion once"]);
    expect((await own.request("GET", "/health")).status).toBe(200);
    await migrate(empty.sql, createSilentLogger());
    expect((await own.request("GET", "/ready")).status).toBe(200);
    await empty.sql`delete from schema_version where version > 5`;
    await expect.poll(async () => (await own.request("GET", "/ready")).status).toBe(503);
    const old = await own.request("GET", "/ready");
    expect(old.json.message).toContain("the database has schema version 5");
    await own.stop();
  });

  it("is asked of the database once, however many want to know", async () => {
    const own = await t.beside();
    const calls = async (): Promise<number> =>
      Number(
        /^task_pool_run_seconds_count\{[^}]*"admin"[^}]*\} (\d+)/mu.exec(await own.server.probes.metrics())?.[1] ?? 0,
      );
    const before = await calls();
    const startMs = performance.now();
    for (let round = 0; round < 5; round++) {
      const answers = await Promise.all(Array.from({ length: 40 }, () => own.request("GET", "/ready")));
      expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]));
    }
    // It holds for a second.
    const seconds = Math.ceil((performance.now() - startMs) / 1000);
    expect((await calls()) - before).toBeGreaterThan(0);
    expect((await calls()) - before).toBeLessThanOrEqual(seconds + 1);
    await own.stop();
  });
});

describe("the database", () => {
  it("is held by at most two connections, whatever comes in", async () => {
    const own = await t.start({ environment: { SVC_SELF_SERVICE_MINT: "true" } });
    let most = 0;
    const watch = { busy: true };
    const watching = (async () => {
      while (watch.busy) {
        most = Math.max(
          most,
          await own.count(`
            select count(*) n from pg_stat_activity
            where datname = current_database() and application_name <> 'test'
              and backend_type = 'client backend'`),
        );
      }
    })();
    await Promise.all(
      Array.from({ length: 150 }, (_, i) =>
        i % 3 === 0
          ? own.request("POST", ingestion, {
              cookie: t.admin,
              body: { name: "k", audience: `a${i}` },
            })
          : own.request("GET", i % 3 === 1 ? ingestion : "/ready", { cookie: t.admin }),
      ),
    );
    watch.busy = false;
    await watching;
    expect(most).toBe(2);
    await own.stop();
  });

  it("is required while authentication is on: the program refuses to start and names the variable", async () => {
    const { code, stderr } = await runProgram("src/bin/analytics-web-srv.js", [], {
      env: { SVC_WEB_LISTEN: "127.0.0.1:0", SVC_OIDC_CONFIG: t.identities.config },
    });
    expect(code).toBe(1);
    expect(stderr).toMatch(/SVC_SQL_CONNECTION_STRING/);
  });

  it("and so is a way to log in", async () => {
    const start = startWebServer({
      config: parseConfig("web", [], { SVC_WEB_LISTEN: "127.0.0.1:0" }),
      connectionString: t.web.database.connectionString,
      logger: createSilentLogger(),
      metrics: createMetrics(),
    });
    await expect(start).rejects.toThrow(/SVC_OIDC_CONFIG/);
  });

  it("is never migrated: on an empty one the server starts, and its routes are an opaque 500", async () => {
    const database = await createTestDatabase({ migrate: false });
    const own = await t.start({ database });
    for (const answer of [
      await own.request("GET", ingestion, { cookie: t.admin }),
      await own.request("POST", ingestion, { cookie: t.admin, body: { name: "k" } }),
    ]) {
      expect([answer.status, answer.json.code]).toEqual([500, "INTERNAL"]);
    }
    expect(await own.count("select count(*) n from pg_class where relnamespace = 'public'::regnamespace")).toBe(0);
    await own.stop();
  });
});

describe("an old or altered schema", () => {
  it.each([5, 6])("of version %i: the key routes are 500, or 503 where only grants are missing", async (version) => {
    const directory = await mkdtemp(path.join(tmpdir(), "web-old-schema-"));
    const migrations = fileURLToPath(new URL("../../../../migrations/", import.meta.url));
    const files = (await readdir(migrations)).filter((name) => name.endsWith(".sql")).toSorted();
    for (const name of files.slice(0, version)) {
      await cp(path.join(migrations, name), path.join(directory, name));
    }
    const database = await createTestDatabase({ migrate: false });
    await migrate(database.sql, createSilentLogger(), {
      directory: pathToFileURL(`${directory}/`),
    });
    await rm(directory, { recursive: true });
    const own = await t.start({ database });
    const expected = version < 6 ? [500, "INTERNAL"] : [503, "UNAVAILABLE"];
    for (const answer of [
      await own.request("POST", ingestion, {
        cookie: t.admin,
        body: { name: "k", audience: "a" },
      }),
      await own.request("GET", ingestion, { cookie: t.admin }),
    ]) {
      expect([answer.status, answer.json.code]).toEqual(expected);
    }
    await own.stop();
  });

  it("that refuses a missing audience: 500 with a request id that the log has, and nothing else", async () => {
    const own = await t.start();
    // What a web server that knows no audiences would insert.
    await own.database.sql.unsafe(`
      create function drop_audience() returns trigger language plpgsql as
        $$ begin new.audience := null; return new; end $$;
      create trigger outdated before insert on ingestion_api_keys
        for each row execute function drop_audience()`);
    const answer = await own.request("POST", ingestion, {
      cookie: t.admin,
      body: { name: "secret-name", audience: "a" },
    });
    expect(answer.status).toBe(500);
    expect(answer.text).toMatch(/^\{"code":"INTERNAL","message":"internal error; request id [0-9a-f-]{36}"\}$/);
    const requestId = /[0-9a-f-]{36}/.exec(answer.text)?.[0] ?? "none";
    const line = own.log.find((text) => text.includes(requestId));
    expect(line).toMatch(/null value in column/);
    // Nothing of the claim stays.
    expect(await own.count("select count(*) n from audience_grants where audience = 'a'")).toBe(0);
    await own.stop();
  });
});

describe("503 UNAVAILABLE", () => {
  it("when the audience-grant query itself fails", async () => {
    const name = `web_${randomBytes(6).toString("hex")}`;
    const { sql } = t.web.database;
    await sql.unsafe(`create role ${name} login password 'p'`);
    await sql.unsafe(`grant select on ingestion_api_keys, group_members to ${name}`);
    const own = await t.start({
      beside: t.web,
      connectionString: (original) => {
        const url = new URL(original);
        url.username = name;
        url.password = "p";
        return url.href;
      },
    });
    const body = { name: "k", audience: "a" };
    const answer = await own.request("POST", ingestion, { cookie: t.admin, body });
    expect([answer.status, answer.json.code]).toEqual([503, "UNAVAILABLE"]);
    expect(answer.headers.get("retry-after")).toBe("1");
    const mine = await own.request("GET", "/api/audience-grants/my-audiences", { cookie: t.admin });
    expect([mine.status, mine.json.code]).toEqual([503, "UNAVAILABLE"]);
    await own.stop();
    await sql.unsafe(`drop owned by ${name}`);
    await sql.unsafe(`drop role ${name}`);
  });

  it("while the database is away, and never 401 or 500; everything works when it is back", async () => {
    const proxy = await startTcpProxy(t.web.database.connectionString);
    const own = await t.start({
      beside: t.web,
      connectionString: () => proxy.connectionString,
    });
    const list = () => own.request("GET", ingestion, { cookie: t.admin });
    expect((await list()).status).toBe(200);
    await proxy.refuse();
    for (const answer of [
      await list(),
      await own.request("POST", ingestion, { cookie: t.admin, body: { name: "k", audience: "x" } }),
      await own.request("GET", "/api/groups", { cookie: t.admin }),
    ]) {
      expect([answer.status, answer.json.code]).toEqual([503, "UNAVAILABLE"]);
      expect(answer.headers.get("retry-after")).toBe("1");
    }
    expect((await own.request("GET", "/health")).status).toBe(200);
    expect((await own.request("GET", "/ready")).status).toBe(503);
    await proxy.restore();
    await expect.poll(async () => (await list()).status).toBe(200);
    await own.stop();
    await proxy.stop();
  });

  it("while the identity provider is away: tokens cannot be checked, which is not 401", async () => {
    const others = await startIdentities();
    const own = await startTestWeb({ identities: others, beside: t.web });
    await others.provider.goDown();
    const cookie = await others.cookie("admin@example.com");
    const answer = await own.request("GET", ingestion, { cookie });
    expect([answer.status, answer.json.code]).toEqual([503, "UNAVAILABLE"]);
    await own.stop();
    await others.stop();
  });
});

it("runs under the rights of its database role alone", async () => {
  const own = await t.start({
    connectionString: (original) => original,
    environment: { SVC_SELF_SERVICE_MINT: "true" },
  });
  const { sql } = own.database;
  const role = await readFile(new URL("../../../../migrations/roles/web.sql", import.meta.url), "utf8");
  await sql.unsafe(role);
  const name = `web_${randomBytes(6).toString("hex")}`;
  await sql.unsafe(`create role ${name} login password 'p'`);
  await sql.unsafe(`grant telemetry_web to ${name}`);
  const narrow = await t.start({
    beside: own,
    connectionString: (original) => {
      const url = new URL(original);
      url.username = name;
      url.password = "p";
      return url.href;
    },
  });
  const statuses: number[] = [];
  const send = async (method: string, target: string, body?: unknown): Promise<unknown> => {
    const answer = await narrow.request(method, target, {
      cookie: t.admin,
      ...(body === undefined ? {} : { body }),
    });
    statuses.push(answer.status);
    return answer.json;
  };
  const minted = (await send("POST", ingestion, { name: "k", audience: "r" })) as {
    key_id: string;
  };
  await send("POST", ingestion, { name: "k", audience: "r" });
  await send("GET", ingestion);
  await send("DELETE", `${ingestion}/${minted.key_id}`);
  const other = (await send("POST", "/api/analytics-api-keys", { name: "k" })) as {
    key_id: string;
  };
  await send("GET", "/api/analytics-api-keys");
  await send("DELETE", `/api/analytics-api-keys/${other.key_id}`);
  await send("POST", "/api/audience-grants", { audience: "r", kind: "read", member: "*" });
  await send("GET", "/api/audience-grants");
  await send("DELETE", "/api/audience-grants?audience=r&kind=read&member=*");
  await send("GET", "/api/audience-grants/my-audiences");
  await send("POST", "/api/groups", { name: "g" });
  await send("GET", "/api/groups");
  await send("POST", "/api/groups/g/members", { member: "*" });
  await send("GET", "/api/groups/g/members");
  await send("DELETE", "/api/groups/g/members?member=*");
  await send("DELETE", "/api/groups/g");
  await send("GET", "/api/audit");
  await narrow.stop();
  await sql.unsafe(`drop role ${name}`);
  await own.stop();
  expect(statuses).toEqual([201, 201, 200, 200, 201, 200, 200, 201, 200, 204, 200, 201, 200, 201, 200, 204, 204, 200]);
});

describe("the base path", () => {
  it("is in front of every route, and health is at the root as well", async () => {
    const own = await t.start({
      beside: t.web,
      environment: { SVC_BASE_PATH: "/telemetry/" },
    });
    expect(own.url).toMatch(/\/telemetry$/);
    expect((await own.request("GET", "/api/groups", { cookie: t.admin })).status).toBe(200);
    expect((await own.request("GET", "/auth/me", { cookie: t.admin })).status).toBe(200);
    const root = own.url.replace("/telemetry", "");
    for (const [address, status] of [
      [`${own.url}/health`, 200],
      [`${root}/health`, 200],
      [`${own.url}/ready`, 200],
      [`${own.url}/metrics`, 200],
      [`${root}/api/openapi.json`, 404],
      [`${root}/telemetry`, 200],
      [`${root}/telemetryapi/groups`, 404],
    ] as const) {
      expect([address, (await fetch(address)).status]).toEqual([address, status]);
    }
    const document = (await own.request("GET", "/api/openapi.json")).json;
    expect(document.servers).toEqual([{ url: "/telemetry" }]);
    await own.stop();
  });
});

it("stops by answering what it has taken, and refuses what comes after", async () => {
  const own = await t.start({ environment: { SVC_SELF_SERVICE_MINT: "true" } });
  await own.request("GET", "/api/groups", { cookie: t.admin });
  const mints = Array.from({ length: 50 }, (_, i) =>
    own.request("POST", ingestion, { cookie: t.admin, body: { name: "k", audience: `d${i}` } }).then(
      ({ status }) => status,
      () => 0,
    ),
  );
  expect(await mints[0]).toBe(201);
  await own.server.stop();
  const statuses = await Promise.all(mints);
  const minted = statuses.filter((status) => status === 201).length;
  expect(statuses.every((status) => [201, 503, 0].includes(status))).toBe(true);
  // Whatever was made was also answered.
  expect(await own.count("select count(*) n from ingestion_api_keys")).toBe(minted);
  await own.stop();
});

it("counts its requests by operation and status, without a name or an id among the labels", async () => {
  await t.web.request("GET", ingestion, { cookie: t.admin });
  await t.web.request("DELETE", `${ingestion}/some-id`, { cookie: t.admin });
  const text = await (await fetch(`${t.web.url}/metrics`)).text();
  expect(text).toMatch(/web_requests_total\{operation="listIngestionKeys",status="200"\} [1-9]/);
  expect(text).toMatch(/web_requests_total\{operation="revokeIngestionKey",status="404"\} [1-9]/);
  expect(text).not.toContain("some-id");
});
