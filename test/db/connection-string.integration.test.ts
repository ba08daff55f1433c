/** TLS of the connection to Postgres, as libpq's parameters ask for it: a server that has TLS in front of a real Postgres. */
import { execFile } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import net from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { createSecureContext, TLSSocket } from "node:tls";
import { promisify } from "node:util";

import { afterAll, beforeAll, expect, test } from "vitest";

import { connect } from "../../src/db/sql.js";
import { createTappedLogger } from "../helpers/cleartext/cleartext-tap.js";
import { createTestDatabase, type TestDatabase } from "../helpers/postgres/postgres.js";

let db: TestDatabase;
let directory: string;
let server: net.Server;
let url: URL;
const sockets = new Set<net.Socket>();
const file = (name: string) => path.join(directory, name);

beforeAll(async () => {
  db = await createTestDatabase();
  directory = await mkdtemp(path.join(tmpdir(), "telemetry-test-connection-string-"));
  for (const [name, host] of [
    ["own", "localhost"],
    ["other", "elsewhere.example"],
  ] as const) {
    const made = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", `/CN=${host}`];
    const files = ["-keyout", file(`${name}.key`), "-out", file(`${name}.pem`)];
    await promisify(execFile)("openssl", ["req", ...made, "-addext", `subjectAltName=DNS:${host}`, ...files]);
  }
  await writeFile(file("none.pem"), "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n");
  const secureContext = createSecureContext({
    cert: await readFile(file("own.pem")),
    key: await readFile(file("own.key")),
  });
  url = new URL(db.connectionString);
  const [host, port] = [url.hostname, Number(url.port)];
  server = net.createServer((socket) => {
    sockets.add(socket.on("error", () => undefined));
    socket.once("data", () => {
      socket.write("S");
      const plain = new TLSSocket(socket, { isServer: true, secureContext }).on("error", () => undefined);
      const database = net.connect(port, host).on("error", () => undefined);
      sockets.add(database);
      plain.pipe(database).pipe(plain);
    });
  });
  server.listen(0, "localhost");
  await once(server, "listening");
  url.hostname = "localhost";
  url.port = String((server.address() as net.AddressInfo).port);
});
afterAll(async () => {
  server.close();
  for (const socket of sockets) {
    socket.destroy();
  }
  await db.drop();
  await rm(directory, { recursive: true });
});

async function ask(search: Record<string, string>, hostname = "localhost"): Promise<unknown> {
  const asked = Object.assign(new URL(url), { hostname, search: new URLSearchParams(search).toString() });
  const sql = connect({
    connectionString: asked.href,
    maxConnections: 1,
    applicationName: "test",
    logger: createTappedLogger(),
  });
  try {
    return await sql`select 1 as one`;
  } finally {
    await sql.end({ timeout: 0 });
  }
}

test.each([
  { sslmode: "require" },
  { sslmode: "prefer" },
  { sslmode: "allow" },
  { sslmode: "require", sslrootcert: "own.pem" },
  { sslmode: "verify-ca", sslrootcert: "own.pem" },
  { sslmode: "verify-full", sslrootcert: "own.pem" },
  { sslmode: "verify-full", sslrootcert: "own.pem", sslcert: "other.pem", sslkey: "other.key" },
  { ssl: "require" },
  { ssl: "verify-full", sslrootcert: "own.pem" },
  { ssl: "true", sslrootcert: "own.pem" },
  { sslmode: "require", application_name: "mine", target_session_attrs: "read-write" },
])("takes %o", async (search) => {
  expect(await ask(withPaths(search))).toEqual([{ one: 1 }]);
});

test.each([
  [{ sslmode: "verify-full" }, /self-signed certificate/],
  [{ sslrootcert: "system" }, /self-signed certificate/],
  [{ sslmode: "require", sslrootcert: "other.pem" }, /self-signed certificate/],
  [{ sslmode: "verify-ca", sslrootcert: "other.pem" }, /self-signed certificate/],
  [{ sslmode: "verify_full" }, /unknown sslmode verify_full: take one of disable, .* verify-ca, verify-full\.$/],
  [{ ssl: "xyz" }, /unknown sslmode xyz: take one of disable, /],
  [{ ssl: "true" }, /self-signed certificate/],
  [{ sslmode: "require", sslnegotiation: "maybe" }, /unknown sslnegotiation maybe: take postgres or direct/],
  [{ idle_timeout: "5", fetch_types: "false" }, /does not take: idle_timeout, fetch_types\. Leave/],
  [{ sslrootcert: "own.pem" }, /no sslmode: add sslmode=verify-full/],
  [
    { sslmode: "verify-full", sslrootcert: "missing.pem" },
    /SVC_SQL_CONNECTION_STRING names .*missing\.pem, which cannot/,
  ],
  [{ sslmode: "verify-full", sslrootcert: "none.pem" }, /are not PEM/],
  [{ sslmode: "require", sslcert: "own.pem", sslkey: "other.key" }, /do not fit/],
  [
    { channel_binding: "require", gssencmode: "disable" },
    /does not take: channel_binding, gssencmode\. Leave them out/,
  ],
  [{ search_path: "other", timezone: "CET" }, /does not take: search_path, timezone/],
])("refuses %o", async (search, words) => {
  await expect(ask(withPaths(search))).rejects.toThrow(words);
});

test("verify-full asks for the host as it is named, an address too", async () => {
  const sslrootcert = file("own.pem");
  expect(await ask({ sslmode: "verify-ca", sslrootcert }, "127.0.0.1")).toEqual([{ one: 1 }]);
  await expect(ask({ sslmode: "verify-full", sslrootcert }, "127.0.0.1")).rejects.toThrow(/IP: 127\.0\.0\.1 is not in/);
});

/** Names of files become paths. */
function withPaths(search: Record<string, string>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(search).map(([key, value]) => [key, /\.(?:pem|key)$/u.test(value) ? file(value) : value]),
  );
}
