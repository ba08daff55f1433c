/**
 * Audiences end to end: applications with the real OpenTelemetry SDK write under keys of two audiences,
 * as an OIDC caller and without authentication; callers with different grants read back through Flight
 * SQL. What carries an audience never meets another's, and unstamped rows follow SVC_UNSTAMPED_AUDIENCE.
 */
import { fileURLToPath } from "node:url";
import path from "node:path";

import { DuckDBInstance } from "@duckdb/node-api";
import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { flightInfo, grpcOk, grpcUnauthenticated } from "../helpers/auth/auth-grpc.js";
import {
  type RunningAnalytics,
  type RunningIngestion,
  startTestService,
  type TestService,
} from "../helpers/auth/auth-service.js";
import { freshMark, protobufLogs } from "../helpers/otlp/otlp-bodies.js";
import { sendWithSdk } from "../helpers/otlp/sdk-traffic.js";

const views = ["log_entries", "measures", "histograms", "spans", "processes", "streams", "blocks"];
const sameBytes = protobufLogs(freshMark(), 3, "same-bytes");

let t: TestService;
let ingestion: RunningIngestion;
let analytics: RunningAnalytics;
/** Credentials of writers by the audience that their rows must carry. */
let writers: { red: string; blue: string; unstamped: string };

async function send(server: RunningIngestion, key: string): Promise<void> {
  const common = { url: server.url, key, service: "checkout" };
  await sendWithSdk({ ...common, format: "protobuf", compression: "none" });
  await sendWithSdk({ ...common, format: "json", compression: "gzip" });
}

async function postSame(server: RunningIngestion, credential: string | null): Promise<void> {
  const { status } = await server.post(credential, { body: sameBytes });
  if (status !== 200) {
    throw new Error(`the server answered ${status}`);
  }
}

beforeAll(async () => {
  t = await startTestService();
  ingestion = await t.startIngestion({ SVC_INGESTION_ACCEPTORS: "2" });
  // Grants count at once: nothing is cached.
  analytics = await t.startAnalytics({ SVC_AUTH_CACHE_TTL_SECONDS: "0" });
  writers = {
    red: (await t.mintIngestion("red")).key,
    blue: (await t.mintIngestion("blue")).key,
    unstamped: await t.token({ email: "writer@example.com" }),
  };
  // The same resource attributes for all, so that only the audience tells them apart; at the same time,
  // so that they share batches.
  await Promise.all(
    Object.values(writers).map(async (credential) => {
      await send(ingestion, credential);
      await postSame(ingestion, credential);
    }),
  );
  // And once more without any authentication, which must be the same as OIDC.
  const open = await t.startIngestion({ SVC_DISABLE_AUTH: "true" });
  await postSame(open, null);
  await open.stop();
});

afterAll(async () => {
  await t.stop();
});

/** Audience of every process, `-` for none. */
async function audienceByProcess(): Promise<Map<string, string>> {
  const rows = await t.sql<{ id: string; audience: string }[]>`
    select process_id::text as id, coalesce(audience, '-') as audience from processes`;
  return new Map(rows.map((row) => [row.id, row.audience]));
}

/** The audiences whose rows a caller finds in every view; they must be the same in each. */
async function audiencesRead(server: RunningAnalytics, credential: string): Promise<string[]> {
  const byProcess = await audienceByProcess();
  const answers = await Promise.all(
    views.map(async (view) => {
      const rows = await server.query(credential, `select distinct process_id as id from ${view}`);
      const found = rows.map(({ id }) => (typeof id === "string" ? byProcess.get(id) : null) ?? "?");
      return [...new Set(found)].toSorted();
    }),
  );
  for (const answer of answers) {
    expect(answer).toEqual(answers[0]);
  }
  return answers[0] ?? [];
}

