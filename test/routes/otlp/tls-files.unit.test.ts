/** What a listener says of its certificate and key, and how it gets new ones. */
import { execFile } from "node:child_process";
import { X509Certificate } from "node:crypto";
import { once } from "node:events";
import { copyFile, mkdir, mkdtemp, readFile, rename, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { connect } from "node:tls";
import { promisify } from "node:util";

import { Server } from "@grpc/grpc-js";
import { pino } from "pino";
import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test, vi } from "vitest";

import { openTls } from "../../../src/servers/tls-files.js";

const openssl = async (...args: string[]) => await promisify(execFile)("openssl", args);
let directory: string;
let log = "";
const lines = () =>
  log
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => (JSON.parse(line) as { msg: string }).msg);
const file = (name: string) => path.join(directory, name);
const logger = pino({}, { write: (line: string) => (log += line) });
const read = async (certificate: string, key: string) => {
  const tls = await openTls("SVC_ANALYTICS_TLS", file(certificate), file(key), logger);
  onTestFinished(() => tls?.stop());
  return tls;
};

beforeAll(async () => {
  directory = await mkdtemp(path.join(tmpdir(), "telemetry-test-tls-files-"));
  const made = ["req", "-x509", "-nodes", "-subj", "/CN=localhost", "-days", "1"];
  const elliptic = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"];
  await openssl(...made, ...elliptic, "-keyout", file("ec.key"), "-out", file("ec.pem"));
  await openssl(...made, "-newkey", "rsa:2048", "-keyout", file("rsa.key"), "-out", file("rsa.pem"));
  await openssl("pkcs8", "-topk8", "-in", file("ec.key"), "-out", file("secret.key"), "-passout", "pass:x");
  const [ec, rsa, key] = await Promise.all(["ec.pem", "rsa.pem", "ec.key"].map((name) => readFile(file(name), "utf8")));
  await writeFile(file("reversed.pem"), `${rsa}${ec}`);
  await writeFile(file("one.pem"), `${ec}${key}`);
});
beforeEach(() => {
  log = "";
});
afterAll(async () => {
  await rm(directory, { recursive: true, force: true });
});

test.each([
  ["ec.pem", "ec.key"],
  ["rsa.pem", "rsa.key"],
  ["one.pem", "one.pem"],
])("takes %s with %s, and says until when it is valid", async (certificate, key) => {
  const tls = await read(certificate, key);
  expect(tls?.credentials._getSecureContextOptions()).toMatchObject({ key: await readFile(file(key)) });
  const { validTo } = new X509Certificate(await readFile(file(certificate)));
  expect(lines()).toEqual([`the certificate of SVC_ANALYTICS_TLS_CERT_FILE was loaded, and is valid until ${validTo}`]);
});

// OpenSSL compares keys of one kind alone, and forgets the certificate for one of another.
test.each([
  ["ec.pem", "rsa.key", "SVC_ANALYTICS_TLS_CERT_FILE and SVC_ANALYTICS_TLS_KEY_FILE do not fit"],
  ["reversed.pem", "ec.key", "SVC_ANALYTICS_TLS_CERT_FILE and SVC_ANALYTICS_TLS_KEY_FILE do not fit"],
  ["ec.pem", "secret.key", "the key has no passphrase"],
  ["ec.key", "ec.pem", "do not hold a certificate and its key"],
])("refuses %s with %s", async (certificate, key, words) => {
  await expect(read(certificate, key)).rejects.toMatchObject({
    code: "NOT_CONFIGURED",
    message: expect.stringContaining(words) as string,
  });
});

test("uses a certificate that has ended, and says so", async () => {
  vi.useFakeTimers({ now: Date.now() + 2 * 86_400_000, toFake: ["Date"] });
  onTestFinished(() => void vi.useRealTimers());
  expect(await read("ec.pem", "ec.key")).not.toBeNull();
  expect(lines()[1]).toMatch(
    /clients refuse the certificate of SVC_ANALYTICS_TLS_CERT_FILE: it is valid from .* to .*within a minute/,
  );
});

test("says once a day that a certificate ends soon", async () => {
  const tls = await read("ec.pem", "ec.key");
  log = "";
  vi.useFakeTimers({ now: Date.now() + 23 * 3_600_000, toFake: ["Date"] });
  onTestFinished(() => void vi.useRealTimers());
  await tls?.look();
  await tls?.look();
  expect(lines()).toEqual([expect.stringMatching(/^the certificate of SVC_ANALYTICS_TLS_CERT_FILE ends at .*; put/)]);
  vi.setSystemTime(Date.now() + 86_400_000);
  await tls?.look();
  expect(lines()[1]).toContain("clients refuse the certificate");
});

test("new connections get what is in the files, once it is whole", async () => {
  // As Kubernetes mounts a secret: the files are links into a directory that is swapped.
  for (const kind of ["ec", "rsa"]) {
    await mkdir(file(`mount-${kind}`));
    await copyFile(file(`${kind}.pem`), file(`mount-${kind}/tls.crt`));
    await copyFile(file(`${kind}.key`), file(`mount-${kind}/tls.key`));
  }
  const mount = async (kind: string) => {
    await symlink(`mount-${kind}`, file("next"));
    await rename(file("next"), file("mount"));
  };
  await mount("ec");
  const tls = await read("mount/tls.crt", "mount/tls.key");
  const server = new Server();
  onTestFinished(() => {
    server.forceShutdown();
  });
  const port = await promisify(server.bindAsync.bind(server))("127.0.0.1:0", tls?.credentials as never);
  const shown = async () => {
    const socket = connect({ host: "127.0.0.1", port, rejectUnauthorized: false, ALPNProtocols: ["h2"] });
    await once(socket, "secureConnect");
    expect(socket.alpnProtocol).toBe("h2");
    const { raw } = socket.getPeerCertificate();
    socket.destroy();
    return ["ec", "rsa"].find((kind) => raw.equals(certificates[kind]?.raw as Buffer));
  };
  const certificates: Record<string, X509Certificate> = {};
  for (const kind of ["ec", "rsa"]) {
    certificates[kind] = new X509Certificate(await readFile(file(`${kind}.pem`)));
  }
  expect(await shown()).toBe("ec");

  log = "";
  await writeFile(file("mount-ec/tls.crt"), (await readFile(file("rsa.pem"))).subarray(0, 300));
  await tls?.look();
  await tls?.look();
  expect(lines()).toEqual([expect.stringMatching(/were not renewed, and those of before go on: .* do not hold/)]);
  expect(await shown()).toBe("ec");

  log = "";
  await mount("rsa");
  await tls?.look();
  await tls?.look();
  expect(lines()).toEqual([expect.stringContaining("was loaded, and is valid until")]);
  expect(await shown()).toBe("rsa");
});
