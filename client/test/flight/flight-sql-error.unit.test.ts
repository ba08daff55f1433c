import { Metadata } from "@grpc/grpc-js";
import { once } from "node:events";
import { createServer } from "node:http";
import { type AddressInfo, type Socket, createServer as createTcpServer } from "node:net";
import { afterEach, beforeEach, expect, it, onTestFinished, vi } from "vitest";

import { openFlightCalls } from "../../src/flight/flight-calls.js";
import { connect } from "../../src/flight/flight-sql-client.js";
import { FlightSqlError, toFlightSqlError } from "../../src/flight/flight-sql-error.js";

it.each([
  ["grpc+tls", "TLS", "grpc://"],
  ["grpc", "gRPC", "grpc+tls://"],
])(
  "%s:// says that something else answers there, and what to try, without a warning of Node.js",
  async (scheme, spoken, other) => {
    const warnings: Error[] = [];
    const warned = (warning: Error): number => warnings.push(warning);
    process.on("warning", warned);
    onTestFinished(() => void process.off("warning", warned));
    const server = createServer((_, response) => response.end());
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const target = `127.0.0.1:${(server.address() as AddressInfo).port}`;
    const client = connect({ uri: `${scheme}://${target}` });
    await expect(client.sqlInfo(0)).rejects.toMatchObject({
      code: "UNAVAILABLE",
      message: `something answers at ${target}, but not with ${spoken}`,
      advice: `check the port; is it ${other}?`,
      unreachable: true,
    });
    client.close();
    server.close();
    expect(warnings).toEqual([]);
  },
);

it("grpc:// asks for grpc+tls:// where the connection ends without a word", async () => {
  // As a server with TLS does.
  const server = createTcpServer((socket) => socket.once("data", () => socket.destroy()));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const target = `127.0.0.1:${(server.address() as AddressInfo).port}`;
  const client = connect({ uri: `grpc://${target}` });
  await expect(client.sqlInfo(0)).rejects.toMatchObject({
    message: `something at ${target} ends the connection before it speaks gRPC`,
    advice: "check the port; is it grpc+tls://? Otherwise try again in a moment",
    unreachable: true,
  });
  client.close();
  server.close();
});

/** What takes connections and never says a word, as a machine behind a balancer that hangs. */
async function silentServer(): Promise<string> {
  const sockets = new Set<Socket>();
  const server = createTcpServer((socket) => void sockets.add(socket));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.close();
    for (const socket of sockets) {
      socket.destroy();
    }
  });
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

it.each(["grpc", "grpc+tls"])("%s:// does not wait for ever for one that says nothing", async (scheme) => {
  const target = await silentServer();
  const client = connect({ uri: `${scheme}://${target}`, connectTimeoutMs: 50 });
  onTestFinished(() => client.close());
  await expect(client.query("SELECT 1")).rejects.toMatchObject({
    code: "UNAVAILABLE",
    message: `the analytics server at ${target} did not answer within 0.05 s`,
    unreachable: true,
  });
});

it("a signal ends the wait for a connection", async () => {
  const client = connect({ uri: `grpc://${await silentServer()}` });
  onTestFinished(() => client.close());
  const controller = new AbortController();
  const query = client.query("SELECT 1", { signal: controller.signal });
  controller.abort();
  await expect(query).rejects.toMatchObject({ code: "CANCELLED" });
});

const roots = "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH";
beforeEach(() => {
  vi.stubEnv(roots, undefined);
});
afterEach(() => {
  vi.unstubAllEnvs();
});

it.each([
  ["Error: self-signed certificate", "self-signed certificate"],
  ["Error: certificate has expired", "certificate has expired"],
  [
    "Error [ERR_TLS_CERT_ALTNAME_INVALID]: Hostname/IP does not match certificate's altnames: Host: a. is not b",
    "Hostname/IP does not match certificate's altnames: Host: a. is not b",
  ],
])("says why a certificate is not trusted: %s", (last, reason) => {
  const details = `No connection established. Last error: ${last}. Resolution note: `;
  const thrown = Object.assign(new Error("14 UNAVAILABLE"), { code: 14, details });
  expect(toFlightSqlError(thrown, { target: "a:1", tls: true, loopback: false })).toMatchObject({
    code: "UNAVAILABLE",
    message: `the certificate of a:1 is not trusted: ${reason}`,
    advice: "check the host name, or name the certificates to trust in NODE_EXTRA_CA_CERTS",
    unreachable: true,
  });
});

it("names the variable that keeps others from being asked", () => {
  vi.stubEnv(roots, "/roots.pem");
  const details = "No connection established. Last error: Error: self-signed certificate. Resolution note: ";
  const thrown = Object.assign(new Error("14 UNAVAILABLE"), { code: 14, details });
  const { advice } = toFlightSqlError(thrown, { target: "a:1", tls: true, loopback: false });
  expect(advice).toMatch(/put the certificates to trust into \/roots\.pem: GRPC_DEFAULT_SSL_ROOTS_FILE_PATH names it/);
});

it.each(["read ECONNRESET", "Connection dropped"])("says that a connection broke under a call: %s", (details) => {
  const thrown = Object.assign(new Error("14 UNAVAILABLE"), { code: 14, details });
  expect(toFlightSqlError(thrown, { target: "a:1", tls: true, loopback: false })).toMatchObject({
    code: "UNAVAILABLE",
    message: `the connection to the analytics server at a:1 broke: ${details}`,
    unreachable: true,
  });
});

it("leaves what a server says of a connection of its own as it is", () => {
  const details = "the object store cannot be read: no connection comes about: check the network (ECONNREFUSED)";
  const thrown = Object.assign(new Error("14 UNAVAILABLE"), { code: 14, details });
  expect(toFlightSqlError(thrown, { target: "a:1", tls: false, loopback: true })).toMatchObject({
    code: "UNAVAILABLE",
    message: details,
    unreachable: false,
  });
});

it("says that the client was closed, whatever is asked of it", async () => {
  const closed = openFlightCalls({ uri: "grpc://127.0.0.1:1" });
  closed.close();
  const { signal } = new AbortController();
  const metadata = new Metadata();
  const none = new Uint8Array(0);
  const context = { signal, headers: {} };
  for (const call of [
    () => closed.info(none, context),
    () => closed.get({ tickets: [none], metadata }, signal).next(),
    () => closed.action("", none, context),
    () => closed.put(none, [], context),
  ]) {
    const error: unknown = await call().catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(FlightSqlError);
    expect(error).toMatchObject({ code: "CANCELLED", message: "the client was closed" });
  }
});
