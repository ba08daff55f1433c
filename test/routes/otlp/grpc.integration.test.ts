/** OTLP/gRPC as a server among others: real exporters, other protocols, TLS, addresses, stopping. */
import { execFile } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { connect as connectTls } from "node:tls";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import { credentials, Metadata } from "@grpc/grpc-js";
import { OTLPLogExporter } from "@opentelemetry/exporter-logs-otlp-grpc";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { LoggerProvider, SimpleLogRecordProcessor } from "@opentelemetry/sdk-logs";
import { pino } from "pino";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";

import { RawConnection, rawRequest } from "../../helpers/http/raw-http.js";
import { answerOf, framed, grpcPaths, GrpcConnection } from "../../helpers/otlp/otlp-grpc.js";
import { freshMark, protobufLogs } from "../../helpers/otlp/otlp-bodies.js";
import {
  startTestIngestion,
  type TestIngestion,
  type TestIngestionOptions,
} from "../../helpers/servers/ingest-server.js";

const running: TestIngestion[] = [];
/** Lines of the log of the servers of a test. */
let lines: string[] = [];

async function start(o: TestIngestionOptions = {}): Promise<TestIngestion> {
  const t = await startTestIngestion({
    logger: pino({ level: "info" }, { write: (line: string) => lines.push(line) }),
    ...o,
    environment: { SVC_OTLP_GRPC_LISTEN: "127.0.0.1:0", ...o.environment },
  });
  running.push(t);
  return t;
}

afterEach(async () => {
  // Those beside another one stop before it.
  for (let t = running.pop(); t !== undefined; t = running.pop()) {
    await t.stop();
  }
  lines = [];
});

const portOf = (t: TestIngestion): number => t.server.otlpGrpcAddress?.port ?? 0;

interface Exported {
  readonly code: number;
  readonly error?: Error;
}

/** Sends one log record with the exporter of OpenTelemetry's JavaScript SDK. */
async function exportLog(
  t: TestIngestion,
  body: string,
  o: { readonly key?: string; readonly ca?: Buffer; readonly timeoutMillis?: number } = {},
): Promise<Exported> {
  const metadata = new Metadata();
  metadata.set("authorization", `Bearer ${o.key ?? t.key}`);
  const exporter = new OTLPLogExporter({
    url: `${o.ca === undefined ? "http" : "https"}://localhost:${portOf(t)}`,
    metadata,
    timeoutMillis: o.timeoutMillis ?? 60_000,
    ...(o.ca === undefined ? {} : { credentials: credentials.createSsl(o.ca) }),
  });
  const send = exporter.export.bind(exporter);
  const result = new Promise<Exported>((resolve) => {
    exporter.export = (records, done) => {
      send(records, (outcome) => {
        resolve(outcome);
        done(outcome);
      });
    };
  });
  const provider = new LoggerProvider({
    resource: resourceFromAttributes({ "service.name": "grpc-test" }),
    processors: [new SimpleLogRecordProcessor({ exporter })],
  });
  provider.getLogger("test").emit({ body });
  const outcome = await result;
  await provider.shutdown();
  return outcome;
}

const stored = (t: TestIngestion, mark: string): Promise<unknown[]> =>
  t.rows("log_entries", `select 1 as found from t where msg = '${mark}'`);

