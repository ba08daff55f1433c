import { mkdir, writeFile } from "node:fs/promises";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import { Client, credentials, type ClientReadableStream, Metadata, status } from "@grpc/grpc-js";
import { tableFromIPC } from "apache-arrow";
import { connect as connectClient, staticKey } from "telemetry-service-client";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";

import { ticketOf } from "../../../bench/load/flight-reader.js";
import { mintAnalyticsKey } from "../../../src/auth/keys/keys.js";
import { viewNamesFor } from "../../../src/query/sql/views.js";
import { encodeAny, flightSqlNames } from "../../../src/wire/flight/flight-protobuf.js";
import { startTestAnalytics, type TestAnalytics } from "../../helpers/servers/analytics.js";
import type { FinishedSpan } from "../../../src/runtime/spans.js";
import { addPartition } from "../../helpers/lake/lake.js";
import { ipcOf } from "../../helpers/flight/flight-ipc.js";
import { until } from "../../helpers/until.js";
import { noon } from "../../helpers/noon.js";

const service = "/arrow.flight.protocol.FlightService";
const same = (bytes: Buffer): Buffer => bytes;
const processA = "01234567-89ab-cdef-0123-456789abcdef";

let t: TestAnalytics;
const spans: FinishedSpan[] = [];

beforeAll(async () => {
  t = await startTestAnalytics(
    {
      SVC_QUERY_TIMEOUT_SECONDS: "20",
      SVC_QUERY_MAX_CONCURRENT: "4",
    },
    undefined,
    { span: (span) => spans.push(span) },
  );
  const hour = 3_600_000_000_000n;
  for (const [audience, from] of [
    ["public", noon],
    ["secret", noon],
    [null, noon],
    ["public", noon + hour],
  ] as const) {
    await addPartition(t.lake, t.sql, {
      table: "log_entries",
      audience,
      processIds: [processA],
      rowsSql: `SELECT make_timestamp_ns(${from} + i) AS time, '${audience ?? "unstamped"} ' || i AS msg, '${processA}' AS process_id, 'svc' AS service_name, 'target' AS target, 2 AS level, '{"http.route": "/x", "a/b~c": 7}' AS properties FROM range(100) t(i)`,
      ...(from === noon ? {} : { without: ["event_name", "severity_text"] }),
    });
  }
  await addPartition(t.lake, t.sql, {
    table: "spans",
    audience: "public",
    rowsSql: `SELECT make_timestamp_ns(${noon}) AS time, 'aa' AS trace_id, 'bb' AS span_id, 'op' AS name, 'svc' AS service_name, [{'time': make_timestamp_ns(${noon} + 5), 'name': 'event', 'properties': '{}', 'dropped_attributes_count': 0}] AS events, [{'trace_id': 'cc', 'span_id': 'dd', 'trace_state': NULL, 'flags': 1, 'properties': '{}', 'dropped_attributes_count': 0}] AS links`,
  });
  for (const [id, audience] of [
    [processA, "public"],
    ["11111111-89ab-cdef-0123-456789abcdef", "secret"],
    ["22222222-89ab-cdef-0123-456789abcdef", null],
  ] as const) {
    await t.sql`insert into processes (process_id, audience, service_name, start_time, properties)
      values (${id}, ${audience}, ${`service of ${audience}`}, '2025-11-21T12:00:00.123456Z', ${t.sql.json({ "service.name": "it's" })})`;
  }
});

afterAll(async () => {
  await t.stop();
});

function connect(): Client {
  const client = new Client(`127.0.0.1:${t.port}`, credentials.createInsecure());
  onTestFinished(() => client.close());
  return client;
}

function metadata(values: Readonly<Record<string, string>> = {}): Metadata {
  const meta = new Metadata();
  for (const [name, value] of Object.entries({ authorization: `Bearer ${t.key}`, ...values })) {
    meta.set(name, value);
  }
  return meta;
}

function field(number: number, value: Uint8Array): Buffer {
  const varint = (n: number): number[] => (n < 128 ? [n] : [(n & 127) | 128, ...varint(n >> 7)]);
  return Buffer.concat([Buffer.from(varint(number * 8 + 2)), Buffer.from(varint(value.length)), value]);
}

