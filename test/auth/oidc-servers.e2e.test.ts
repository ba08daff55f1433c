/** OIDC callers at both servers, from a real identity provider: rotation, outages, order of the chain. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { makeSigningKey } from "../helpers/auth/auth-oidc-provider.js";
import { flightInfo, grpcOk, grpcUnauthenticated, grpcUnavailable } from "../helpers/auth/auth-grpc.js";
import {
  providerToken,
  type RunningAnalytics,
  type RunningIngestion,
  startTestService,
  type TestService,
} from "../helpers/auth/auth-service.js";

const acceptors = ["1", "2"] as const;

describe.each(acceptors)("with %s acceptor thread(s)", (count) => {
  let t: TestService;
  let ingestion: RunningIngestion;
  let analytics: RunningAnalytics;

  beforeAll(async () => {
    t = await startTestService({
      providerClaims: { email: "robot@example.com" },
      // No token is remembered: each request shows what the provider's keys say now.
      oidc: { token_cache_ttl_secs: 0 },
    });
    ingestion = await t.startIngestion({ SVC_INGESTION_ACCEPTORS: count });
    analytics = await t.startAnalytics();
  });
  afterAll(async () => {
    await t.stop();
  });

  const statuses = async (token: string): Promise<readonly [number, number | null]> => [
    (await ingestion.post(token)).status,
    (await flightInfo(analytics.port, { authorization: `Bearer ${token}` })).status,
  ];

  test("a token that the provider issued is accepted by both servers, beside keys", async () => {
    const token = await t.provider.issueToken();
    expect(await statuses(token)).toEqual([200, grpcOk]);
    expect((await ingestion.post((await t.mintIngestion("red")).key)).status).toBe(200);
    expect(await analytics.query((await t.mintAnalytics()).key, "select 42 as n")).toEqual([{ n: 42 }]);
    const [row] = await t.sql<{ stamped: number; unstamped: number }[]>`
      select count(audience)::int as stamped, count(*)::int - count(audience)::int as unstamped
      from processes`;
    expect(row).toEqual({ stamped: 1, unstamped: 1 });
  });

  test("a token as the password of a Flight client is as good as in the bearer scheme", async () => {
    const password = Buffer.from(`x:${await t.token()}`).toString("base64");
    expect(await flightInfo(analytics.port, { authorization: `Basic ${password}` })).toMatchObject({
      status: grpcOk,
    });
  });

  test("a rotation at the provider is followed by both, and what the old key signs is refused", async () => {
    expect(await statuses(await t.token())).toEqual([200, grpcOk]);
    const next = await makeSigningKey("second", "ES256");
    t.provider.rotate(next);
    expect(await statuses(await t.provider.issueToken())).toEqual([200, grpcOk]);
    expect(await statuses(await t.token())).toEqual([401, grpcUnauthenticated]);
    t.provider.rotate(t.signingKey);
  });
});

describe.each(acceptors)("SVC_REFUSE_UNSTAMPED with %s acceptor thread(s)", (count) => {
  test("always forbids tokens, says what to send with instead, and leaves keys and readers alone", async () => {
    const t = await startTestService();
    const ingestion = await t.startIngestion({
      SVC_REFUSE_UNSTAMPED: "true",
      SVC_INGESTION_ACCEPTORS: count,
    });
    const analytics = await t.startAnalytics();
    const token = await t.token();
    // The second time it is answered from memory.
    for (let i = 0; i < 2; i++) {
      const response = await fetch(`${ingestion.url}/ingestion/otlp/v1/logs`, {
        method: "POST",
        body: "{}",
        headers: { "content-type": "application/json", authorization: `Bearer ${token}` },
      });
      expect(response.status).toBe(403);
      expect(response.headers.get("retry-after")).toBeNull();
      expect(await response.json()).toEqual({
        code: 7,
        message: expect.stringContaining("send it with an ingestion key") as string,
      });
    }
    expect((await ingestion.post("a.b.c")).status).toBe(401);
    expect((await ingestion.post((await t.mintIngestion("red")).key)).status).toBe(200);
    expect((await flightInfo(analytics.port, { authorization: `Bearer ${token}` })).status).toBe(grpcOk);
    expect(await t.sql`select from processes where audience is null`).toHaveLength(0);
    const metrics = await (await fetch(`${ingestion.url}/metrics`)).text();
    expect(metrics).toContain(`{signal="logs",code="403",protocol="http"} 2`);
    await t.stop();
  });
});

describe("a provider that is down", () => {
  test("is 503 with Retry-After and UNAVAILABLE for tokens, never a refusal, and nothing to keys", async () => {
    const t = await startTestService();
    const token = await t.token();
    const forged = await providerToken(t.provider, await makeSigningKey("first"));
    await t.provider.goDown();
    const ingestion = await t.startIngestion({ SVC_INGESTION_ACCEPTORS: "2" });
    const analytics = await t.startAnalytics();
    for (const credential of [token, forged]) {
      const posted = await ingestion.post(credential);
      expect(posted.status).toBe(503);
      expect(Number(posted.retryAfter)).toBeGreaterThan(0);
      const info = await flightInfo(analytics.port, { authorization: `Bearer ${credential}` });
      expect(info.status).toBe(grpcUnavailable);
      expect(Number(info.retryAfter)).toBeGreaterThan(0);
    }
    expect((await ingestion.post((await t.mintIngestion("red")).key)).status).toBe(200);
    const { key } = await t.mintAnalytics();
    expect(await analytics.query(key, "select 1 as n")).toEqual([{ n: 1 }]);
    await t.provider.comeUp();
    const authorization = `Bearer ${token}`;
    await expect.poll(() => ingestion.post(token)).toMatchObject({ status: 200 });
    await expect.poll(() => flightInfo(analytics.port, { authorization })).toMatchObject({ status: grpcOk });
    expect((await ingestion.post(forged)).status).toBe(401);
    await t.stop();
  });

  test("leaves validated tokens in use for token_cache_ttl_secs", async () => {
    const t = await startTestService({ oidc: { jwks_refresh_interval_secs: 1 } });
    const ingestion = await t.startIngestion({ SVC_INGESTION_ACCEPTORS: "2" });
    const analytics = await t.startAnalytics();
    const known = await t.token({ sub: "known" });
    const authorization = `Bearer ${known}`;
    expect((await ingestion.post(known)).status).toBe(200);
    expect((await flightInfo(analytics.port, { authorization })).status).toBe(grpcOk);
    await t.provider.goDown();
    // Once the key set has aged out, nobody new is believed.
    let strangers = 0;
    const stranger = (): Promise<string> => t.token({ sub: `stranger ${strangers++}` });
    await expect.poll(async () => (await ingestion.post(await stranger())).status).toBe(503);
    expect((await ingestion.post(known)).status).toBe(200);
    expect((await flightInfo(analytics.port, { authorization })).status).toBe(grpcOk);
    await t.stop();
  });
});
