/** Requests that are wrong, over raw sockets where no client library would send them. */
import { randomBytes } from "node:crypto";
import { deflateSync, gzipSync } from "node:zlib";

import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";

import { generateKeyString } from "../../../src/auth/key-string.js";
import { drivers } from "../../helpers/http/http-listener.js";
import { startTestIngestion, type TestIngestion } from "../../helpers/servers/ingest-server.js";
import {
  bytes,
  fixed64,
  freshMark,
  message,
  protobufLogs,
  protobufSpan,
  text,
} from "../../helpers/otlp/otlp-bodies.js";
import { RawConnection, rawRequest } from "../../helpers/http/raw-http.js";
import { until } from "../../helpers/until.js";

const maxBodyBytes = 1024 * 1024;
const maxInflatedBytes = 4 * 1024 * 1024;

describe.each(drivers)("%s", (driver) => {
  let t: TestIngestion;

  beforeAll(async () => {
    t = await startTestIngestion({
      environment: {
        SVC_HTTP_DRIVER: driver,
        SVC_OTLP_MAX_BODY_BYTES: String(maxBodyBytes),
        SVC_OTLP_MAX_INFLATED_BYTES: String(maxInflatedBytes),
        SVC_OTLP_BODY_TIMEOUT_SECONDS: "1.5",
        SVC_INGESTION_ARENA_BYTES: String(8 * 1024 * 1024),
      },
    });
  });

  afterAll(async () => {
    await t.stop();
  });

  /** Whatever a test sent: the server goes on, and has let go of every byte. */
  afterEach(async () => {
    await until(async () => {
      const open = await t.metric("ingestion_open_requests");
      const arenaBytes = await t.metric("ingestion_arena_used_bytes");
      return open === 0 && arenaBytes === 0;
    });
    const health = (await fetch(`${t.url}/health`)).status;
    const next = (await t.post("logs", protobufLogs(freshMark()))).status;
    if (health !== 200 || next !== 200) {
      throw new Error(`harm was done: health ${health}, next request ${next}`);
    }
  });

  const logsPath = "/ingestion/otlp/v1/logs";

  function head(fields: readonly string[], path = logsPath, method = "POST"): string {
    return `${[
      `${method} ${path} HTTP/1.1`,
      "Host: localhost",
      `Authorization: Bearer ${t.key}`,
      "Content-Type: application/x-protobuf",
      ...fields,
    ].join("\r\n")}\r\n\r\n`;
  }

  const chunk = (data: Buffer): Buffer =>
    Buffer.concat([Buffer.from(`${data.length.toString(16)}\r\n`), data, Buffer.from("\r\n")]);
  const lastChunk = "0\r\n\r\n";

  async function statusOf(parts: readonly (string | Buffer)[]): Promise<number | undefined> {
    return (await rawRequest(t.port, parts, 0)).responses[0]?.status;
  }

  describe("framing", () => {
    test.each([
      ["two different Content-Length fields", ["Content-Length: 3", "Content-Length: 5"]],
      ["two equal Content-Length fields", ["Content-Length: 5", "Content-Length: 5"]],
      ["a Content-Length list", ["Content-Length: 5, 5"]],
      ["a signed Content-Length", ["Content-Length: +5"]],
      ["a negative Content-Length", ["Content-Length: -5"]],
      ["a hexadecimal Content-Length", ["Content-Length: 0x5"]],
      ["an empty Content-Length", ["Content-Length: "]],
      ["a Content-Length beyond any integer", [`Content-Length: ${"9".repeat(30)}`]],
      ["Content-Length beside Transfer-Encoding", ["Content-Length: 5", "Transfer-Encoding: chunked"]],
      ["Transfer-Encoding: gzip", ["Transfer-Encoding: gzip"]],
      ["Transfer-Encoding: gzip, chunked", ["Transfer-Encoding: gzip, chunked"]],
      ["Transfer-Encoding: chunked, identity", ["Transfer-Encoding: chunked, identity"]],
      ["an unknown Transfer-Encoding", ["Transfer-Encoding: xchunked"]],
      ["two Transfer-Encoding fields", ["Transfer-Encoding: chunked", "Transfer-Encoding: identity"]],
    ])("%s gets 400 and the connection is closed", async (_, fields) => {
      const exchange = await rawRequest(t.port, [head(fields), "5\r\nhello\r\n0\r\n\r\n"], 1000);
      expect(exchange.responses.map((r) => r.status)).toEqual([400]);
      expect(exchange.closed).toBe(true);
    });

    test("a request hidden behind an ambiguous body is never answered", async () => {
      const hidden = "GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n";
      const connection = await RawConnection.open(t.port);
      connection.send(head(["Content-Length: 3", "Content-Length: 40"]) + `abc${hidden}`);
      const exchange = await connection.ended();
      expect(exchange.responses.map((r) => r.status)).toEqual([400]);
    });

    test("a malformed chunk size gets 400 and the connection is closed", async () => {
      const exchange = await rawRequest(t.port, [head(["Transfer-Encoding: chunked"]), "zz\r\nabc\r\n0\r\n\r\n"], 1000);
      expect(exchange.responses[0]?.status).toBe(400);
      expect(exchange.closed).toBe(true);
    });

    test("HTTP/1.0 and a request line that is none get an error and a closed connection", async () => {
      // Node.js reads HTTP/1.0, and knows no such path.
      const [old, wrong] = driver === "uws" ? [505, 505] : [404, 400];
      for (const [line, status] of [
        ["POST /x HTTP/1.0", old],
        ["NONSENSE", wrong],
        ["POST x HTTP/1.1", wrong],
      ] as const) {
        const exchange = await rawRequest(t.port, [`${line}\r\nHost: localhost\r\n\r\n`], 1000);
        expect([line, exchange.responses.map((r) => r.status)]).toEqual([line, [status]]);
        expect(exchange.closed).toBe(true);
      }
    });

    test("a bearer token of several kilobytes fits into the header section", async () => {
      const status = await statusOf([
        `POST ${logsPath} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer a.${"b".repeat(12_000)}.c\r\nContent-Length: 0\r\n\r\n`,
      ]);
      expect(status).toBe(401);
    });

    test("a chunked body in pieces is one body", async () => {
      const mark = freshMark();
      const body = protobufLogs(mark, 3);
      const status = await statusOf([
        head(["Transfer-Encoding: Chunked"]),
        chunk(body.subarray(0, 10)),
        chunk(body.subarray(10)),
        lastChunk,
      ]);
      expect(status).toBe(200);
      expect(await t.rows("log_entries", `select 1 as found from t where msg like '${mark}%'`)).toHaveLength(3);
    });

    test("Expect: 100-continue is answered before the body is sent", async () => {
      const body = protobufLogs(freshMark());
      const connection = await RawConnection.open(t.port);
      connection.send(head([`Content-Length: ${body.length}`, "Expect: 100-continue"]));
      await expect.poll(() => connection.responses.map((r) => r.status)).toEqual([100]);
      connection.send(body);
      const exchange = await connection.settle();
      expect(exchange.responses.map((r) => r.status)).toEqual([100, 200]);
      connection.close();
    });

    test.runIf(driver === "node").each(["Bearer wrong", ""])(
      "Expect: 100-continue with the credential %j gets 401 and no 100 before it",
      async (credential) => {
        const fields = [
          `POST ${logsPath} HTTP/1.1`,
          "Host: localhost",
          `Authorization: ${credential}`,
          "Content-Type: application/json",
          "Content-Length: 2",
          "Expect: 100-continue",
        ];
        const connection = await RawConnection.open(t.port);
        connection.send(`${fields.join("\r\n")}\r\n\r\n`);
        // Ends: the body that was announced may still come, or may not.
        const { responses } = await connection.ended();
        expect(responses.map(({ status }) => status)).toEqual([401]);
      },
    );

    test("a connection serves one request after the other, refused ones between", async () => {
      const body = protobufLogs(freshMark());
      const connection = await RawConnection.open(t.port);
      connection.send(head([`Content-Length: ${body.length}`]));
      connection.send(body);
      await connection.settle(1);
      connection.send(head([`Content-Length: ${maxBodyBytes + 1}`]));
      connection.send(Buffer.alloc(maxBodyBytes + 1));
      await connection.settle(2);
      connection.send(head([`Content-Length: ${body.length}`]));
      connection.send(body);
      const exchange = await connection.settle(3);
      expect(exchange.responses.map((r) => r.status)).toEqual([200, 413, 200]);
      connection.close();
    });

    test("a connection serves the next request after a key that nobody knows, whose body came meanwhile", async () => {
      const connection = await RawConnection.open(t.port);
      const length = maxBodyBytes - 1;
      const fields = head([`Content-Length: ${length}`]).replace(t.key, generateKeyString());
      connection.send(fields);
      connection.send(Buffer.alloc(length));
      connection.send(head(["Connection: close"], "/health", "GET"));
      const { responses } = await connection.settle(2);
      expect(responses.map((r) => r.status)).toEqual([401, 200]);
      connection.close();
    });
  });

  describe("method, path and credential", () => {
    test.each(["GET", "PUT", "DELETE", "OPTIONS", "PATCH"])("%s on a route is 405 with Allow", async (method) => {
      const { responses } = await rawRequest(t.port, [head([], logsPath, method)], 0);
      expect(responses[0]?.status).toBe(405);
      expect(responses[0]?.headers["allow"]).toBe("POST");
    });

    test("HEAD is 405 without a body", async () => {
      const response = await fetch(t.url + logsPath, { method: "HEAD" });
      expect(response.status).toBe(405);
      expect(await response.text()).toBe("");
    });

    test.each(["/", "/ingestion/otlp/v1/profiles", "/ingestion/otlp/v1/logs/", "/v1/profiles", "/v1", "/%2e%2e/x"])(
      "the unknown path %s is 404",
      async (path) => {
        const response = await fetch(t.url + path, { method: "POST", body: "x" });
        expect(response.status).toBe(404);
        expect(await response.json()).toEqual({ code: "NOT_FOUND", message: "no such path" });
      },
    );

    test.each([
      ["no credential", {}],
      ["an unknown key", { authorization: "Bearer svk_nonsense" }],
      ["another scheme", { authorization: "Basic abc" }],
    ])("%s is 401 with a challenge", async (_, headers) => {
      const response = await fetch(t.url + logsPath, {
        method: "POST",
        body: protobufLogs(freshMark()),
        headers: { ...headers, "content-type": "application/x-protobuf" },
      });
      expect(response.status).toBe(401);
      expect(response.headers.get("www-authenticate")).toBe("Bearer");
      expect(response.headers.get("content-type")).toBe("application/x-protobuf");
      const body = Buffer.from(await response.arrayBuffer());
      // google.rpc.Status: code 16 (UNAUTHENTICATED), then the message.
      expect([...body.subarray(0, 3)]).toEqual([0x08, 16, 0x12]);
    });

    test("an OTLP error is google.rpc.Status in JSON when the request is JSON", async () => {
      const response = await t.post("logs", Buffer.from("{"), {
        "content-type": "application/json",
      });
      expect(response.status).toBe(400);
      expect(response.headers.get("content-type")).toBe("application/json");
      expect(JSON.parse(response.body.toString())).toMatchObject({
        code: 3,
        message: expect.any(String),
      });
    });
  });

  describe("content type, coding and size", () => {
    test.each([undefined, "text/plain", "application/x-protobuf2", "application/grpc"])(
      "content type %s is 415",
      async (type) => {
        const field = type === undefined ? [] : [`Content-Type: ${type}`];
        const request = `${[`POST ${logsPath} HTTP/1.1`, "Host: x", `Authorization: Bearer ${t.key}`, "Content-Length: 1", ...field].join("\r\n")}\r\n\r\nx`;
        const { responses } = await rawRequest(t.port, [request], 0);
        expect(responses[0]?.status).toBe(415);
        expect(responses[0]?.headers["content-type"]).toBe("application/json");
      },
    );

    test("parameters of the content type are allowed", async () => {
      const response = await t.post("logs", protobufLogs(freshMark()), {
        "content-type": 'Application/X-Protobuf; charset="utf-8"',
      });
      expect(response.status).toBe(200);
    });

    test.each(["br", "compress", "gzip, gzip", "zstd2"])("content coding %s is 415", async (coding) => {
      const response = await t.post("logs", protobufLogs(freshMark()), {
        "content-encoding": coding,
      });
      expect(response.status).toBe(415);
    });

    test("an empty request is 200 with an empty response", async () => {
      const response = await t.post("metrics", Buffer.alloc(0));
      expect(response.status).toBe(200);
      expect(response.body).toHaveLength(0);
    });

    test("an announced size over the limit is 413 before a byte is read", async () => {
      const connection = await RawConnection.open(t.port);
      connection.send(head([`Content-Length: ${maxBodyBytes + 1}`]));
      const exchange = await connection.settle();
      expect(exchange.responses[0]?.status).toBe(413);
      connection.close();
    });

    test("an announced size of many gigabytes is 413 and the connection is closed", async () => {
      const exchange = await rawRequest(t.port, [head(["Content-Length: 99999999999"])], 1000);
      expect(exchange.responses[0]?.status).toBe(413);
      expect(exchange.closed).toBe(true);
    });

    test("a chunked body is cut at the limit with 413", async () => {
      const connection = await RawConnection.open(t.port);
      connection.send(head(["Transfer-Encoding: chunked"]));
      const piece = chunk(randomBytes(64 * 1024));
      for (let sent = 0; sent <= maxBodyBytes && !connection.closed; sent += 64 * 1024) {
        connection.send(piece);
      }
      const exchange = await connection.ended();
      expect(exchange.responses[0]?.status).toBe(413);
    });

    test.each([
      ["gzip", gzipSync],
      ["deflate", deflateSync],
    ] as const)("a %s bomb is 413", async (coding, compress) => {
      const bomb = compress(message(1, [Buffer.alloc(maxInflatedBytes + 1024)]));
      expect(bomb.length).toBeLessThan(maxBodyBytes);
      const response = await t.post("logs", bomb, { "content-encoding": coding });
      expect(response.status).toBe(413);
    });

    test.each(["gzip", "deflate"])("a truncated %s body is 400", async (coding) => {
      const whole = (coding === "gzip" ? gzipSync : deflateSync)(protobufLogs(freshMark(), 50));
      for (const length of [0, 1, 5, whole.length >> 1, whole.length - 1]) {
        const response = await t.post("logs", whole.subarray(0, length), {
          "content-encoding": coding,
        });
        expect(response.status).toBe(400);
      }
    });

    test.each(["gzip", "deflate", "zstd"])("noise called %s is 400", async (coding) => {
      const response = await t.post("logs", randomBytes(4096), { "content-encoding": coding });
      expect(response.status).toBe(400);
    });
  });

  describe("malformed messages", () => {
    test.each([
      ["noise", Buffer.from([0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff])],
      ["a length beyond the end", Buffer.from([0x0a, 0x7f, 0x00])],
      ["a truncated request", protobufLogs("truncated", 5).subarray(0, -3)],
      ["wire type 7", Buffer.from([0x0f, 0x00])],
      ["field number 0", Buffer.from([0x02, 0x00])],
    ])("%s is 400", async (_, body) => {
      expect((await t.post("logs", body)).status).toBe(400);
    });

    test("depth bombs in AnyValue, in messages and in groups are 400", async () => {
      let value = message(2, [text(1, "deep")]);
      for (let depth = 0; depth < 5000; depth++) {
        value = message(2, [message(5, [message(1, [value.subarray(1)])])]);
      }
      let anyValue = text(1, "x");
      for (let depth = 0; depth < 3000; depth++) {
        anyValue = bytes(5, bytes(1, anyValue));
      }
      const asBody = message(1, [message(2, [message(2, [bytes(5, anyValue)])])]);
      expect((await t.post("logs", asBody)).status).toBe(400);
      const groups = Buffer.concat([Buffer.alloc(20_000, 0x7b), Buffer.alloc(20_000, 0x7c)]);
      expect((await t.post("logs", groups)).status).toBe(400);
      expect(value.length).toBeGreaterThan(0);
    });

    test("a JSON depth bomb is 400", async () => {
      const body = Buffer.from(`{"resourceLogs":${"[".repeat(100_000)}`);
      const response = await t.post("logs", body, { "content-type": "application/json" });
      expect(response.status).toBe(400);
    });

    test("a trace id of the wrong length is reported in partial_success and the rest is kept", async () => {
      const name = freshMark();
      const body = Buffer.concat([
        protobufSpan(`${name} good`, Buffer.alloc(16, 5)),
        protobufSpan(`${name} bad`, Buffer.alloc(9, 5)),
      ]);
      const response = await t.post("traces", body);
      expect(response.status).toBe(200);
      // ExportTraceServiceResponse.partial_success (1), rejected_spans (1) = 1, error_message (2).
      expect([...response.body.subarray(0, 1)]).toEqual([0x0a]);
      expect([...response.body.subarray(2, 5)]).toEqual([0x08, 1, 0x12]);
      const rows = await t.rows("spans", `select name from t where name like '${name}%'`);
      expect(rows).toEqual([{ name: `${name} good` }]);
    });

    test("absurd times, invalid UTF-8 and a value of many megabytes do no harm", async () => {
      const mark = freshMark();
      const record = (fields: readonly Buffer[]): Buffer => message(1, [message(2, [message(2, fields)])]);
      const absurd = record([fixed64(1, 2n ** 64n - 1n), message(5, [text(1, `${mark} time`)])]);
      const invalid = record([message(5, [bytes(1, Buffer.from([0x61, 0xff, 0xc0, 0x80]))])]);
      const large = record([message(5, [text(1, mark + "x".repeat(maxInflatedBytes >> 1))])]);
      const reported = await t.post("logs", absurd);
      expect(reported.status).toBe(200);
      // Beyond what a signed nanosecond holds: partial_success says one record was not stored.
      expect([...reported.body.subarray(2, 5)]).toEqual([0x08, 1, 0x12]);
      expect([200, 400]).toContain((await t.post("logs", invalid)).status);
      const packed = gzipSync(large);
      expect((await t.post("logs", packed, { "content-encoding": "gzip" })).status).toBe(200);
      expect(await t.rows("log_entries", `select 1 as found from t where msg like '${mark}%'`)).toHaveLength(1);
    });
  });

  describe("slow and vanishing clients", () => {
    test("one byte at a time gets 503 and a closed connection, and pins next to nothing", async () => {
      const connection = await RawConnection.open(t.port);
      connection.send(head(["Content-Length: 1000000"]));
      const timer = setInterval(() => connection.send("a"), 100);
      await expect.poll(() => t.metric("ingestion_arena_used_bytes")).toBe(4096);
      const exchange = await connection.ended();
      clearInterval(timer);
      expect(exchange.responses[0]?.status).toBe(503);
    });

    test("a head without a body gets 503", async () => {
      const connection = await RawConnection.open(t.port);
      connection.send(head(["Transfer-Encoding: chunked"]));
      const exchange = await connection.ended();
      expect(exchange.responses[0]?.status).toBe(503);
    });

    test("a client that leaves in the middle of its body leaves nothing behind", async () => {
      const before = await t.metric("ingestion_requests_total", 'code="499"');
      for (const leave of ["cut", "close"] as const) {
        const connection = await RawConnection.open(t.port);
        connection.send(head(["Content-Length: 100000"]));
        connection.send(randomBytes(50_000));
        await expect.poll(() => t.metric("ingestion_arena_used_bytes")).toBeGreaterThan(49_000);
        connection[leave]();
        await expect.poll(() => t.metric("ingestion_arena_used_bytes")).toBe(0);
      }
      expect(await t.metric("ingestion_requests_total", 'code="499"')).toBe(before + 2);
    });

    test("clients that leave before their answer do not disturb the batch", async () => {
      const marks = Array.from({ length: 10 }, freshMark);
      const staying = freshMark();
      const leaving = await Promise.all(marks.map(() => RawConnection.open(t.port)));
      leaving.forEach((connection, i) => {
        const body = protobufLogs(marks[i] ?? "");
        connection.send(head([`Content-Length: ${body.length}`]));
        connection.send(body);
        connection.cut();
      });
      expect((await t.post("logs", protobufLogs(staying))).status).toBe(200);
      expect(await t.rows("log_entries", `select 1 as found from t where msg like '${staying}%'`)).toHaveLength(1);
    });
  });

  test("a malformed request in a batch leaves its neighbours alone", async () => {
    const marks = Array.from({ length: 20 }, freshMark);
    const statuses = await Promise.all(
      marks.map(async (mark, i) => {
        const body = protobufLogs(mark, 2);
        return (await t.post("logs", i % 3 === 0 ? body.subarray(0, -2) : body)).status;
      }),
    );
    expect(statuses).toEqual(marks.map((_, i) => (i % 3 === 0 ? 400 : 200)));
    const found = await t.rows("log_entries", "select distinct split_part(msg, ' ', 1) as mark from t");
    const stored = new Set(found.map((row) => row["mark"]));
    expect(marks.map((mark) => stored.has(mark))).toEqual(marks.map((_, i) => i % 3 !== 0));
  });

  test("bodies beyond an audience's share of the arena get 503 with Retry-After, those of others are stored", async () => {
    const authorization = `Bearer ${await t.mint("others")}`;
    const large = protobufLogs(`${freshMark()}${"x".repeat(900_000)}`);
    const holders = await Promise.all(Array.from({ length: 120 }, () => RawConnection.open(t.port)));
    for (const holder of holders) {
      holder.send(head(["Content-Length: 65536"]));
      holder.send(Buffer.alloc(65_535));
    }
    await expect.poll(() => t.metric("ingestion_arena_used_bytes")).toBeGreaterThan(6 * 2 ** 20);
    const own = await t.post("logs", large);
    expect(own.status).toBe(503);
    expect(own.headers.get("retry-after")).toBe("1");
    expect((await t.post("logs", large, { authorization })).status).toBe(200);
    for (const holder of holders) {
      holder.cut();
    }
  });
});