function descriptor(sql: string): Buffer {
  const command = encodeAny(flightSqlNames.statementQuery, field(1, Buffer.from(sql)));
  return Buffer.concat([Buffer.from([8, 2]), field(2, command)]);
}

function unary(method: string, request: Buffer, meta = metadata()): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    connect().makeUnaryRequest(`${service}/${method}`, same, same, request, meta, (error, response) => {
      if (error !== null) {
        reject(error);
      } else {
        resolve(response ?? Buffer.alloc(0));
      }
    });
  });
}

function doGet(ticket: Buffer, meta = metadata()): ClientReadableStream<Buffer> {
  return connect().makeServerStreamRequest(`${service}/DoGet`, same, same, ticket, meta);
}

async function rows(sql: string, values: Readonly<Record<string, string>> = {}): Promise<Record<string, unknown>[]> {
  const ticket = ticketOf(await unary("GetFlightInfo", descriptor(sql), metadata(values)));
  const parts: Uint8Array[] = [];
  for await (const message of doGet(ticket, metadata(values)) as AsyncIterable<Buffer>) {
    parts.push(...ipcOf(message));
  }
  return Array.from(tableFromIPC(parts), (row) => row.toJSON() as Record<string, unknown>);
}

async function one(sql: string, values: Readonly<Record<string, string>> = {}): Promise<unknown> {
  const [first] = await rows(sql, values);
  const value = Object.values(first ?? {})[0];
  return typeof value === "bigint" ? Number(value) : value;
}

describe("audiences", () => {
  it("show rows of granted audiences and unstamped ones as public, and no others", async () => {
    expect(await rows("SELECT DISTINCT split_part(msg, ' ', 1) AS audience FROM log_entries ORDER BY 1")).toEqual([
      { audience: "public" },
      { audience: "unstamped" },
    ]);
    expect(await rows("SELECT service_name FROM processes ORDER BY 1")).toEqual([
      { service_name: "service of null" },
      { service_name: "service of public" },
    ]);
    expect(await one("SELECT count(*) FROM list_partitions() WHERE view_set = 'log_entries'")).toBe(3);
  });

  it("never let an expression meet a hidden row", async () => {
    expect(
      await one(
        "SELECT count(*) FROM log_entries WHERE CASE WHEN msg LIKE 'secret%' THEN error('leaked') ELSE true END",
      ),
    ).toBe(300);
  });

  it("grow by a grant to the key", async () => {
    const { key, keyId } = await mintAnalyticsKey(t.sql, { name: "other", createdBy: "test" });
    await t.sql`insert into audience_grants (audience, kind, member, created_by) values ('secret', 'read', ${`key:${keyId}`}, 'test')`;
    const authorization = `Bearer ${key}`;
    expect(await one("SELECT count(*) FROM log_entries", { authorization })).toBe(400);
    expect(await one("SELECT count(*) FROM processes", { authorization })).toBe(3);
  });
});

