/** The same bytes under the same audience are stored once, however and wherever they are sent. */
import { afterAll, beforeAll, expect, test } from "vitest";

import { identityDirectory } from "../../src/lake/retention/lake-identity.js";
import { startTestIngestion, type TestIngestion } from "../helpers/servers/ingest-server.js";
import { freshMark, protobufLogs } from "../helpers/otlp/otlp-bodies.js";

let t: TestIngestion;
let other: TestIngestion;

beforeAll(async () => {
  t = await startTestIngestion();
  other = await startTestIngestion({ beside: t });
});

afterAll(async () => {
  await other.stop();
  await t.stop();
});

async function countOf(mark: string): Promise<number> {
  return (await t.rows("log_entries", `select 1 as found from t where msg like '${mark}%'`)).length;
}

async function orphans(): Promise<number> {
  const { openObjectStore } = await import("../../src/lake/store/open-store.js");
  const store = await openObjectStore(t.storeUri);
  const known = await t.database.sql<{ path: string }[]>`select path from lakehouse_partitions`;
  const published = new Set(known.map((row) => row.path));
  let found = 0;
  for await (const object of store.list("")) {
    if (!published.has(object.path) && !object.path.startsWith(`${identityDirectory}/`)) {
      found++;
    }
  }
  return found;
}

test("sent one after the other", async () => {
  const mark = freshMark();
  const body = protobufLogs(mark, 4);
  const before = await t.metric("ingestion_records_total");
  for (let i = 0; i < 3; i++) {
    expect((await t.post("logs", body)).status).toBe(200);
  }
  expect(await countOf(mark)).toBe(4);
  expect((await t.metric("ingestion_records_total")) - before).toBe(4);
});

test("sent at once, among others, to one server and to two", async () => {
  const mark = freshMark();
  const bodies = Array.from({ length: 12 }, (_, i) => protobufLogs(`${mark} ${i}`, 3));
  const statuses = await Promise.all(
    Array.from({ length: 96 }, async (_, i) => {
      const server = i % 2 === 0 ? t : other;
      return (await server.post("logs", bodies[i % bodies.length] ?? Buffer.alloc(0))).status;
    }),
  );
  expect(new Set(statuses)).toEqual(new Set([200]));
  expect(await countOf(mark)).toBe(36);
});

test("twice in one request", async () => {
  const mark = freshMark();
  const body = protobufLogs(mark, 2);
  expect((await t.post("logs", Buffer.concat([body, body]))).status).toBe(200);
  expect(await countOf(mark)).toBe(2);
});

test("known bytes beside new ones in one request: the new ones are stored", async () => {
  const mark = freshMark();
  const known = protobufLogs(`${mark} known`, 2);
  const fresh = protobufLogs(`${mark} fresh`, 2);
  expect((await t.post("logs", known)).status).toBe(200);
  expect((await t.post("logs", Buffer.concat([known, fresh]))).status).toBe(200);
  expect(await countOf(mark)).toBe(4);
});

test("the same bytes under another audience are stored again", async () => {
  const mark = freshMark();
  const body = protobufLogs(mark);
  const key = await t.mint("team-dup");
  expect((await t.post("logs", body)).status).toBe(200);
  expect((await t.post("logs", body, { authorization: `Bearer ${key}` })).status).toBe(200);
  expect(await countOf(mark)).toBe(2);
});

test("objects written in vain for duplicates are removed", async () => {
  await expect.poll(orphans).toBe(0);
});
