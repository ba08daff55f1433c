/** What is said of an identity provider that gives no answer. */
import { execFile } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { promisify } from "node:util";

import { expect, test } from "vitest";

import { createIssuerFetch } from "../../src/auth/oidc/issuer-fetch.js";

test("names the reason, and what to set where a certificate is not trusted", async () => {
  const directory = await mkdtemp(path.join(tmpdir(), "telemetry-test-issuer-fetch-"));
  const [keyFile, file] = ["key.pem", "certificate.pem"].map((name) => path.join(directory, name)) as [string, string];
  const made = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=localhost"];
  await promisify(execFile)("openssl", ["req", ...made, "-keyout", keyFile, "-out", file]);
  const server = createServer({ key: await readFile(keyFile), cert: await readFile(file) });
  await rm(directory, { recursive: true });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const issuer = `https://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const ask = createIssuerFetch({ issuer, audience: "client", allowHttp: false, caFile: null });
  // Later versions of Node.js add advice of their own.
  await expect(ask(issuer, {})).rejects.toThrow(
    /^self-signed certificate.* \(is its authority named in ca_file of SVC_OIDC_CONFIG, or in NODE_EXTRA_CA_CERTS\?\)$/,
  );
  server.close();
  await once(server, "close");
  // No test listens there; a port that was given back may be another's by now.
  await expect(ask("https://127.0.0.1:3", {})).rejects.toThrow(/^connect ECONNREFUSED 127\.0\.0\.1:3$/u);
});