describe("views", () => {
  it("prune by the time range of the metadata, whose end is exclusive", async () => {
    const range = {
      "query-range-begin": "2025-11-21T12:00:00.00000001Z",
      "query-range-end": "1763726400000000020",
    };
    expect(await one("SELECT count(*) FROM log_entries", range)).toBe(20);
    await expect(one("SELECT 1", { "query-range-begin": "yesterday" })).rejects.toMatchObject({
      code: status.INVALID_ARGUMENT,
    });
  });

  it("have rows within that range by their own time, as a predicate on it would", async () => {
    const at = (ns: number): string => String(noon + BigInt(ns));
    const counts = async (view: string, begin: string, end: string): Promise<unknown[]> => [
      await one(`SELECT count(*) FROM ${view}`, {
        "query-range-begin": begin,
        "query-range-end": end,
      }),
      await one(
        `SELECT count(*) FROM ${view} WHERE time >= make_timestamp_ns(${begin}) AND time < make_timestamp_ns(${end})`,
      ),
    ];
    // The event is 5 ns after its span; a row of log_stats is at its minute and counts all of it.
    expect(await counts("span_events", at(1), at(10))).toEqual([1, 1]);
    expect(await counts("span_events", at(0), at(5))).toEqual([0, 0]);
    expect(await counts("span_links", at(0), at(1))).toEqual([1, 1]);
    expect(await counts("log_stats", at(0), at(1))).toEqual([1, 1]);
    expect(await counts("log_stats", at(1), at(1000))).toEqual([0, 0]);
    const minute = { "query-range-begin": at(0), "query-range-end": at(1) };
    expect(await one("SELECT CAST(sum(count) AS BIGINT) FROM log_stats", minute)).toBe(200);
  });

  it.each([
    ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", 300],
    ["-9223372036854775808", "9223372036854775807", 300],
    ["2025-11-21T12:00:00Z", "2262-04-11T23:47:16.854775807Z", 300],
    ["9999-12-31T00:00:00Z", "9999-12-31T00:00:00Z", 0],
    ["9223372036854775806", "9223372036854775807", 0],
    ["0001-01-01T00:00:00Z", "0002-01-01T00:00:00Z", 0],
  ])("are open on a side that lies beyond 64 bits: from %s to %s", async (begin, end, count) => {
    const range = { "query-range-begin": begin, "query-range-end": end };
    expect(await one("SELECT count(*) FROM log_entries", range)).toBe(count);
    expect(await one("SELECT CAST(coalesce(sum(count), 0) AS BIGINT) FROM log_stats", range)).toBe(count);
  });

  it.each([
    { "query-range-begin": "2026-02-30T00:00:00Z" },
    { "query-range-end": "2026-02-01T24:00:00Z" },
    { "query-range-end": "9223372036854775808" },
    { "query-range-begin": "2026-02-02T00:00:00Z", "query-range-end": "2026-02-01T00:00:00Z" },
  ])("refuse the range %j, also when only the schema is asked for", async (range) => {
    for (const method of ["GetFlightInfo", "GetSchema"]) {
      await expect(unary(method, descriptor("SELECT 1"), metadata(range))).rejects.toMatchObject({
        code: status.INVALID_ARGUMENT,
        details: expect.stringContaining("query-range") as unknown,
      });
    }
  });

  it("open only the objects that a time predicate leaves over", async () => {
    const explained = async (what: string): Promise<string> => {
      const plan = await rows(`EXPLAIN ANALYZE SELECT ${what} FROM log_entries WHERE time >= '2025-11-21T12:30:00Z'`);
      return plan.map((row) => String(row["explain_value"])).join("\n");
    };
    const text = await explained("max(msg)");
    expect(text).toMatch(/Total Files Read: 1\b/u);
    expect(text).not.toContain(t.lake.directory);
    expect(await explained("count(msg)")).toBe(
      "Nothing was measured: how many rows there are was known without reading them.",
    );
  });

  it("read objects of an older schema beside those of the present one", async () => {
    expect(await one("SELECT count(*) FROM log_entries WHERE severity_text IS NULL")).toBe(100);
  });

  it("read attributes, instances, events, links and statistics", async () => {
    expect(
      await one(
        "SELECT property_get(properties, 'http.route') || property_get(properties, 'a/b~c') FROM log_entries LIMIT 1",
      ),
    ).toBe("/x7");
    expect(await one(`SELECT count(*) FROM view_instance('log_entries', '${processA}')`)).toBe(300);
    expect(
      await rows(
        `SELECT service_name FROM view_instance('Processes', '${processA}'), (SELECT count(*) AS n FROM processes) WHERE n = 2`,
      ),
    ).toEqual([{ service_name: "service of public" }]);
    expect(
      await rows("SELECT name, trace_id, span_id, span_name, epoch_ns(time) % 1000 AS ns FROM span_events"),
    ).toEqual([{ name: "event", trace_id: "aa", span_id: "bb", span_name: "op", ns: 5n }]);
    expect(await rows("SELECT linked_trace_id, linked_span_id, trace_id FROM span_links")).toEqual([
      { linked_trace_id: "cc", linked_span_id: "dd", trace_id: "aa" },
    ]);
    expect(await rows("SELECT level, count FROM log_stats ORDER BY time")).toEqual([
      { level: 2, count: 200n },
      { level: 2, count: 100n },
    ]);
    expect(
      await rows(
        "SELECT property_get(properties, 'service.name') AS name, epoch_ns(start_time) AS ns FROM processes WHERE service_name = 'service of public'",
      ),
    ).toEqual([{ name: "it's", ns: 1_763_726_400_123_000_000n }]);
    expect((await rows("SHOW TABLES")).map((row) => row["name"])).toContain("log_stats");
  });

  it("without objects are empty and typed", async () => {
    expect(await rows("SELECT * FROM histograms")).toEqual([]);
    expect(await one("SELECT typeof(bucket_counts) FROM histograms UNION ALL SELECT 'none'")).toBe("none");
  });
});

