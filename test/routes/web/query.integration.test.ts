/** `POST /api/query` through real servers, on both drivers. */
import { Agent } from "node:http";

import { tableFromIPC } from "apache-arrow";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { endless } from "../../helpers/query/endless.js";
import { drivers } from "../../helpers/http/http-listener.js";
import { startTcpProxy } from "../../helpers/auth/auth-tcp-proxy.js";
import { until } from "../../helpers/until.js";
import {
  ask,
  framesOf,
  type QueryWorld,
  readAnswer,
  startQuery,
  startQueryWorld,
} from "../../helpers/web/query-world.js";
import type { TestWeb } from "../../helpers/web/web-server.js";

let world: QueryWorld;
let ann: string;
let guest: string;

beforeAll(async () => {
  world = await startQueryWorld({
    analytics: { SVC_QUERY_MAX_CONCURRENT: "6", SVC_QUERY_TIMEOUT_SECONDS: "30" },
    web: { SVC_WEB_QUERY_MAX_ROWS: "200000" },
  });
  ann = await world.cookie("ann@example.com");
  guest = await world.cookie("guest@example.com");
});

afterAll(async () => {
  await world.stop();
});

const rowsOf = (arrow: Buffer): Record<string, unknown>[] =>
  tableFromIPC(arrow)
    .toArray()
    .map((row) => (row as { toJSON(): Record<string, unknown> }).toJSON());
const idle = (): Promise<void> => world.analytics.untilGauge("query_running", 0);

