import { chmod, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { StaticKeyProvider, staticKey } from "../../src/auth/auth-provider.js";
import { CredentialError } from "../../src/auth/credential-error.js";
import { readProfile } from "../../src/auth/profiles.js";
import { parseFlightSqlUri } from "../../src/flight/flight-address.js";
import { otlpEnvironment, otlpExporterConfig } from "../../src/telemetry/otlp-exporter.js";

let directory: string;
beforeAll(async () => {
  directory = await mkdtemp(path.join(tmpdir(), "client-credentials-"));
});
afterAll(async () => {
  await rm(directory, { recursive: true });
});

describe("a key file", () => {
  it("is sent verbatim as the bearer token, without the white space around it", async () => {
    const file = path.join(directory, "key");
    await writeFile(file, "svk_abc\n", { mode: 0o600 });
    expect(await new StaticKeyProvider(file).authorization()).toBe("Bearer svk_abc");
  });

  it("is refused when others can read it, and the refusal holds no key", async () => {
    const file = path.join(directory, "open");
    await writeFile(file, "svk_secret");
    await chmod(file, 0o644);
    const refusal = await new StaticKeyProvider(file).authorization().then(String, String);
    expect(refusal).toContain("chmod 600");
    expect(refusal).not.toContain("svk_secret");
  });

  it("is refused when it is missing or empty", async () => {
    await expect(new StaticKeyProvider(path.join(directory, "none")).authorization()).rejects.toThrow("ENOENT");
    const file = path.join(directory, "empty");
    await writeFile(file, "\n", { mode: 0o600 });
    await expect(new StaticKeyProvider(file).authorization()).rejects.toThrow("is empty");
  });

  it.each([undefined, null, ""])("is missed where it is %j", (key) => {
    expect(() => staticKey(key as unknown as string)).toThrow(
      new CredentialError("INVALID_KEY", "the API key is missing"),
    );
  });

  it("cannot smuggle a second header", () => {
    expect(() => staticKey("svk_a\r\nx: y")).toThrow("cannot be sent");
  });
});

describe("a profile", () => {
  it("names a key file", async () => {
    const file = path.join(directory, "config.json");
    await writeFile(file, JSON.stringify({ profiles: { work: { api_key_file: "work.key" }, bare: {} } }));
    expect(await readProfile(file, "work")).toEqual({ apiKeyFile: "work.key" });
    expect(await readProfile(file, "bare")).toEqual({ apiKeyFile: null });
    await expect(readProfile(file, "toString")).rejects.toThrow("no profile named toString");
  });

  it("may have nothing else, which would be a misspelled name", async () => {
    const file = path.join(directory, "config.json");
    await writeFile(file, JSON.stringify({ profiles: { work: { api_keyfile: "work.key" } } }));
    await expect(readProfile(file, "work")).rejects.toThrow(
      `profile work in ${file} has "api_keyfile"; all that it may have is api_key_file`,
    );
  });
});

describe("an analytics URI", () => {
  it("has a default port, TLS by its scheme, and knows this machine", () => {
    expect(parseFlightSqlUri("grpc://localhost")).toEqual({
      target: "localhost:50051",
      tls: false,
      loopback: true,
    });
    expect(parseFlightSqlUri("grpc+tls://db.example:443/")).toEqual({
      target: "db.example:443",
      tls: true,
      loopback: false,
    });
    expect(parseFlightSqlUri("grpc://[::1]:1").loopback).toBe(true);
  });

  it.each(["http://localhost", "localhost:50051", "grpc://", "grpc://h:99999", "grpc://u:p@h:1", "grpc://h:1/path"])(
    "is not %j",
    (uri) => {
      expect(() => parseFlightSqlUri(uri)).toThrow("grpc://host:port");
    },
  );
});

describe("exporter configuration", () => {
  it("appends the OTLP path where it is missing", () => {
    for (const telemetryUrl of ["http://h:9000", "http://h:9000/", "http://h:9000/ingestion/otlp"]) {
      expect(otlpExporterConfig({ telemetryUrl, apiKey: "svk_k" })).toEqual({
        logsUrl: "http://h:9000/ingestion/otlp/v1/logs",
        metricsUrl: "http://h:9000/ingestion/otlp/v1/metrics",
        tracesUrl: "http://h:9000/ingestion/otlp/v1/traces",
        headers: { Authorization: "Bearer svk_k" },
      });
    }
    expect(() => otlpExporterConfig({ telemetryUrl: "ftp://h", apiKey: null })).toThrow("http://host:port");
  });

  it("percent-encodes header values in the standard variables", () => {
    expect(Object.fromEntries(otlpEnvironment({ ingestionUrl: "http://h:1", apiKey: "svk_k" }))).toEqual({
      OTEL_EXPORTER_OTLP_ENDPOINT: "http://h:1/ingestion/otlp",
      OTEL_EXPORTER_OTLP_HEADERS: "Authorization=Bearer%20svk_k",
      OTEL_EXPORTER_OTLP_PROTOCOL: "http/protobuf",
    });
  });
});
