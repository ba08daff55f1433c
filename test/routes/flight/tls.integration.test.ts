import { execFile } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { connect as connectPlainly } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";

import { credentials, status } from "@grpc/grpc-js";
import { pino } from "pino";
import { connect, staticKey } from "telemetry-service-client";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { startFlightServer } from "../../../src/routes/flight/server.js";
import { RenewableCredentials } from "../../../src/routes/grpc/server-credentials.js";
import { startTestAnalytics, type TestAnalytics } from "../../helpers/servers/analytics.js";
import { any, flightCalls } from "../../helpers/flight/flight-standard.js";

let t: TestAnalytics;
let directory: string;
let certificate: Buffer;
let privateKey: Buffer;

beforeAll(async () => {
  directory = await mkdtemp(path.join(tmpdir(), "telemetry-test-tls-"));
  const [keyFile, certificateFile] = ["key.pem", "certificate.pem"].map((name) => path.join(directory, name)) as [
    string,
    string,
  ];
  const subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"];
  const made = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "1"];
  await promisify(execFile)("openssl", [
    "req",
    "-x509",
    ...made,
    ...subject,
    "-keyout",
    keyFile,
    "-out",
    certificateFile,
  ]);
  certificate = await readFile(certificateFile);
  privateKey = await readFile(keyFile);
  t = await startTestAnalytics({
    SVC_ANALYTICS_LISTEN: "localhost:0",
    SVC_ANALYTICS_TLS_CERT_FILE: certificateFile,
    SVC_ANALYTICS_TLS_KEY_FILE: keyFile,
  });
});

afterAll(async () => {
  await t.stop();
  await rm(directory, { recursive: true, force: true });
});

const query = any("CommandStatementQuery", { query: "SELECT 42 AS v" });

describe("with a certificate", () => {
  it("answers those who trust it", async () => {
    const calls = flightCalls(t.port, t.key, credentials.createSsl(certificate), "localhost");
    expect((await calls.table(query)).get(0)?.toJSON()).toEqual({ v: 42 });
    calls.close();
  });

  it("is shown to nobody who stalls for ten seconds", async () => {
    const socket = connectPlainly(t.port, "localhost");
    const startedMs = performance.now();
    // The beginning of a record of 512 bytes.
    socket.write(Buffer.from("1603010200", "hex"));
    await once(socket, "close");
    expect(performance.now() - startedMs).toBeLessThan(15_000);
  });

  it("is named in the log when clients refuse it, once a minute", async () => {
    const lines: string[] = [];
    const server = await startFlightServer({
      host: "localhost",
      port: 0,
      tls: new RenewableCredentials({ certificateChain: certificate, privateKey }),
      maxConnections: 10,
      service: { methods: {}, admission: null as never, endCalls: () => undefined },
      drainMs: () => 0,
      logger: pino({}, { write: (line: string) => lines.push(line) }),
    });
    const { port } = server.address;
    const probe = connectPlainly(port, "localhost", () => probe.end());
    probe.resume();
    await once(probe, "close");
    for (let i = 0; i < 2; i++) {
      const distrusting = ["s_client", "-verify_return_error", "-alpn", "h2", "-connect", `localhost:${port}`];
      await expect(promisify(execFile)("openssl", distrusting)).rejects.toThrow("Command failed");
    }
    const plain = connectPlainly(port, "localhost", () => plain.write("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"));
    plain.resume();
    await once(plain, "close");
    await expect.poll(() => lines.length).toBe(2);
    expect(lines[0]).toMatch(
      /refused a client from (?:127\.0\.0\.1|::1): a TLS handshake failed: the client does not trust this server's certificate \(tlsv1 alert unknown ca\)/,
    );
    expect(lines[1]).toContain("a TLS handshake failed: the client does not speak TLS");
    await server.stop();
  });

  it("is named as what is wrong by the client of those who do not trust it", async () => {
    const client = connect({ uri: `grpc+tls://localhost:${t.port}` });
    await expect(client.query("SELECT 1")).rejects.toThrow(
      `the certificate of localhost:${t.port} is not trusted: self-signed certificate`,
    );
    client.close();
    const trusting = connect({
      uri: `grpc+tls://localhost:${t.port}`,
      auth: staticKey(t.key),
      rootCertificates: certificate,
    });
    expect((await (await trusting.query("SELECT 1")).table()).numRows).toBe(1);
    trusting.close();
  });

  it.each([
    ["without TLS", credentials.createInsecure()],
    ["who trust other certificates only", credentials.createSsl()],
  ])("does not talk to those %s", async (_name, channel) => {
    const calls = flightCalls(t.port, t.key, channel, "localhost");
    await expect(calls.info(query)).rejects.toMatchObject({ code: status.UNAVAILABLE });
    calls.close();
  });
});