describe("rows written under two audiences and none", () => {
  test("have processes, streams and blocks of their own, even for the same bytes", async () => {
    for (const [table, perAudience] of [
      // One process from the SDK, one of the bytes sent by hand.
      ["processes", 2],
      ["streams", 3 + 1],
    ] as const) {
      const rows = await t.sql<{ audience: string; count: number }[]>`
        select coalesce(audience, '-') as audience, count(*)::int as count
        from ${t.sql(table)} group by 1 order by 1`;
      expect(rows.map((row) => [table, row.audience, row.count])).toEqual([
        [table, "-", perAudience],
        [table, "blue", perAudience],
        [table, "red", perAudience],
      ]);
    }
    const mixed = await t.sql`
      select from blocks b
      join streams s on s.stream_id = b.stream_id
      join processes p on p.process_id = b.process_id and p.process_id = s.process_id
      where b.audience is distinct from s.audience or b.audience is distinct from p.audience`;
    expect(mixed).toHaveLength(0);
    const [same] = await t.sql<{ blocks: number; audiences: number }[]>`
      select count(*)::int as blocks, count(distinct coalesce(b.audience, '-'))::int as audiences
      from blocks b join processes p using (process_id) where p.service_name = 'same-bytes'`;
    // Sent four times: twice unstamped, which is the same block.
    expect(same).toEqual({ blocks: 3, audiences: 3 });
  });

  test("never share an object of the lake, and each holds rows of its audience only", async () => {
    const byProcess = await audienceByProcess();
    const partitions = await t.sql<{ path: string; audience: string }[]>`
      select path, coalesce(audience, '-') as audience from lakehouse_partitions`;
    expect(new Set(partitions.map((p) => p.audience))).toEqual(new Set(["-", "blue", "red"]));
    const instance = await DuckDBInstance.create(":memory:", { threads: "1" });
    const connection = await instance.connect();
    for (const partition of partitions) {
      const file = path.join(fileURLToPath(t.storeUri), partition.path);
      const reader = await connection.runAndReadAll(
        `select distinct process_id::text from read_parquet('${file}', hive_partitioning = false)`,
      );
      const found = reader.getRowsJS().map(([id]) => (typeof id === "string" ? byProcess.get(id) : undefined));
      expect(new Set(found)).toEqual(new Set([partition.audience]));
    }
    connection.closeSync();
    instance.closeSync();
  });
});

describe("what callers read back through Flight SQL", () => {
  test("is their audiences and, while everybody may read public, unstamped rows", async () => {
    const red = await t.mintAnalytics(["red"]);
    const both = await t.mintAnalytics(["red", "blue"]);
    const nothing = await t.mintAnalytics();
    expect(await audiencesRead(analytics, red.key)).toEqual(["-", "red"]);
    expect(await audiencesRead(analytics, both.key)).toEqual(["-", "blue", "red"]);
    expect(await audiencesRead(analytics, nothing.key)).toEqual(["-"]);
  });

  test("follows grants to user:, to group: and to * for OIDC callers", async () => {
    const ann = await t.token({ sub: "ann", email: "Ann@Example.com" });
    const bob = await t.token({ sub: "bob", email: "bob@example.com" });
    const unverified = await t.token({ email: "ann@example.com", email_verified: false });
    const nameless = await t.token({ sub: "robot" });
    await t.grant("red", "user:ann@EXAMPLE.com");
    await t.sql`insert into groups (name, created_by) values ('ops', 'test')`;
    await t.sql`
      insert into group_members (group_name, member, created_by)
      values ('ops', 'user:Bob@example.com', 'test')`;
    await t.grant("blue", "group:ops");
    expect(await audiencesRead(analytics, ann)).toEqual(["-", "red"]);
    expect(await audiencesRead(analytics, bob)).toEqual(["-", "blue"]);
    expect(await audiencesRead(analytics, unverified)).toEqual(["-"]);
    expect(await audiencesRead(analytics, nameless)).toEqual(["-"]);
    await t.grant("blue", "*");
    expect(await audiencesRead(analytics, ann)).toEqual(["-", "blue", "red"]);
    expect(await audiencesRead(analytics, nameless)).toEqual(["-", "blue"]);
    expect(await audiencesRead(analytics, (await t.mintAnalytics()).key)).toEqual(["-", "blue"]);
    await t.sql`delete from audience_grants where audience = 'blue'`;
    expect(await audiencesRead(analytics, bob)).toEqual(["-"]);
  });

  test("is nothing at all without a grant once the grant of public to everyone is gone", async () => {
    const red = await t.mintAnalytics(["red"]);
    const nameless = await t.token();
    await t.sql`delete from audience_grants where audience = 'public' and member = '*'`;
    expect(await audiencesRead(analytics, nameless)).toEqual([]);
    expect(await audiencesRead(analytics, red.key)).toEqual(["red"]);
    await t.grant("public", "*");
    expect(await audiencesRead(analytics, red.key)).toEqual(["-", "red"]);
  });

  test("confers nothing on an admin who holds no grant", async () => {
    const admin = await t.token({ email: "root@example.com" });
    await t.sql`delete from audience_grants where audience = 'public'`;
    // `admins` holds *, so everybody is admin here.
    expect(await audiencesRead(analytics, admin)).toEqual([]);
    await t.grant("public", "*");
  });
});