describe("credentials", () => {
  it.each([
    ["none", {}],
    ["another scheme", { authorization: "Digest x" }],
    ["an unknown key", { authorization: "Bearer svk_nothing" }],
    ["a wrong password", { authorization: `Basic ${Buffer.from("x:y").toString("base64")}` }],
  ])("%s: UNAUTHENTICATED on every method", async (_name, values) => {
    const meta = new Metadata();
    for (const [name, value] of Object.entries(values)) {
      meta.set(name, value);
    }
    for (const method of ["GetFlightInfo", "GetSchema", "PollFlightInfo"]) {
      await expect(unary(method, descriptor("SELECT 1"), meta)).rejects.toMatchObject({
        code: status.UNAUTHENTICATED,
      });
    }
    await expect(drain(doGet(Buffer.alloc(0), meta))).rejects.toMatchObject({
      code: status.UNAUTHENTICATED,
    });
  });

  it("a password that is a key is as good as a bearer token", async () => {
    const authorization = `Basic ${Buffer.from(`user:${t.key}`).toString("base64")}`;
    expect(await one("SELECT 42", { authorization })).toBe(42);
  });
});

async function drain(stream: ClientReadableStream<Buffer>): Promise<number> {
  let messages = 0;
  for await (const message of stream as AsyncIterable<Buffer>) {
    messages += message.length > 0 ? 1 : 0;
  }
  return messages;
}

describe("results of many messages", () => {
  it("are whole, also beside others that are read slowly or left in the middle", async () => {
    const rows = 100_000;
    const read = async (word: string, delayMs: number): Promise<string> => {
      const sql = `SELECT i, '${word} ' || i AS text FROM range(${rows}) t(i)`;
      const parts: Uint8Array[] = [];
      const stream = doGet(ticketOf(await unary("GetFlightInfo", descriptor(sql))));
      for await (const message of stream as AsyncIterable<Buffer>) {
        parts.push(...ipcOf(message));
        await sleep(delayMs);
      }
      const texts = Array.from(tableFromIPC(parts), (row) => String(row["text"]));
      const wrong = texts.filter((text, i) => text !== `${word} ${i}`).length;
      return `${texts.length} rows, ${wrong} wrong`;
    };
    const leave = async (word: string): Promise<void> => {
      const sql = `SELECT i, '${word} ' || i AS text FROM range(${rows * 10}) t(i)`;
      const stream = doGet(ticketOf(await unary("GetFlightInfo", descriptor(sql))));
      await expect(
        (async () => {
          let messages = 0;
          for await (const message of stream as AsyncIterable<Buffer>) {
            messages += message.length > 0 ? 1 : 0;
            if (messages === 4) {
              stream.cancel();
            }
          }
        })(),
      ).rejects.toMatchObject({ code: status.CANCELLED });
    };
    for (let round = 0; round < 2; round++) {
      const [first, second] = await Promise.all([
        read(`first${round}`, 20),
        read(`second${round}`, 0),
        leave(`left${round}`),
      ]);
      expect([first, second]).toEqual([`${rows} rows, 0 wrong`, `${rows} rows, 0 wrong`]);
    }
  });
});