describe.each(drivers)("with the driver %s", (driver) => {
  let web: TestWeb;
  beforeAll(async () => {
    web = await world.beside({ SVC_HTTP_DRIVER: driver, SVC_WEB_QUERY_MAX_ROWS: "200000" });
    return () => web.stop();
  });

  it("answers a schema, batches and an end that counts them", async () => {
    const stream = await startQuery(web.url, guest, { sql: "SELECT msg, level FROM log_entries ORDER BY time" });
    expect(stream.status).toBe(200);
    expect(stream.headers["content-type"]).toBe("application/vnd.telemetry.frames");
    expect(stream.headers["cache-control"]).toBe("no-store");
    expect(stream.headers["x-accel-buffering"]).toBe("no");
    const { kinds, arrow, last } = await readAnswer(stream);
    expect(kinds).toMatch(/^SB+D$/);
    const rows = rowsOf(arrow);
    expect(rows).toHaveLength(100);
    expect(rows[7]).toMatchObject({ msg: "public 7", level: 4 });
    expect(last).toMatchObject({ rows: 100, cut: false, objects: 1 });
    expect(last["bytes"]).toBeGreaterThan(100 * 8);
    expect(last["bytes"]).toBeLessThan(arrow.length);
  });

  it("reads what the caller may read, and nothing of others", async () => {
    const sql = "SELECT DISTINCT audience FROM log_entries ORDER BY audience";
    expect(rowsOf((await ask(web.url, guest, { sql })).arrow)).toEqual([{ audience: "public" }]);
    expect(rowsOf((await ask(web.url, ann, { sql })).arrow)).toEqual([{ audience: "public" }, { audience: "secret" }]);
    const secret = "SELECT count(*)::INTEGER AS n FROM log_entries WHERE audience = 'secret' OR msg LIKE 'secret%'";
    expect(rowsOf((await ask(web.url, guest, { sql: secret })).arrow)).toEqual([{ n: 0 }]);
  });

  it("binds parameters and narrows to a range", async () => {
    const { arrow } = await ask(web.url, guest, {
      sql: "SELECT count(*)::INTEGER AS n, max(?)::VARCHAR AS t FROM log_entries WHERE level = ?",
      parameters: ["a'b", 4],
      begin: "1763726400000000010",
      end: "2025-11-21T12:00:00.000000030Z",
    });
    expect(rowsOf(arrow)).toEqual([{ n: 20, t: "a'b" }]);
  });

  it("tells a refusal in the server's words, with line and caret, as the last frame", async () => {
    const { kinds, last } = await ask(web.url, guest, { sql: "SELECT msg,\n  nonsense\nFROM log_entries" });
    expect(kinds).toBe("E");
    expect(last).toMatchObject({ code: "BAD_REQUEST", request_id: expect.stringMatching(/^[0-9a-f-]{36}$/) });
    expect(last["message"]).toMatch(/nonsense[\s\S]*LINE 2[\s\S]*\^/);
  });

  it("tells an error in the middle behind the batches that came", async () => {
    const sql =
      "SELECT repeat('x', 1000) AS t, (range || CASE WHEN range < 60000 THEN '' ELSE 'x' END)::BIGINT AS n FROM range(70000)";
    const { kinds, last } = await ask(web.url, guest, { sql });
    expect(last["message"]).toContain("60000x");
    expect(kinds).toMatch(/^SB+E$/);
    await idle();
  });

  it("cuts a result at the limit, says so, and frees the engine", async () => {
    const { arrow, last } = await ask(web.url, guest, { sql: "SELECT range AS n FROM range(100000000000)" });
    expect(last).toMatchObject({ cut: true });
    const rows = tableFromIPC(arrow).numRows;
    expect(last["rows"]).toBe(rows);
    expect(rows).toBe(200_000);
    const exact = await ask(web.url, guest, { sql: "SELECT range FROM range(100)", limit: 100 });
    expect(exact.last).toMatchObject({ cut: false, rows: 100 });
    const some = await ask(web.url, guest, { sql: "SELECT msg FROM log_entries ORDER BY time", limit: 3 });
    expect([some.last["cut"], rowsOf(some.arrow)]).toEqual([
      true,
      [{ msg: "public 0" }, { msg: "public 1" }, { msg: "public 2" }],
    ]);
    await idle();
  });

  it("gives progress while nothing comes, and cancels when the client leaves", async () => {
    const stream = await startQuery(web.url, guest, { sql: endless });
    const frames = framesOf(stream);
    const kinds = new Set<string>();
    for (let i = 0; i < 3; i++) {
      const next = await frames.next();
      kinds.add((next.value as { kind: string }).kind);
    }
    expect([...kinds].filter((kind) => kind !== "S")).toEqual(["P"]);
    await world.analytics.untilGauge("query_running", 1);
    stream.leave();
    await idle();
  });

  it("passes an Arrow stream on where that is asked for, and fails as JSON before it began", async () => {
    const accept = { accept: "application/vnd.apache.arrow.stream" };
    const stream = await startQuery(web.url, guest, { sql: "SELECT msg FROM log_entries" }, accept);
    expect(stream.headers["content-type"]).toBe("application/vnd.apache.arrow.stream");
    const bytes = Buffer.concat(await stream.body.toArray());
    expect(tableFromIPC(bytes).numRows).toBe(100);
    expect(bytes.subarray(-8)).toEqual(Buffer.from([255, 255, 255, 255, 0, 0, 0, 0]));
    const failed = await startQuery(web.url, guest, { sql: "SELECT nonsense" }, accept);
    expect(failed.status).toBe(400);
    const error = JSON.parse(Buffer.concat(await failed.body.toArray()).toString()) as { code: string };
    expect(error.code).toBe("BAD_REQUEST");
  });

  it("answers one query after another on one connection, and one with a chunked body", async () => {
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    const sql = "SELECT repeat('x', 1000) AS t FROM range(5000)";
    try {
      for (let i = 0; i < 3; i++) {
        const stream = await startQuery(web.url, guest, { sql }, {}, { agent });
        const { kinds, last } = await readAnswer(stream);
        expect([kinds.replaceAll("B", ""), last["rows"]]).toEqual(["SD", 5000]);
        expect(stream.headers["connection"]).not.toBe("close");
      }
    } finally {
      agent.destroy();
    }
    const chunked = await readAnswer(await startQuery(web.url, guest, { sql }, {}, { chunked: true }));
    expect([chunked.kinds.replaceAll("B", ""), chunked.last["rows"]]).toEqual(["SD", 5000]);
  });

  it("holds the engine back while nobody reads, and does not gather the result", async () => {
    const before = await restingMemory();
    const stream = await startQuery(web.url, guest, {
      sql: "SELECT repeat('x', 1000) || range AS t FROM range(100000000)",
    });
    stream.body.pause();
    await world.analytics.untilGauge("query_running", 1);
    // Messages on their way, in two servers and a client: of a result of a hundred gigabytes.
    expect((await restingMemory()) - before).toBeLessThan(128 * 1024 * 1024);
    expect(await world.analytics.gauge("query_running")).toBe(1);
    stream.leave();
    await idle();
  });
});

/** Memory of this process once a stream's buffers are full: it has not grown for half a second. */
async function restingMemory(): Promise<number> {
  let last = 0;
  let sinceMs = performance.now();
  await until(() => {
    const now = process.memoryUsage().rss;
    if (Math.abs(now - last) > 4 * 1024 * 1024) {
      last = now;
      sinceMs = performance.now();
    }
    return performance.now() - sinceMs > 500;
  });
  return last;
}

it("lets a person run four queries at once, and another person's go on", async () => {
  const running = await Promise.all(
    Array.from({ length: 4 }, () => startQuery(world.web.url, guest, { sql: endless })),
  );
  const fifth = await startQuery(world.web.url, guest, { sql: "SELECT 1" });
  expect(fifth.status).toBe(429);
  expect(fifth.headers["retry-after"]).toBe("1");
  const error = JSON.parse(Buffer.concat(await fifth.body.toArray()).toString()) as Record<string, string>;
  expect(error).toMatchObject({ code: "TOO_MANY_REQUESTS" });
  expect((await ask(world.web.url, ann, { sql: "SELECT 1 AS n" })).kinds).toMatch(/^SB+D$/);
  for (const stream of running) {
    stream.leave();
  }
  await idle();
  await until(async () => (await ask(world.web.url, guest, { sql: "SELECT 1" }).catch(() => null)) !== null);
});

