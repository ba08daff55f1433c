import { describe, expect, it } from "vitest";
import {
  anonymousAuthenticator,
  chainAuthenticators,
  type Authenticator,
  type AuthOutcome,
} from "../../src/auth/authenticator.js";
import { generateKeyString } from "../../src/auth/key-string.js";
import { anonymousPrincipal, identityName, principalIdentity } from "../../src/auth/principal.js";
import { createRecordingLogger } from "../helpers/auth/auth-fixture.js";

function provider(name: string): Authenticator & { readonly shown: string[] } {
  const shown: string[] = [];
  const outcome: AuthOutcome = { kind: "rejected", message: name };
  return {
    name,
    shown,
    authenticateNow(authorization) {
      shown.push(authorization);
      return outcome;
    },
    authenticate(authorization) {
      shown.push(authorization);
      return Promise.resolve(outcome);
    },
    stop: () => Promise.resolve(),
  };
}

describe("the authentication chain", () => {
  it("shows tokens that can be JWTs to OIDC and everything else to the key store", async () => {
    const oidc = provider("oidc");
    const keys = provider("keys");
    const chain = chainAuthenticators(oidc, keys);
    const jwt = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln";
    const toKeys = [
      "",
      "Bearer",
      `Bearer ${generateKeyString()}`,
      "Bearer svk_a.b.c",
      "Bearer a.b",
      "Bearer a..b",
      "Bearer .a.b",
      "Bearer a.b.c.d.e",
      `Basic ${jwt}`,
    ];
    for (const authorization of toKeys) {
      expect(chain.authenticateNow(authorization)).toMatchObject({ message: "keys" });
      expect(await chain.authenticate(authorization)).toMatchObject({ message: "keys" });
    }
    expect(chain.authenticateNow(`Bearer ${jwt}`)).toMatchObject({ message: "oidc" });
    expect(await chain.authenticate(`bearer ${jwt}`)).toMatchObject({ message: "oidc" });
    expect(oidc.shown.length).toBe(2);
    expect(keys.shown.length).toBe(2 * toKeys.length);
  });

  it("lets everybody in as nobody when authentication is disabled, with a loud warning", async () => {
    const { logger, lines } = createRecordingLogger();
    const anonymous = anonymousAuthenticator(logger);
    expect(lines).toMatchObject([{ level: "warn" }]);
    expect(String(lines[0]?.["msg"])).toContain("AUTHENTICATION IS DISABLED");
    for (const authorization of ["", "Bearer x", "nonsense"]) {
      const outcome = anonymous.authenticateNow(authorization);
      expect(outcome).toMatchObject({
        kind: "ok",
        principal: { kind: "anonymous", audience: null },
      });
      expect(await anonymous.authenticate(authorization)).toBe(outcome);
    }
  });

  it("names a caller for the audit by email, else subject, else key", () => {
    expect(identityName("a@b.c", "s", null)).toBe("a@b.c");
    expect(identityName("a@b.c", "s", "https://a")).toBe("a@b.c");
    expect(identityName(null, "s", null)).toBe("s");
    expect(principalIdentity({ ...anonymousPrincipal, kind: "oidc", name: "s" })).toBe("s");
    expect(principalIdentity({ ...anonymousPrincipal, kind: "analytics_key", keyId: "id" })).toBe("key:id");
    expect(principalIdentity(anonymousPrincipal)).toBe("anonymous");
  });

  it.each(["a@b.c", "key:id", "anonymous", "migration", "maintenance", "development mode", "subject a@b.c"])(
    "gives the subject %j a name that nobody else has",
    (subject) => {
      expect(identityName(null, subject, null)).toBe(`subject ${subject}`);
    },
  );

  it("names subjects of several issuers apart, from each other and from what one issuer may send", () => {
    const long = `https://${"a".repeat(240)}`;
    const names = [
      ...["https://a", "https://b", `${long}a`, `${long}b`].flatMap((issuer) =>
        ["s", "t", "a@b.c"].map((subject) => identityName(null, subject, issuer)),
      ),
      ...["s", "issuer https://a subject s"].map((subject) => identityName(null, subject, null)),
    ];
    expect(names[0]).toBe("issuer https://a subject s");
    expect(new Set(names).size).toBe(names.length);
    expect(names.filter((name) => name.length > 255 || /^\S+@\S+$/u.test(name))).toEqual([]);
  });
});