describe("tickets", () => {
  it("that were changed, made up or issued to another caller are refused", async () => {
    const ticket = ticketOf(await unary("GetFlightInfo", descriptor("SELECT 1")));
    expect(await drain(doGet(ticket))).toBe(2);
    for (const at of [ticket.length - 5, Math.floor(ticket.length / 2), ticket.length - 80]) {
      const changed = Buffer.from(ticket);
      changed[at] = (changed[at] ?? 0) ^ 1;
      await expect(drain(doGet(changed))).rejects.toMatchObject({ code: status.INVALID_ARGUMENT });
    }
    const madeUp = field(1, encodeAny(flightSqlNames.ticketStatementQuery, field(1, Buffer.alloc(64))));
    await expect(drain(doGet(madeUp))).rejects.toMatchObject({ code: status.INVALID_ARGUMENT });
    const { key } = await mintAnalyticsKey(t.sql, { name: "stranger", createdBy: "test" });
    const stranger = metadata({ authorization: `Bearer ${key}` });
    await expect(drain(doGet(ticket, stranger))).rejects.toMatchObject({
      code: status.PERMISSION_DENIED,
    });
  });
});

describe("a slow or vanished reader", () => {
  it("stops the query's production, and cancelling frees its place", async () => {
    const ticket = ticketOf(
      await unary("GetFlightInfo", descriptor("SELECT i, repeat('x', 200) AS s FROM range(100000000) t(i)")),
    );
    const stream = doGet(ticket);
    stream.on("error", () => undefined);
    await new Promise((resolve) => stream.once("data", resolve));
    stream.pause();
    await t.untilGauge("query_running", 1);
    // Production settles: what fits into the buffers between here and there, then nothing for a while.
    let sent = -1;
    let unchanged = 0;
    await until(async () => {
      const now = await t.gauge("flight_result_bytes_total");
      unchanged = now === sent ? unchanged + 1 : 0;
      sent = now;
      return unchanged === 5;
    });
    expect(sent).toBeLessThan(64 << 20);
    // The stalled query keeps nobody up, although there is one thread only.
    expect(await one("SELECT 7")).toBe(7);
    stream.cancel();
    await t.untilGauge("query_running", 0);
  });

  it("interrupts what would never end", async () => {
    const ticket = ticketOf(
      await unary(
        "GetFlightInfo",
        descriptor("SELECT count(*) FROM range(1000000000) a, range(1000000000) b WHERE a.range + b.range = -1"),
      ),
    );
    const stream = doGet(ticket);
    const ended = drain(stream);
    await t.untilGauge("query_running", 1);
    stream.cancel();
    await expect(ended).rejects.toMatchObject({ code: status.CANCELLED });
    await t.untilGauge("query_running", 0);
    expect(await one("SELECT 8")).toBe(8);
  });

  it("is no failure in the spans of the service, which only what went wrong is", async () => {
    const stream = doGet(
      ticketOf(await unary("GetFlightInfo", descriptor("SELECT count(*) FROM range(1000000000000)"))),
    );
    const ended = drain(stream);
    await t.untilGauge("query_running", 1);
    spans.length = 0;
    stream.cancel();
    await expect(ended).rejects.toMatchObject({ code: status.CANCELLED });
    await until(() => Promise.resolve(spans.length === 1));
    await expect(one("SELECT error('wrong')")).rejects.toThrow("wrong");
    await until(() => Promise.resolve(spans.length === 2));
    expect(spans.map(({ name, error }) => [name, error])).toEqual([
      ["query", null],
      ["query", "BAD_REQUEST"],
    ]);
  });
});

it("ends what outlasts the grace period of a server that stops, says why, and is not ready until then", async () => {
  const other = await t.another({ SVC_SHUTDOWN_GRACE_PERIOD_SECONDS: "4" });
  const client = connectClient({ uri: `grpc://127.0.0.1:${other.port}`, auth: staticKey(t.key) });
  const { batches } = await client.query("SELECT i FROM range(1000000000000) t(i)");
  const stops: Promise<void>[] = [];
  const ready: Promise<number>[] = [];
  const read = async (): Promise<void> => {
    for await (const _batch of batches) {
      if (stops.length === 0) {
        stops.push(other.stop());
        ready.push(fetch(`http://127.0.0.1:${other.healthPort}/ready`).then(({ status: code }) => code));
      }
    }
  };
  await expect(read()).rejects.toMatchObject({
    code: "UNAVAILABLE",
    message: "The server is stopping; run the query again.",
  });
  expect(await Promise.all(ready)).toEqual([503]);
  await Promise.all(stops);
  client.close();
});

