import { decodeJwt } from "jose";
import { ClientCredentialsProvider, CredentialError } from "telemetry-service-client";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";

import { makeSigningKey, startOidcProvider, type TestProvider } from "../helpers/auth/auth-oidc-provider.js";

let provider: TestProvider;
let tokenRequests: number;

beforeAll(async () => {
  provider = await startOidcProvider({ key: await makeSigningKey("first") });
});
beforeEach(() => {
  tokenRequests = 0;
  provider.intercept((path) => {
    tokenRequests += path === "/token" ? 1 : 0;
    return null;
  });
});
afterAll(() => provider.stop());

const credentials = (clientSecret = "secret", now: () => number = Date.now): ClientCredentialsProvider =>
  new ClientCredentialsProvider({
    tokenEndpoint: `${provider.issuer}/token`,
    clientId: provider.clientId,
    clientSecret,
    now,
  });

describe("a program with client credentials", () => {
  it("gets one token for all that ask, until five minutes before it expires", async () => {
    let offsetMs = 0;
    const auth = credentials("secret", () => Date.now() + offsetMs);
    const given = await Promise.all([1, 2, 3].map(() => auth.authorization()));
    expect(new Set(given).size).toBe(1);
    expect(decodeJwt(given[0]?.slice("Bearer ".length) ?? "")).toMatchObject({ aud: provider.clientId });
    offsetMs = 54 * 60_000;
    expect(await auth.authorization()).toBe(given[0]);
    offsetMs = 56 * 60_000;
    expect(await auth.authorization()).not.toBe(given[0]);
    expect(tokenRequests).toBe(2);
  });

  it("gets another for one that a server refused", async () => {
    const auth = credentials();
    const first = await auth.authorization();
    const [second, same] = await Promise.all([auth.replace(first), auth.replace(first)]);
    expect(second).not.toBe(first);
    expect(same).toBe(second);
    expect(await auth.replace(first)).toBe(second);
    expect(tokenRequests).toBe(2);
  });

  it("goes on with its token while the provider is down, and then says so", async () => {
    let offsetMs = 0;
    const auth = credentials("secret", () => Date.now() + offsetMs);
    const first = await auth.authorization();
    await provider.goDown();
    try {
      offsetMs = 59 * 60_000;
      expect(await auth.authorization()).toBe(first);
      offsetMs = 61 * 60_000;
      await expect(auth.authorization()).rejects.toThrow(`${provider.issuer}/token gave no token`);
    } finally {
      await provider.comeUp();
    }
    expect(await auth.authorization()).not.toBe(first);
  });

  it("asks a provider that is down for another token only now and then", async () => {
    let offsetMs = 0;
    const auth = credentials("secret", () => Date.now() + offsetMs);
    const first = await auth.authorization();
    let asked = 0;
    provider.intercept(() => (_, response) => {
      asked++;
      response.writeHead(503).end();
    });
    offsetMs = 56 * 60_000;
    expect(await auth.authorization()).toBe(first);
    expect(await auth.authorization()).toBe(first);
    expect(asked).toBe(1);
    offsetMs += 31_000;
    expect(await auth.authorization()).toBe(first);
    expect(asked).toBe(2);
    provider.intercept(null);
    offsetMs += 31_000;
    expect(await auth.authorization()).not.toBe(first);
  });

  it("is told when its secret is wrong, without the secret", async () => {
    const error: unknown = await credentials("wrong-secret")
      .authorization()
      .catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(CredentialError);
    expect((error as CredentialError).code).toBe("LOGIN_REFUSED");
    expect(String(error)).not.toContain("wrong-secret");
  });

  it.each(["http://id.example.com/token", "id.example.com", ""])("sends no secret to %j", (tokenEndpoint) => {
    expect(() => new ClientCredentialsProvider({ tokenEndpoint, clientId: "a", clientSecret: "b" })).toThrow(
      "the token endpoint takes https://",
    );
  });
});
