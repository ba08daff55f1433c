/**
 * Servers on a bucket whose store breaks in each of its ways, all the time: what is sent meanwhile is refused with 503 and
 * `Retry-After`, or acknowledged and found once; `/ready` says it while nothing can be written; and when the store is well
 * again everything goes on by itself.
 */
import { randomUUID } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";

import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";

import { mintAnalyticsKey, mintIngestionKey } from "../../src/auth/keys/keys.js";
import { withEndpoint } from "../../src/lake/store/s3-address.js";
import { openS3Store } from "../../src/lake/store/s3-store.js";
import { enough } from "../../src/lake/merge/merge-levels.js";
import { sweepOrphans } from "../../src/lake/sweep.js";
import { connectRows } from "../helpers/flight/flight-rows.js";
import { recordMinted } from "../helpers/cleartext/cleartext-tap.js";
import { type FaultyBucket, startFaultyBucket } from "../helpers/lake/faulty-bucket.js";
import { type Fault, type FaultProxy, findS3Server, replaces, s3Environment } from "../helpers/lake/s3-server.js";
import { protobufLogs } from "../helpers/otlp/otlp-bodies.js";
import { createTestDatabase, type TestDatabase } from "../helpers/postgres/postgres.js";
import { seededRandom } from "../helpers/seeded-random.js";
import { type ServerProcess, startServerProcess } from "../helpers/servers/server-process.js";
import { until } from "../helpers/until.js";

const program = await findS3Server();
const recordsPerRequest = 7;
const service = "broken";
const always =
  (fault: Fault, ...methods: readonly string[]): FaultProxy["fault"] =>
  (method) =>
    methods.length === 0 || methods.includes(method) ? fault : null;
/** Of requests with a condition. */
const conditional =
  (status: number, code: string): FaultProxy["fault"] =>
  (_method, _url, headers) =>
    headers["if-none-match"] === undefined ? null : { kind: "status", status, code };
const isUpload = (method: string): boolean => method === "PUT" || method === "POST";

