/**
 * Who is calling the web server: the identity token in the cookie `id_token`, validated like a bearer token. A session
 * is nothing more: no store, no other credential. An API key in the cookie is no identity token.
 */
import { decodeJwt, decodeProtectedHeader } from "jose";

import { readCookie } from "../../wire/web/cookies.js";
import type { Authenticator } from "../authenticator.js";
import type { Caller } from "../caller.js";

/** Name of the cookie with the identity token. */
export const idTokenCookie = "id_token";

/** What a cookie is worth; `unavailable` is 503, never 401. */
export type SessionOutcome =
  | {
      readonly kind: "ok";
      readonly caller: Caller;
      /** The token's `name`, else the caller's; for display only. */
      readonly displayName: string;
      /** When the token ends, milliseconds since the epoch. */
      readonly expiresAtMs: number;
    }
  | { readonly kind: "rejected"; readonly message: string }
  | { readonly kind: "unavailable"; readonly retryAfterSeconds: number };

/** See the head of the file. */
export interface WebSessions {
  /** The caller of a request, from its `Cookie` field; the empty string means none. Never rejects. */
  caller(cookieHeader: string): Promise<SessionOutcome>;
  /** The same for an identity token itself. Never rejects. */
  verify(idToken: string): Promise<SessionOutcome>;
}

const maxNameCharacters = 255;
const notLoggedIn = "not logged in; log in at /auth/login";

/** @param o.authenticator OIDC alone, without keys: `createOidcAuthenticator`. Its creator stops it. */
export function createWebSessions(o: { readonly authenticator: Pick<Authenticator, "authenticate"> }): WebSessions {
  const verify = async (idToken: string): Promise<SessionOutcome> => {
    const outcome = await o.authenticator.authenticate(`Bearer ${idToken}`);
    if (outcome.kind === "unavailable") {
      return outcome;
    }
    if (outcome.kind === "rejected") {
      return rejected(`${outcome.message}; log in again`);
    }
    // `oidc` only: whatever the authenticator may also accept is no identity token.
    if (outcome.kind !== "ok" || outcome.principal.kind !== "oidc") {
      return rejected("the identity token is not valid or has expired; log in again");
    }
    if (isAccessToken(idToken)) {
      return rejected("an access token is no identity token; log in");
    }
    const { issuer, subject, email, name: callerName } = outcome.principal;
    if (issuer === null || subject === null || callerName === null) {
      return rejected("the identity token names no subject");
    }
    // Verified just now, byte for byte.
    const { exp, name } = decodeJwt(idToken);
    const caller: Caller = { issuer, subject, email, name: callerName };
    return {
      kind: "ok",
      caller,
      displayName: typeof name === "string" && name !== "" && name.length <= maxNameCharacters ? name : caller.name,
      expiresAtMs: (exp ?? 0) * 1000,
    };
  };
  return {
    verify,
    caller(cookieHeader) {
      const token = readCookie(cookieHeader, idTokenCookie);
      if (token === null || token === "") {
        return Promise.resolve(rejected(notLoggedIn));
      }
      if (typeof token !== "string") {
        return Promise.resolve(rejected("there are several id_token cookies; log out, then log in"));
      }
      return verify(token);
    },
  };
}

/** RFC 9068 section 2.1 gives access tokens a type of their own so that they are not taken for others. */
function isAccessToken(token: string): boolean {
  const { typ } = decodeProtectedHeader(token);
  return typeof typ === "string" && typ.toLowerCase().replace("application/", "") === "at+jwt";
}

function rejected(message: string): SessionOutcome {
  return { kind: "rejected", message };
}