describe("admin functions of SQL", () => {
  const listDenials = async (credential: string): Promise<number | null> => {
    const authorization = `Bearer ${credential}`;
    const sql = "select * from list_query_denials()";
    return (await flightInfo(analytics.port, { authorization }, sql)).status;
  };

  test("are for everybody, keys included, while admins holds *", async () => {
    expect(await listDenials(await t.token())).toBe(grpcOk);
    expect(await listDenials((await t.mintAnalytics()).key)).toBe(grpcOk);
  });

  test("are otherwise for members by email alone, and do not exist for others", async () => {
    await t.sql`
      insert into group_members (group_name, member, created_by)
      values ('admins', 'user:root@example.com', 'test')`;
    await t.sql`delete from group_members where group_name = 'admins' and member = '*'`;
    const root = { sub: "root", email: "Root@example.com" };
    expect(await listDenials(await t.token(root))).toBe(grpcOk);
    const others = [
      await t.token({ ...root, email_verified: false }),
      await t.token({ sub: "root@example.com" }),
      await t.token({ email: "ann@example.com" }),
      (await t.mintAnalytics(["red"])).key,
    ];
    for (const credential of others) {
      expect(await listDenials(credential)).not.toBe(grpcOk);
    }
  });
});

describe("unstamped rows", () => {
  test("are read as the audience of SVC_UNSTAMPED_AUDIENCE", async () => {
    const red = await t.mintAnalytics(["red"]);
    const blue = await t.mintAnalytics(["blue"]);
    const server = await t.startAnalytics({ SVC_UNSTAMPED_AUDIENCE: "blue" });
    expect(await audiencesRead(server, red.key)).toEqual(["red"]);
    expect(await audiencesRead(server, blue.key)).toEqual(["-", "blue"]);
  });

  test("are invisible to everyone when it is empty, under --disable-auth, too", async () => {
    const both = await t.mintAnalytics(["red", "blue", "public"]);
    const closed = await t.startAnalytics({ SVC_UNSTAMPED_AUDIENCE: "" });
    expect(await audiencesRead(closed, both.key)).toEqual(["blue", "red"]);
    const open = await t.startAnalytics({ SVC_UNSTAMPED_AUDIENCE: "", SVC_DISABLE_AUTH: "true" });
    expect(await audiencesRead(open, "nobody")).toEqual(["blue", "red"]);
  });

  test("are visible like all others under --disable-auth otherwise", async () => {
    const open = await t.startAnalytics({ SVC_DISABLE_AUTH: "true" });
    expect(await audiencesRead(open, "nobody")).toEqual(["-", "blue", "red"]);
  });
});

test("keys of one table are nothing to the other server", async () => {
  const { key } = await t.mintAnalytics(["red"]);
  expect(await ingestion.post(key)).toMatchObject({ status: 401 });
  expect(await flightInfo(analytics.port, { authorization: `Bearer ${writers.red}` })).toMatchObject({
    status: grpcUnauthenticated,
    message: "invalid token",
  });
});
