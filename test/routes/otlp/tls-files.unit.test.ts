/** What a listener says of its certificate and key at the start. */
import { execFile } from "node:child_process";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";

import { pino } from "pino";
import { afterAll, beforeAll, expect, test, vi } from "vitest";

import { readTls } from "../../../src/servers/tls-files.js";

const openssl = async (...args: string[]) => await promisify(execFile)("openssl", args);
let directory: string;
let log = "";
const file = (name: string) => path.join(directory, name);
const logger = pino({}, { write: (line: string) => (log += line) });
const read = async (certificate: string, key: string) =>
  await readTls("SVC_ANALYTICS_TLS", file(certificate), file(key), logger);

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
afterAll(async () => {
  await rm(directory, { recursive: true, force: true });
});

test.each([
  ["ec.pem", "ec.key"],
  ["rsa.pem", "rsa.key"],
  ["one.pem", "one.pem"],
])("takes %s with %s without a word", async (certificate, key) => {
  expect(await read(certificate, key)).toMatchObject({ privateKey: await readFile(file(key)) });
  expect(log).toBe("");
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
  expect(await read("ec.pem", "ec.key")).not.toBeNull();
  vi.useRealTimers();
  expect(log).toMatch(
    /clients refuse the certificate of SVC_ANALYTICS_TLS_CERT_FILE: it is valid from .* to .*restart/,
  );
});