describe.skipIf(program === null)("a store that breaks", () => {
  let bucket: FaultyBucket;
  let database: TestDatabase;
  let directory = "";
  let server: ServerProcess;
  let keys: { readonly send: string; readonly read: string };
  /** Requests that were acknowledged. */
  let acknowledged = 0;

  const environment = (): Record<string, string> => ({
    ...s3Environment,
    SVC_SQL_CONNECTION_STRING: database.connectionString,
    SVC_OBJECT_STORE_URI: "s3://lake/telemetry",
    SVC_S3_ENDPOINT: bucket.proxy.endpoint,
    SVC_DATA_DIR: directory,
    SVC_INGESTION_LISTEN: "127.0.0.1:0",
    SVC_ANALYTICS_LISTEN: "127.0.0.1:0",
    SVC_ANALYTICS_HEALTH_LISTEN: "127.0.0.1:0",
    SVC_MAINTENANCE_HEALTH_LISTEN: "127.0.0.1:0",
  });

  beforeAll(async () => {
    directory = await mkdtemp(path.join(tmpdir(), "telemetry-test-s3-broken-"));
    bucket = await startFaultyBucket(program);
    database = await createTestDatabase();
    const { sql } = database;
    const read = await mintAnalyticsKey(sql, { name: "read", createdBy: "test" });
    await sql`insert into audience_grants (audience, kind, member, created_by)
      values ('a', 'read', ${`key:${read.keyId}`}, 'test')`;
    const send = await mintIngestionKey(sql, { name: "send", audience: "a", createdBy: "test" });
    recordMinted(send.key, read.key);
    keys = { send: send.key, read: read.key };
    server = await startServerProcess(
      "telemetry-monolith",
      { ...environment(), SVC_MAINTENANCE_INTERVAL_SECONDS: "0.3" },
      /OTLP\/HTTP on (http:\/\/127\.0\.0\.1:[1-9]\d*)[\s\S]*"ready"/u,
      ["--roles=ingestion,analytics,maintenance"],
    );
  });

  afterEach(() => {
    bucket.proxy.fault = () => null;
  });

  afterAll(async () => {
    await server.end("SIGTERM");
    await bucket.stop();
    await database.drop();
    await rm(directory, { recursive: true, force: true });
  });

  const post = async (mark: string): Promise<{ readonly status: number; readonly retryAfter: number }> => {
    const answer = await fetch(`${server.url}/v1/logs`, {
      method: "POST",
      headers: { authorization: `Bearer ${keys.send}`, "content-type": "application/x-protobuf" },
      body: protobufLogs(mark, recordsPerRequest, service),
    });
    await answer.arrayBuffer();
    return { status: answer.status, retryAfter: Number(answer.headers.get("retry-after")) };
  };
  /** Sends a request until it is acknowledged; anything else has to be 503, and to say when to come again. */
  const send = async (mark: string = randomUUID()): Promise<void> => {
    await until(async () => {
      const { status, retryAfter } = await post(mark);
      expect(status === 200 || (status === 503 && retryAfter > 0)).toBe(true);
      return status === 200;
    }, 120_000);
    acknowledged += 1;
  };
  const isReady = async (): Promise<boolean> => (await fetch(`${server.url}/ready`)).ok;
  const withRows = async <T>(use: (rows: ReturnType<typeof connectRows>) => Promise<T>): Promise<T> => {
    const port = Number(/Flight SQL on grpc:\/\/127\.0\.0\.1:([1-9]\d*)/u.exec(server.output())?.[1]);
    const rows = connectRows(port, keys.read);
    try {
      return await use(rows);
    } finally {
      rows.close();
    }
  };
  const countSql = `SELECT count(*)::INT AS rows, count(DISTINCT msg)::INT AS different FROM log_entries
    WHERE service_name = '${service}'`;
  /** Of what was sent: records found, and different ones among them. */
  const found = (): Promise<Record<string, unknown>[]> => withRows((rows) => rows.rows(countSql));
  /** Every acknowledged record is found, once. */
  const all = (): Record<string, unknown>[] => {
    const records = acknowledged * recordsPerRequest;
    return [{ rows: records, different: records }];
  };
  const merges = async (): Promise<number> => {
    const [row] = await database.sql<{ n: number }[]>`
      select count(*)::int as n from lakehouse_partitions where view_set = 'log_entries' and level > 0`;
    return row?.n ?? 0;
  };

  it.each([
    ["answers 500", always({ kind: "status", status: 500, code: "InternalError" })],
    ["answers 503", always({ kind: "status", status: 503, code: "SlowDown" })],
    ["takes nothing any more", always({ kind: "status", status: 507, code: "InsufficientStorage" }, "PUT", "POST")],
    ["does not answer", always({ kind: "silence" })],
    ["stores, and breaks the connection before it says so", always({ kind: "lost answer" }, "PUT", "POST")],
    ["refuses every condition", conditional(412, "PreconditionFailed")],
    ["has no conditions any more", conditional(501, "NotImplemented")],
    ["denies access", always({ kind: "status", status: 403, code: "AccessDenied" })],
  ] as const)(
    "refuses what is sent and says so while it %s, and goes on by itself",
    async (_what, fault) => {
      await send();
      bucket.proxy.fault = fault;
      const marks = Array.from({ length: 3 }, () => randomUUID());
      for (const { status, retryAfter } of await Promise.all(marks.map(post))) {
        expect(status).toBe(503);
        expect(retryAfter).toBeGreaterThan(0);
      }
      await until(async () => !(await isReady()));
      // Nothing is wrong with the process.
      expect((await fetch(`${server.url}/health`)).status).toBe(200);
      bucket.proxy.fault = () => null;
      await until(isReady);
      await Promise.all(marks.map(send));
      expect(await found()).toEqual(all());
    },
    180_000,
  );

  it("acknowledges once what comes while a condition is ignored and answers are lost", async () => {
    const random = seededRandom(3);
    const replace = replaces(bucket.server, isUpload);
    bucket.proxy.fault = (method, url, headers) => {
      replace(method, url, headers);
      return isUpload(method) && random() < 0.4 ? { kind: "lost answer" } : null;
    };
    for (let i = 0; i < enough[0]; i++) {
      await send();
    }
    bucket.proxy.fault = () => null;
    expect(await found()).toEqual(all());
  }, 180_000);

  it.each([
    ["are cut short", { kind: "cut body", bytes: 900 }, /^answered$/u],
    ["end before their first byte", { kind: "cut body", bytes: 0 }, /the object store cannot be read/u],
    ["fail", { kind: "status", status: 500, code: "InternalError" }, /the object store cannot be read/u],
    ["are not answered", { kind: "silence" }, /the object store cannot be read/u],
  ] as readonly (readonly [string, Fault, RegExp])[])(
    "stores what is sent, and answers queries right or with a sentence, while reads %s",
    async (_what, fault, words) => {
      bucket.proxy.fault = (method, url) => (method === "GET" && url.pathname.endsWith(".parquet") ? fault : null);
      // What is read for the first time comes from the store.
      await send();
      expect(await isReady()).toBe(true);
      const told = await found().then(
        (rows) => ({ rows, said: "answered" }),
        (error: unknown) => ({ rows: all(), said: String(error) }),
      );
      expect(told.rows).toEqual(all());
      expect(told.said).toMatch(words);
      bucket.proxy.fault = () => null;
      expect(await found()).toEqual(all());
    },
    180_000,
  );

  it("loses nothing to lists that lag behind, in a check that repairs and in a sweep", async () => {
    bucket.proxy.fault = (_method, url) =>
      url.searchParams.has("list-type") ? { kind: "stale list", lagMs: 60_000 } : null;
    for (let i = 0; i < enough[0]; i++) {
      await send();
    }
    const [task] = await database.sql<{ id: string }[]>`
      insert into lake_tasks (kind, request, created_by)
      values ('check', '{"deep": true, "repair": true}'::jsonb, 'test') returning task_id as id`;
    const store = await openS3Store(withEndpoint("s3://lake/telemetry", bucket.proxy.endpoint));
    const before = bucket.proxy.requests.length;
    const listed: string[] = [];
    for await (const { path: name } of store.list("log_entries")) {
      listed.push(name);
    }
    expect(bucket.proxy.requests.length).toBeGreaterThan(before);
    const standing = await database.sql<{ path: string }[]>`select path from lakehouse_partitions`;
    expect(standing.filter(({ path: name }) => listed.includes(name)).length).toBeLessThan(standing.length);
    // Nothing is on its way, so whatever the catalogue does not name may go.
    await sweepOrphans(database.sql, store, { nowMs: Date.now() + 7_200_000, prefix: "log_entries" });
    const stateOf = async () => {
      const [row] = await database.sql<{ state: string; report: { problems: { kind: string }[] } | null }[]>`
        select state, report from lake_tasks where task_id = ${task?.id ?? ""}`;
      return row;
    };
    await until(async () => ["done", "failed"].includes((await stateOf())?.state ?? ""), 120_000);
    const checked = await stateOf();
    expect(checked?.state).toBe("done");
    expect(checked?.report?.problems.filter(({ kind }) => kind !== "orphan")).toEqual([]);
    expect(await found()).toEqual(all());
  }, 180_000);

  it("merges what it has refused and taken, and keeps every record, while everything breaks now and then", async () => {
    const random = seededRandom(11);
    const faults: readonly Fault[] = [
      { kind: "status", status: 500, code: "InternalError" },
      { kind: "status", status: 503, code: "SlowDown" },
      { kind: "status", status: 409, code: "ConditionalRequestConflict" },
      { kind: "lost answer" },
      { kind: "cut body", bytes: 700 },
      { kind: "stale list", lagMs: 3000 },
    ];
    const merged = await merges();
    bucket.proxy.fault = (_method, url) => {
      const fault = random() < 0.3 ? (faults[Math.floor(random() * faults.length)] ?? null) : null;
      return fault?.kind === "stale list" && !url.searchParams.has("list-type") ? null : fault;
    };
    await Promise.all(
      Array.from({ length: 4 }, async () => {
        for (let i = 0; i < enough[0]; i++) {
          await send();
        }
      }),
    );
    bucket.proxy.fault = () => null;
    await until(async () => (await merges()) > merged);
    expect(await found()).toEqual(all());
  }, 240_000);

  const programs = [
    ["telemetry-ingestion-srv", /OTLP\/HTTP on (http:\S+)/u],
    ["telemetry-maintenance-srv", /maintenance tells how it is on (http:\S+)/u],
  ] as const;
  it.each(
    programs.flatMap(([name, announcement]) =>
      (
        [
          ["ignores conditions", (method: string) => method === "PUT", "ignores If-None-Match: "],
          ["ignores them with uploads in parts", (method: string) => method === "POST", "an upload in parts"],
        ] as const
      ).map(([what, applies, words]) => ({ name, announcement, what, applies, words })),
    ),
  )("keeps $name from starting when it $what", async ({ name, announcement, applies, words }) => {
    bucket.proxy.fault = replaces(bucket.server, (method, url) => url.pathname.includes("/.probe/") && applies(method));
    const started = startServerProcess(
      name,
      { ...environment(), SVC_DATA_DIR: path.join(directory, name) },
      announcement,
    );
    await expect(started).rejects.toThrow(words);
  });
});