describe("metadata", () => {
  it("is nobody's query: the deny list has no say in it, and the query log nothing of it", async () => {
    const rule = "sql LIKE ''SELECT%FROM%spans%''";
    const [added] = await rows(`SELECT rule_id FROM deny_queries('${rule}', 'no spans')`);
    try {
      const list = connect().makeServerStreamRequest(`${service}/ListFlights`, same, same, Buffer.alloc(0), metadata());
      expect(await list.toArray()).toHaveLength(viewNamesFor(true).length);
      const getTables = encodeAny("arrow.flight.protocol.sql.CommandGetTables", Buffer.from([40, 1]));
      expect(await drain(doGet(Buffer.concat([field(1, getTables)])))).toBeGreaterThan(1);
      await expect(one("SELECT 1 FROM spans")).rejects.toMatchObject({
        code: status.PERMISSION_DENIED,
      });
      await until(async () => {
        const logged = await t.sql`select 1 from query_log where sql = 'SELECT 1 FROM spans'`;
        return logged.length > 0;
      });
      expect(await t.sql`select 1 from query_log where sql like 'SELECT * FROM "%'`).toEqual([]);
    } finally {
      await rows(`SELECT * FROM remove_query_denial('${String(added?.["rule_id"])}')`);
    }
  });
});

describe("errors", () => {
  it.each([
    ["SELECT 1/", status.INVALID_ARGUMENT],
    ["SELECT nothing FROM spans", status.INVALID_ARGUMENT],
    ["COPY (SELECT 1) TO 'x'", status.INVALID_ARGUMENT],
  ])("%s: status %d before a ticket is given", async (sql, code) => {
    await expect(unary("GetFlightInfo", descriptor(sql))).rejects.toMatchObject({ code });
    await expect(unary("GetSchema", descriptor(sql))).rejects.toMatchObject({ code });
  });

  it("of the run carry DuckDB's words", async () => {
    await expect(one("SELECT CAST(msg AS INTEGER) FROM log_entries")).rejects.toMatchObject({
      code: status.INVALID_ARGUMENT,
      details: expect.stringContaining("Could not convert string") as unknown,
    });
  });

  it.each([
    ["missing", "measures", null],
    ["damaged", "histograms", "PAR1 and nothing that belongs there"],
  ])("about %s files say nothing of this machine", async (what, table, bytes) => {
    const file = `${table}/audience=public/${what}.parquet`;
    if (bytes !== null) {
      await mkdir(path.join(t.lake.directory, path.dirname(file)), { recursive: true });
      await writeFile(path.join(t.lake.directory, file), bytes);
    }
    await t.sql`insert into lakehouse_partitions (partition_id, view_set, audience, path, file_bytes, row_count, min_time_ns, max_time_ns, min_insert_time, max_insert_time, level, schema_hash, sort_order)
      values (gen_random_uuid(), ${table}, 'public', ${file}, 1, 1, 0, 1, now(), now(), 0, '\\x00', '')`;
    await expect(one(`SELECT count(*) FROM ${table}`)).rejects.toMatchObject({
      code: status.INTERNAL,
      details: expect.stringMatching(
        /^an object of the lake is missing or cannot be read; the log .* telemetry lake check --deep finds all; request id [0-9a-f-]{36}$/u,
      ) as unknown,
    });
  });

  it("DoExchange is UNIMPLEMENTED in words", async () => {
    const client = connect();
    const call = client.makeBidiStreamRequest(`${service}/DoExchange`, same, same, metadata());
    const error = new Promise((resolve) => call.on("error", resolve));
    call.on("data", () => undefined);
    call.write(Buffer.alloc(0));
    call.end();
    expect(await error).toMatchObject({
      code: status.UNIMPLEMENTED,
      details: expect.stringContaining("is not supported") as unknown,
    });
  });

  it("garbage instead of messages is INVALID_ARGUMENT", async () => {
    const garbage = Buffer.from("ffffffffffffffffffff", "hex");
    await expect(unary("GetFlightInfo", garbage)).rejects.toMatchObject({
      code: status.INVALID_ARGUMENT,
    });
    await expect(drain(doGet(garbage))).rejects.toMatchObject({ code: status.INVALID_ARGUMENT });
    await expect(unary("GetFlightInfo", Buffer.alloc(0))).rejects.toMatchObject({
      code: status.INVALID_ARGUMENT,
    });
  });
});