describe("the exporter of an SDK", () => {
  test("is told why its key is refused, and the operator is told of it", async () => {
    const t = await start();
    const outcome = await exportLog(t, "lost", { key: "svk_nonsense" });
    expect(outcome).toMatchObject({ code: 1, error: { code: 16, details: "invalid token" } });
    expect(
      lines.filter((line) => line.includes("refused telemetry")).map((line) => JSON.parse(line) as object),
    ).toEqual([
      expect.objectContaining({ from: "127.0.0.1", path: grpcPaths.logs, status: 401, reason: "invalid token" }),
    ]);
  });

  test("the operator is told whose records are refused of a request that is stored, over HTTP as well", async () => {
    const t = await start();
    const json = {
      resourceLogs: [{ scopeLogs: [{ logRecords: [{ traceId: "ab" }, { body: { stringValue: "ok" } }] }] }],
    };
    const answer = await t.post("logs", Buffer.from(JSON.stringify(json)), { "content-type": "application/json" });
    expect(answer.status).toBe(200);
    const connection = new GrpcConnection(t.grpcUrl ?? "", t.key);
    // ExportLogsServiceRequest: one record whose trace id (9) has one byte.
    const request = Buffer.from([0x0a, 7, 0x12, 5, 0x12, 3, 0x4a, 1, 0xab]);
    expect((await connection.call(grpcPaths.logs, framed(request))).code).toBe(0);
    connection.close();
    const refused = lines
      .filter((line) => line.includes("refused telemetry"))
      .map((line) => JSON.parse(line) as object);
    const reason = expect.stringMatching(/^1 records: a trace id is not 16 bytes/u) as string;
    const common = { from: "127.0.0.1", status: 200, reason };
    expect(refused).toEqual([
      expect.objectContaining({ ...common, path: "/v1/logs" }),
      expect.objectContaining({ ...common, path: grpcPaths.logs }),
    ]);
  });

  test("the operator is told what is refused of the service's own telemetry, in lines that are not sent again", async () => {
    const t = await start();
    const own = { "svc-self-telemetry": "1" };
    const json = { resourceLogs: [{ scopeLogs: [{ logRecords: [{ traceId: "ab" }] }] }] };
    const send = (signal: "logs" | "traces", type: string): Promise<{ readonly status: number }> =>
      t.post(signal, Buffer.from(JSON.stringify(json)), { ...own, "content-type": type });
    expect((await send("logs", "application/json")).status).toBe(200);
    expect((await send("traces", "text/plain")).status).toBe(415);
    const refused = lines
      .filter((line) => line.includes("refused telemetry"))
      .map((line) => JSON.parse(line) as object);
    expect(refused).toEqual([
      expect.objectContaining({ path: "/v1/logs", status: 200, selfTelemetry: true }),
      expect.objectContaining({ status: 415, selfTelemetry: true }),
    ]);
  });

  // This exporter does not repeat what it is refused; those that do look for RetryInfo.
  test("is asked to repeat what an outage of the store held up, which is stored once", async () => {
    const t = await start();
    const lake = fileURLToPath(t.storeUri);
    await rm(lake, { recursive: true });
    await writeFile(lake, "in the way");
    const mark = freshMark();
    expect(await exportLog(t, mark, { timeoutMillis: 5000 })).toMatchObject({ code: 1, error: { code: 14 } });
    const connection = new GrpcConnection(t.grpcUrl ?? "", t.key);
    const message = framed(protobufLogs(mark));
    const refused = await connection.call(grpcPaths.logs, message);
    expect(refused.code).toBe(14);
    expect(refused.retrySeconds).toBeGreaterThan(0);
    await rm(lake);
    await expect.poll(async () => (await connection.call(grpcPaths.logs, message)).code).toBe(0);
    connection.close();
    expect(await t.rows("log_entries", `select 1 as found from t where msg like '${mark}%'`)).toHaveLength(1);
  });

  test("stores beside acceptor threads, in memory of its own", async () => {
    const t = await start({ environment: { SVC_INGESTION_ACCEPTORS: "2" } });
    const mark = freshMark();
    expect((await exportLog(t, mark)).code).toBe(0);
    expect((await t.post("logs", protobufLogs(freshMark()))).status).toBe(200);
    expect(await stored(t, mark)).toHaveLength(1);
    expect(await t.metric("ingestion_arena_size_bytes")).toBeLessThanOrEqual(16 * 1024 * 1024);
  });
});

describe("who speaks something else", () => {
  let t: TestIngestion;
  beforeAll(async () => {
    t = await startTestIngestion({ environment: { SVC_OTLP_GRPC_LISTEN: "127.0.0.1:0", SVC_HTTP_DRIVER: "node" } });
    return () => t.stop();
  });

  test.each(["POST /v1/logs HTTP/1.1", "GET / HTTP/1.1", "PUT /x HTTP/1.0"])(
    "%s on the port of gRPC is answered with the port of HTTP",
    async (line) => {
      const { responses, closed } = await rawRequest(portOf(t), [`${line}\r\nHost: x\r\n\r\n`], 2000);
      expect(responses.map(({ status }) => status)).toEqual([400]);
      expect(String(responses[0]?.body)).toBe(
        `This port takes OTLP/gRPC. OTLP/HTTP is taken on port ${t.port}: POST /v1/logs, /v1/metrics or /v1/traces.\n`,
      );
      expect(closed).toBe(true);
    },
  );

  test("a request that comes in byte by byte is answered, too", async () => {
    const connection = await RawConnection.open(portOf(t));
    for (const character of "PRO / HTTP/1.1\r\n\r\n") {
      connection.send(character);
    }
    expect((await connection.ended()).responses[0]?.status).toBe(400);
  });

  test.each([
    ["noise", Buffer.from([1, 2, 3, 4, 5])],
    ["TLS", Buffer.from([0x16, 3, 1, 0, 5])],
  ])("%s is cut", async (_, bytes) => {
    const connection = await RawConnection.open(portOf(t));
    connection.send(bytes);
    expect(await connection.ended()).toMatchObject({ responses: [], closed: true });
  });

  test("a gRPC client on the port of HTTP is told where gRPC is", async () => {
    const http = new GrpcConnection(t.url, t.key);
    const goaway = new Promise<[number, string]>((resolve) => {
      http.session.on("goaway", (code, _last, text) => {
        resolve([code, Buffer.from(text ?? []).toString()]);
      });
    });
    const http11Required = 13;
    expect(await goaway).toEqual([
      http11Required,
      `this port takes OTLP/HTTP (HTTP/1.1); OTLP/gRPC is taken on 127.0.0.1:${portOf(t)}`,
    ]);
    http.close();
  });
});