it.each([
  ["nobody", {}, "", 401, "UNAUTHENTICATED"],
  ["an expired token", {}, "expired", 401, "UNAUTHENTICATED"],
  ["another origin", { origin: "https://evil.example" }, "guest", 403, "FORBIDDEN"],
  ["a form", { "content-type": "text/plain" }, "guest", 415, "UNSUPPORTED_MEDIA_TYPE"],
])("refuses %s", async (_what, headers, who, status, code) => {
  const past = Math.floor(Date.now() / 1000) - 600;
  const cookies: Record<string, string> = {
    guest,
    expired: await world.cookie("guest@example.com", { iat: past - 60, exp: past }),
    "": "",
  };
  const stream = await startQuery(world.web.url, cookies[who] ?? "", { sql: "SELECT 1" }, headers);
  expect(stream.status).toBe(status);
  const error = JSON.parse(Buffer.concat(await stream.body.toArray()).toString()) as Record<string, string>;
  expect(error["code"]).toBe(code);
});

it.each([
  [{}, /sql is missing/],
  [{ sql: "" }, /sql must not be empty/],
  [{ sql: 5 }, /sql must be a string/],
  [{ sql: "SELECT 1", more: 1 }, /unknown field/],
  [{ sql: "SELECT 1", limit: 0 }, /limit must be/],
  [{ sql: "SELECT 1", limit: 1.5 }, /limit must be/],
  [{ sql: "SELECT 1", begin: "yesterday" }, /begin takes a time/],
  [{ sql: "SELECT 1", begin: "2026-01-02T00:00:00Z", end: "2026-01-01T00:00:00Z" }, /begin is after end/],
  [{ sql: "SELECT ?", parameters: [{}] }, /parameters must be/],
  [{ sql: "SELECT ?", parameters: Array(1001).fill(1) }, /parameters must be/],
  [{ sql: "SELECT 1", data_source: "elsewhere" }, /no data source/],
])("refuses %j", async (body, message) => {
  const stream = await startQuery(world.web.url, guest, body);
  expect([400, 404]).toContain(stream.status);
  const error = JSON.parse(Buffer.concat(await stream.body.toArray()).toString()) as Record<string, string>;
  expect(error["message"]).toMatch(message);
});

it("says that an analytics server that is not there cannot be reached, and not where it is", async () => {
  const lost = await world.beside({ SVC_ANALYTICS_URI: "grpc://127.0.0.1:1" });
  try {
    const { kinds, last } = await ask(lost.url, guest, { sql: "SELECT 1" });
    expect(kinds).toBe("E");
    expect(last).toMatchObject({ code: "UNAVAILABLE" });
    expect(last["message"]).toContain("cannot be reached");
    expect(last["message"]).not.toContain("127.0.0.1");
  } finally {
    await lost.stop();
  }
});

it("ends the stream with an error when the analytics server vanishes in the middle", async () => {
  const proxy = await startTcpProxy(`grpc://127.0.0.1:${world.analytics.port}`);
  const web = await world.beside({ SVC_ANALYTICS_URI: proxy.connectionString });
  try {
    const stream = await startQuery(web.url, guest, {
      sql: "SELECT repeat('x', 1000) || range AS t FROM range(100000000)",
    });
    const frames = framesOf(stream);
    let kind = "";
    while (kind !== "B") {
      kind = ((await frames.next()).value as { kind: string }).kind;
    }
    await proxy.refuse();
    let last = "";
    for await (const frame of frames) {
      last = `${frame.kind} ${frame.kind === "E" ? frame.payload.toString() : ""}`;
    }
    expect(last).toMatch(/^E .*"code":"UNAVAILABLE"/);
  } finally {
    await web.stop();
    await proxy.stop();
  }
  await idle();
});

it("ends running queries with an error when the web server stops", async () => {
  const web = await world.beside({ SVC_SHUTDOWN_GRACE_PERIOD_SECONDS: "1" });
  const stream = await startQuery(web.url, guest, { sql: endless });
  const answer = readAnswer(stream);
  await web.stop();
  expect(await answer).toMatchObject({ kinds: "E", last: { code: "UNAVAILABLE" } });
  await idle();
});

it("tells a web application what it has to know before anybody logs in", async () => {
  const { status, json } = await world.web.request("GET", "/api/config");
  expect(status).toBe(200);
  expect(json).toMatchObject({
    default_audience: "public",
    self_service: false,
    login: "/auth/login",
    query_max_rows: 200_000,
    queries_per_session: 4,
    ingestion_url: null,
  });
});

it("tells where applications reach the ingestion server, which a proxy may stand before", async () => {
  const web = await world.beside({
    SVC_TELEMETRY_URL: "http://127.0.0.1:1",
    SVC_WEB_INGESTION_URL: "https://otlp.example.com/",
  });
  try {
    const config = (await (await fetch(`${web.url}/api/config`)).json()) as Record<string, unknown>;
    expect(config["ingestion_url"]).toBe("https://otlp.example.com/ingestion/otlp");
  } finally {
    await web.stop();
  }
});
