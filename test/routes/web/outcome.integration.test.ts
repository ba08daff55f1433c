/** What becomes of a change whose answer is late or lost: no 503 for one that was made, no key that nobody has. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { type AdminService, createAdminService } from "../../../src/admin/admin-service.js";
import type { Caller } from "../../../src/auth/caller.js";
import { createSilentLogger } from "../../../src/runtime/log/log.js";
import { startTcpProxy, type TcpProxy } from "../../helpers/auth/auth-tcp-proxy.js";
import { createTestDatabase, type TestDatabase } from "../../helpers/postgres/postgres.js";
import { RawConnection } from "../../helpers/http/raw-http.js";
import { type Identities, startIdentities, startTestWeb } from "../../helpers/web/web-server.js";
import { until } from "../../helpers/until.js";

const caller: Caller = { issuer: "i", subject: "s", email: "ann@example.com", name: "ann@example.com" };
const origin = { from: "127.0.0.1", forwardedFor: null };
const policy = {
  selfServiceMint: true,
  maxClaimsPerCaller: 25,
  maxKeysPerCaller: 100,
  defaultAudience: "public",
  reservedAudiences: new Set(["public"]),
};

/** Resolves when `statement` counts something as `n`. */
function untilCounted(database: TestDatabase, statement: string): Promise<void> {
  return until(async () => {
    const [row] = await database.sql.unsafe<{ n: number }[]>(statement);
    return Number(row?.n) > 0;
  });
}

const committing = `
  select count(*)::int n from pg_stat_activity
  where application_name = 'telemetry-web' and wait_event = 'PgSleep'
    and datname = current_database()`;

describe("a change whose commit is not answered in time", () => {
  let database: TestDatabase;
  let proxy: TcpProxy;
  let service: AdminService;

  beforeAll(async () => {
    database = await createTestDatabase();
    await database.sql.unsafe(`
      create table pause (seconds float8);
      insert into pause values (0);
      create function slow_commit() returns trigger language plpgsql as
        $$ begin perform pg_sleep(seconds) from pause; return null; end $$;
      create constraint trigger slow after insert on audit_log
        deferrable initially deferred for each row execute function slow_commit()`);
  });
  afterAll(async () => {
    await database.drop();
  });
  /** `seconds`: how long a commit takes. */
  const start = async (seconds: number, settleMs = 5000): Promise<void> => {
    proxy = await startTcpProxy(database.connectionString);
    const connectionString = proxy.connectionString;
    service = createAdminService({
      connectionString,
      policy,
      logger: createSilentLogger(),
      deadlineMs: 2000,
      settleMs,
    });
    // Connections are made and statements prepared before the time counts.
    await service.probe();
    await database.sql`update pause set seconds = ${seconds}`;
  };
  const stop = async (): Promise<void> => {
    await service.stop();
    await proxy.stop();
  };
  const mint = (audience: string): ReturnType<AdminService["handle"]> =>
    service.handle({
      operation: "mintIngestionKey",
      caller,
      origin,
      path: {},
      query: "",
      body: Buffer.from(JSON.stringify({ name: "k", audience })),
    });
  const keysOf = async (audience: string): Promise<number> => {
    const rows = await database.sql`select from ingestion_api_keys where audience = ${audience}`;
    return rows.length;
  };

  it("is answered as made when Postgres committed it", async () => {
    await start(0.5);
    const answer = mint("committed");
    await untilCounted(database, committing);
    // The commit goes on; its answer is swallowed.
    proxy.forget();
    const { status, body } = await answer;
    expect(status).toBe(201);
    expect(JSON.parse(body ?? "")).toMatchObject({ audience: "committed", claimed: true });
    expect(await keysOf("committed")).toBe(1);
    await stop();
  });

  it("is undone and answered 503 when it is still under way: nothing is made later", async () => {
    await start(60);
    await expect(mint("undone")).rejects.toMatchObject({
      code: "UNAVAILABLE",
      message: expect.stringContaining("nothing was changed") as string,
    });
    await database.sql`update pause set seconds = 0`;
    expect(await keysOf("undone")).toBe(0);
    const [backend] = await database.sql.unsafe<{ n: number }[]>(committing);
    expect(backend?.n).toBe(0);
    expect((await mint("undone")).status).toBe(201);
    await stop();
  });

  it("says that it may have been made when the database stays away", async () => {
    await start(2.5, 600);
    const refusal = mint("unknown").then(
      () => null,
      (error: unknown) => error,
    );
    await untilCounted(database, committing);
    proxy.hang();
    expect(await refusal).toMatchObject({
      code: "UNAVAILABLE",
      message: expect.stringContaining("may have been made") as string,
    });
    // And here it was.
    await until(async () => (await keysOf("unknown")) === 1);
    await proxy.restore();
    await stop();
  }, 45_000);

  it("a claim whose turn comes after its deadline is not begun", async () => {
    await start(60);
    const audiences = ["first", "second", "third"];
    const refusals = audiences.map((audience) =>
      mint(audience).then(
        () => null,
        (error: unknown) => (error as { code: string }).code,
      ),
    );
    // The first is stuck; those behind it would go through.
    await untilCounted(database, committing);
    await database.sql`update pause set seconds = 0`;
    expect(await Promise.all(refusals)).toEqual(audiences.map(() => "UNAVAILABLE"));
    // What was still queued would come before this.
    expect((await mint("fourth")).status).toBe(201);
    for (const audience of audiences) {
      expect([audience, await keysOf(audience)]).toEqual([audience, 0]);
    }
    await stop();
  }, 45_000);
});

describe("a key whose answer reaches nobody", () => {
  let identities: Identities;
  beforeAll(async () => {
    identities = await startIdentities();
    return () => identities.stop();
  });

  it.each([
    ["ingestion", "ingestion_api_keys", { name: "lost", audience: "lost" }],
    ["analytics", "analytics_api_keys", { name: "lost" }],
  ])("is revoked in its minter's name: %s", async (kind, table, fields) => {
    const web = await startTestWeb({ identities });
    const { sql } = web.database;
    const cookie = await identities.cookie("admin@example.com");
    const body = JSON.stringify(fields);
    const holder = await sql.reserve();
    await holder`begin`;
    await holder.unsafe(`lock table ${table} in exclusive mode`);
    const connection = await RawConnection.open(web.server.address.port);
    connection.send(
      `POST /api/${kind}-api-keys HTTP/1.1\r\nHost: x\r\nCookie: ${cookie}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    );
    await untilCounted(
      web.database,
      `select count(*)::int n from pg_locks where relation = '${table}'::regclass and not granted and database = (select oid from pg_database where datname = current_database())`,
    );
    connection.cut();
    // The server has seen the client go when it has answered somebody who came after.
    await web.request("GET", "/api/openapi.json");
    await web.request("GET", "/api/openapi.json");
    await holder`commit`;
    holder.release();
    await untilCounted(
      web.database,
      `select count(*)::int n from ${table} where name = 'lost' and revoked_by = 'admin@example.com'`,
    );
    const [entry, before] = (await web.request("GET", "/api/audit?limit=2", { cookie })).json;
    expect(entry).toMatchObject({
      action: "key.revoke",
      actor: "admin@example.com",
      details: { table, because: "its minting was never answered" },
    });
    expect(before).toMatchObject({ action: "key.mint", target: entry.target });
    await web.stop();
  });
});