describe("with a certificate", () => {
  let directory: string;
  let certificate: Buffer;
  let environment: Record<string, string>;

  beforeAll(async () => {
    directory = await mkdtemp(path.join(tmpdir(), "telemetry-test-tls-"));
    const [key, file] = [path.join(directory, "key.pem"), path.join(directory, "certificate.pem")];
    const subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"];
    const made = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1"];
    await promisify(execFile)("openssl", ["req", ...made, ...subject, "-keyout", key, "-out", file]);
    certificate = await readFile(file);
    environment = { SVC_OTLP_GRPC_TLS_CERT_FILE: file, SVC_OTLP_GRPC_TLS_KEY_FILE: key };
  });
  afterAll(async () => {
    await rm(directory, { recursive: true, force: true });
  });

  test("those who trust it send, and those who do without TLS are told", async () => {
    const t = await start({ environment: { ...environment, SVC_OTLP_GRPC_LISTEN: "localhost:0" } });
    const mark = freshMark();
    expect((await exportLog(t, mark, { ca: certificate })).code).toBe(0);
    expect(await stored(t, mark)).toHaveLength(1);
    expect(lines.join("")).toContain(`OTLP/gRPC on https://localhost:${portOf(t)}`);

    expect((await exportLog(t, freshMark(), { timeoutMillis: 2000 })).code).toBe(1);
    await expect.poll(() => lines.join("")).toContain("HTTP/2 without TLS on the port of OTLP/gRPC with TLS");
    const { responses } = await rawRequest(portOf(t), ["GET / HTTP/1.1\r\nHost: x\r\n\r\n"], 2000);
    expect(String(responses[0]?.body)).toContain("This port takes OTLP/gRPC with TLS.");
  });

  test("a client with TLS and HTTP/1.1 is told the port of HTTP", async () => {
    const t = await start({ environment: { ...environment, SVC_OTLP_GRPC_LISTEN: "localhost:0" } });
    const answer = await new Promise<string>((resolve, reject) => {
      let received = "";
      // Without ALPN, as an HTTP library of HTTP/1.1 only.
      const socket = connectTls({ host: "localhost", port: portOf(t), ca: certificate }, () => {
        socket.write("POST /v1/logs HTTP/1.1\r\nHost: localhost\r\n\r\n");
      });
      socket.on("data", (chunk) => (received += chunk.toString()));
      socket.on("error", reject);
      socket.on("close", () => {
        resolve(received);
      });
    });
    expect(answer).toContain(`OTLP/HTTP is taken on port ${t.port}`);
  });

  test("a client that does not trust the certificate shows in the log, and one that only tries the port does not", async () => {
    const t = await start({ environment: { ...environment, SVC_OTLP_GRPC_LISTEN: "localhost:0" } });
    const probe = connect(portOf(t), "localhost", () => probe.end());
    probe.resume();
    await once(probe, "close");
    const distrusting = ["s_client", "-verify_return_error", "-alpn", "h2", "-connect", `localhost:${portOf(t)}`];
    await expect(promisify(execFile)("openssl", distrusting)).rejects.toThrow("Command failed");
    await expect.poll(() => lines.join("")).toContain("a TLS handshake failed");
    const refused = lines
      .map((line) => JSON.parse(line) as Record<string, unknown>)
      .filter(({ level }) => level === 40);
    expect(refused).toMatchObject([
      {
        from: expect.stringMatching(/127\.0\.0\.1|::1/) as string,
        reason: "a TLS handshake failed: the client does not trust this server's certificate (tlsv1 alert unknown ca)",
      },
    ]);
  });

  test("a client that stalls in its handshake is cut after ten seconds", async () => {
    const t = await start({ environment: { ...environment, SVC_OTLP_GRPC_LISTEN: "localhost:0" } });
    const socket = connect(portOf(t), "localhost");
    const startedMs = performance.now();
    // The beginning of a record of 512 bytes.
    socket.write(Buffer.from("1603010200", "hex"));
    await once(socket, "close");
    expect(performance.now() - startedMs).toBeLessThan(15_000);
  });

  test("files that hold no certificate end the start in one sentence", async () => {
    const file = path.join(directory, "empty.pem");
    await writeFile(file, "");
    await expect(start({ environment: { ...environment, SVC_OTLP_GRPC_TLS_CERT_FILE: file } })).rejects.toThrow(
      /SVC_OTLP_GRPC_TLS_CERT_FILE .* do not hold a certificate and its key/,
    );
    await expect(
      start({ environment: { ...environment, SVC_OTLP_GRPC_TLS_KEY_FILE: path.join(directory, "none.pem") } }),
    ).rejects.toThrow(/cannot read .*none\.pem/);
  });
});

