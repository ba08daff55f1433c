/** `Authorization` fields that are no good, at both running servers: 401 and UNAUTHENTICATED, nothing else. */
import { createHmac } from "node:crypto";

import { exportSPKI, importJWK } from "jose";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";

import { generateKeyString } from "../../src/auth/key-string.js";
import { flightInfo, grpcOk, grpcUnauthenticated } from "../helpers/auth/auth-grpc.js";
import { makeSigningKey, signToken } from "../helpers/auth/auth-oidc-provider.js";
import {
  type RunningAnalytics,
  type RunningIngestion,
  startTestService,
  type TestService,
} from "../helpers/auth/auth-service.js";
import { freshMark, protobufLogs } from "../helpers/otlp/otlp-bodies.js";
import { RawConnection, rawRequest } from "../helpers/http/raw-http.js";

const base64 = (value: unknown): string => Buffer.from(JSON.stringify(value)).toString("base64url");

let t: TestService;
let servers: Record<string, RunningIngestion>;
let analytics: RunningAnalytics;
/** A good key of each server. */
let good: { ingestion: string; analytics: string };

beforeAll(async () => {
  t = await startTestService();
  servers = {
    "1": await t.startIngestion({ SVC_INGESTION_ACCEPTORS: "1" }),
    "2": await t.startIngestion({ SVC_INGESTION_ACCEPTORS: "2" }),
  };
  analytics = await t.startAnalytics();
  good = {
    ingestion: (await t.mintIngestion("red")).key,
    analytics: (await t.mintAnalytics()).key,
  };
});
afterAll(async () => {
  await t.stop();
});

/** Values of the field by what is wrong with them; `key` is a good one. Each character is one byte. */
function badValues(key: string): Record<string, string> {
  return {
    empty: "",
    "the scheme alone": "Bearer",
    "the scheme and a space": "Bearer ",
    "no scheme": key,
    "another scheme": `Basic ${Buffer.from("a:b").toString("base64")}`,
    "an unknown scheme": `Token ${key}`,
    "two credentials in one field": `Bearer ${key}, Bearer ${key}`,
    "something after the key": `Bearer ${key} x`,
    "a tab instead of the space": `Bearer\t${key}`,
    "a character outside ASCII": `Bearer ${key.slice(0, -1)}\u00e9`,
    "UTF-8 bytes": `Bearer ${Buffer.from("sk–☃".repeat(14)).toString("latin1")}`,
    "a wrong checksum": `Bearer ${key.slice(0, -1)}${key.endsWith("a") ? "b" : "a"}`,
    "an unknown key": `Bearer ${generateKeyString()}`,
    "20 KB": `Bearer ${"x".repeat(20_000)}`,
  };
}

/** JWTs that must not be accepted, by what is wrong with them. */
async function badTokens(): Promise<Record<string, string>> {
  const now = Math.floor(Date.now() / 1000);
  const token = await t.token();
  const [header = "", body = "", signature = ""] = token.split(".");
  const publicKey = await importJWK({ ...t.signingKey.jwk, d: undefined } as never, "RS256");
  const hmacInput = `${base64({ alg: "HS256", kid: "first" })}.${body}`;
  const hmac = createHmac("sha256", await exportSPKI(publicKey)).update(hmacInput);
  const unknownKid = { ...t.signingKey, jwk: { ...t.signingKey.jwk, kid: "unknown" } };
  const { issuer, clientId } = t.provider;
  const standard = { iss: issuer, aud: clientId, sub: "x", iat: now };
  return {
    "alg none": `${base64({ alg: "none" })}.${body}.`,
    "HMAC with the public key": `${hmacInput}.${hmac.digest("base64url")}`,
    "an unknown kid": await signToken(unknownKid, { ...standard, exp: now + 60 }),
    "another key": await signToken(await makeSigningKey("first"), { ...standard, exp: now + 60 }),
    "the wrong issuer": await t.token({ iss: "https://elsewhere.example" }),
    "the wrong audience": await t.token({ aud: "somebody-else" }),
    "several audiences": await t.token({ aud: [clientId, "somebody-else"] }),
    expired: await t.token({ exp: now - 61 }),
    "not yet valid": await t.token({ nbf: now + 90 }),
    "no exp": await signToken(t.signingKey, standard),
    "a critical header": `${base64({ alg: "RS256", kid: "first", crit: ["x"], x: 1 })}.${body}.${signature}`,
    "a changed claim": `${header}.${base64({ ...standard, sub: "admin", exp: now + 60 })}.${signature}`,
  };
}

const request = (fields: readonly string[]): Buffer => {
  const body = protobufLogs(freshMark());
  const head = [
    "POST /ingestion/otlp/v1/logs HTTP/1.1",
    "Host: localhost",
    "Content-Type: application/x-protobuf",
    `Content-Length: ${body.length}`,
    ...fields,
  ];
  return Buffer.concat([Buffer.from(`${head.join("\r\n")}\r\n\r\n`, "latin1"), body]);
};