describe("its address", () => {
  test("a port that is in use is refused in one sentence, and the server has not started", async () => {
    const t = await start();
    await expect(start({ beside: t, environment: { SVC_OTLP_GRPC_LISTEN: `127.0.0.1:${portOf(t)}` } })).rejects.toThrow(
      /cannot listen on 127\.0\.0\.1:\d+ for OTLP\/gRPC: .*SVC_OTLP_GRPC_LISTEN/,
    );
  });

  test("a port that is in use is a warning where that is tolerated", async () => {
    const other = createServer();
    await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
    const { port } = other.address() as { port: number };
    const t = await start({ toleratesTaken: true, environment: { SVC_OTLP_GRPC_LISTEN: `127.0.0.1:${port}` } });
    expect(t.server.otlpGrpcAddress).toBeNull();
    expect(lines.join("")).toContain(`127.0.0.1:${port} is taken: nothing sent there comes here`);
    expect((await t.post("logs", protobufLogs(freshMark()))).status).toBe(200);
    other.close();
  });

  test("connections beyond the limit are cut", async () => {
    const t = await start({ environment: { SVC_HTTP_MAX_CONNECTIONS: "2" } });
    const held = await Promise.all([RawConnection.open(portOf(t)), RawConnection.open(portOf(t))]);
    const third = await RawConnection.open(portOf(t));
    expect((await third.ended()).closed).toBe(true);
    for (const connection of held) {
      connection.cut();
    }
  });
});

describe("stopping", () => {
  test("answers every accepted call first, stores what was answered OK, and refuses later ones", async () => {
    const t = await start();
    const mark = freshMark();
    const connection = new GrpcConnection(t.grpcUrl ?? "", t.key);
    const answers = Array.from({ length: 50 }, async (_, i) => ({
      i,
      ...(await connection.call(grpcPaths.logs, framed(protobufLogs(`${mark}-${i}`)))),
    }));
    const incomplete = connection.begin(grpcPaths.logs);
    const cut = answerOf(incomplete);
    incomplete.write(framed(Buffer.alloc(1000)).subarray(0, 500));
    await expect.poll(() => t.metric("ingestion_open_requests")).toBeGreaterThan(0);
    const goaway = new Promise((resolve) => connection.session.once("goaway", resolve));
    await t.server.stop();
    await goaway;
    // What is still coming in gets three seconds, then another server may have it.
    expect(await cut).toMatchObject({ code: 14, retrySeconds: 1 });
    const found = await t.rows("log_entries", "select distinct split_part(msg, ' ', 1) as mark from t");
    const marks = new Set(found.map((row) => row["mark"]));
    const settled = await Promise.all(answers);
    expect(settled.filter(({ code }) => code === 0).length).toBeGreaterThan(0);
    expect(settled.filter(({ code, i }) => code === 0 && !marks.has(`${mark}-${i}`))).toEqual([]);
    expect(settled.filter(({ code }) => ![0, 14, Number.NaN].some((allowed) => Object.is(allowed, code)))).toEqual([]);
    await expect(RawConnection.open(portOf(t))).rejects.toThrow("ECONNREFUSED");
  });
});