describe.each(["1", "2"])("ingestion with %s acceptor thread(s)", (acceptors) => {
  const send = async (...fields: string[]): Promise<{ status: number; challenge: string }> => {
    const { port } = servers[acceptors] as RunningIngestion;
    const { responses } = await rawRequest(port, [request(fields)], 0);
    const [answer] = responses;
    return {
      status: answer?.status ?? 0,
      challenge: answer?.headers["www-authenticate"] ?? "",
    };
  };
  const refused = { status: 401, challenge: "Bearer" };

  test("refuses bad values of the field with 401 and a challenge", async () => {
    const answers: Record<string, unknown> = { missing: await send() };
    for (const [name, value] of Object.entries(badValues(good.ingestion))) {
      answers[name] = await send(`Authorization: ${value}`);
    }
    for (const [name, token] of Object.entries(await badTokens())) {
      answers[name] = await send(`Authorization: Bearer ${token}`);
    }
    for (const [name, answer] of Object.entries(answers)) {
      expect([name, answer]).toEqual([name, refused]);
    }
  });

  test("refuses a doubled field, whichever of the two is good", async () => {
    const key = `Authorization: Bearer ${good.ingestion}`;
    for (const fields of [
      [key, key],
      [key, "Authorization: Bearer other"],
      ["Authorization: Bearer other", key],
      ["Authorization:", key],
      [key, "Authorization:"],
    ]) {
      expect([fields, await send(...fields)]).toEqual([fields, refused]);
    }
  });

  test("refuses 60 KB and 1 MB, gathers no more than 64 KiB, and serves others on", async () => {
    const server = servers[acceptors] as RunningIngestion;
    for (const [bytes, status] of [
      [60_000, 401],
      [1_000_000, 431],
    ] as const) {
      const connection = await RawConnection.open(server.port);
      connection.send(request([`Authorization: Bearer ${"x".repeat(bytes)}`]));
      const { responses } = await connection.settle();
      expect([bytes, responses.map((response) => response.status)]).toEqual([bytes, [status]]);
      connection.close();
    }
    expect((await server.post("x")).status).toBe(401);
    expect((await server.post(good.ingestion, { contentType: "text/plain" })).status).toBe(415);
  });

  test("says which of the two it was in a Status, and nothing of what was sent", async () => {
    const { url } = servers[acceptors] as RunningIngestion;
    const ask = async (headers: Record<string, string>): Promise<unknown> => {
      const response = await fetch(`${url}/ingestion/otlp/v1/logs`, {
        method: "POST",
        headers: { "content-type": "application/json", ...headers },
        body: "{}",
      });
      return response.json();
    };
    expect(await ask({})).toEqual({ code: 16, message: "authentication failed" });
    expect(await ask({ authorization: `Bearer ${generateKeyString()}` })).toEqual({
      code: 16,
      message: "invalid token",
    });
  });

  test("answers /health to anybody", async () => {
    const { url } = servers[acceptors] as RunningIngestion;
    expect((await fetch(`${url}/health`)).status).toBe(200);
    expect((await fetch(`${url}/health`, { headers: { authorization: "x" } })).status).toBe(200);
  });
});

describe("Flight SQL", () => {
  test("refuses bad values of the field with UNAUTHENTICATED", async () => {
    const authorization = `Bearer ${good.analytics}`;
    expect(await flightInfo(analytics.port, { authorization })).toMatchObject({ status: grpcOk });
    const printed = vi.spyOn(console, "error").mockImplementation(() => undefined);
    const answers: Record<string, unknown> = { missing: await flightInfo(analytics.port, {}) };
    for (const [name, value] of Object.entries(badValues(good.analytics))) {
      answers[name] = await flightInfo(analytics.port, { authorization: value });
    }
    for (const [name, token] of Object.entries(await badTokens())) {
      answers[name] = await flightInfo(analytics.port, { authorization: `Bearer ${token}` });
    }
    for (const [name, answer] of Object.entries(answers)) {
      expect([name, answer]).toMatchObject([name, { status: grpcUnauthenticated }]);
      expect((answer as { message: string }).message).toMatch(
        /^(invalid token(: [a-zA-Z_"; ,]+)?|authentication failed)$/,
      );
    }
    // The gRPC library prints fields that it cannot read, unless it is told not to.
    expect(printed.mock.calls.flat().join("\n")).not.toContain(good.analytics.slice(0, 20));
    printed.mockRestore();
  });

  test("refuses 100 KB and 1 MB at the transport and serves others on", async () => {
    for (const bytes of [100_000, 1_000_000]) {
      const authorization = `Bearer ${"x".repeat(bytes)}`;
      const answer = await flightInfo(analytics.port, { authorization });
      expect(answer.status).not.toBe(grpcOk);
    }
    const authorization = `Bearer ${good.analytics}`;
    expect(await flightInfo(analytics.port, { authorization })).toMatchObject({ status: grpcOk });
  });
});

test("nothing of all this was stored", async () => {
  expect(await t.sql`select from processes`).toHaveLength(0);
});
