/**
 * The chain that says who is calling. Every server holds one Authenticator; the hot path asks
 * `authenticateNow`, which answers from memory alone, and falls back to `authenticate`.
 */
import type { Component } from "../runtime/lifecycle.js";
import type { Logger } from "../runtime/log/log.js";
import { bearerTokenStart } from "./bearer.js";
import { hasKeyPrefix } from "./key-string.js";
import { anonymousPrincipal, type Principal } from "./principal.js";

/**
 * What a credential is worth. `rejected` is 401 / UNAUTHENTICATED; `forbidden` is valid but not accepted
 * on this server, 403 / PERMISSION_DENIED; `unavailable` means that our side could not tell and is 503
 * with `Retry-After` / UNAVAILABLE, never 401.
 */
export type AuthOutcome =
  | { readonly kind: "ok"; readonly principal: Principal }
  | { readonly kind: "rejected" | "forbidden"; readonly message: string }
  | { readonly kind: "unavailable"; readonly retryAfterSeconds: number };

/** Answers for the value of the `Authorization` header; the empty string means none. */
export interface Authenticator extends Component {
  /** Answers from memory, or null when it takes a look-up. Never throws, never waits. */
  authenticateNow(authorization: string): AuthOutcome | null;
  /** Answers for certain, with a look-up where it takes one. Never rejects. */
  authenticate(authorization: string): Promise<AuthOutcome>;
}

/** No usable credential was sent: no header, another scheme, no token, absurdly long. */
export const authenticationFailed: AuthOutcome = Object.freeze({
  kind: "rejected",
  message: "authentication failed",
});

/** A token was sent and is not valid. */
export const invalidToken: AuthOutcome = Object.freeze({
  kind: "rejected",
  message: "invalid token",
});

/**
 * The authenticator of `--disable-auth`: everybody is let in as nobody. For development only, which
 * the warning it logs says in one sentence.
 */
export function anonymousAuthenticator(logger: Logger): Authenticator {
  logger.warn(
    "AUTHENTICATION IS DISABLED (--disable-auth): every caller can write and read everything; never use this outside development",
  );
  const outcome: AuthOutcome = Object.freeze({ kind: "ok", principal: anonymousPrincipal });
  return {
    name: "anonymous-authenticator",
    authenticateNow: () => outcome,
    authenticate: () => Promise.resolve(outcome),
    stop: () => Promise.resolve(),
  };
}

const unstamped: AuthOutcome = Object.freeze({
  kind: "forbidden",
  message: "this server refuses telemetry without an audience, and your token has none; send it with an ingestion key",
});

/**
 * `SVC_REFUSE_UNSTAMPED`: forbids what `inner` accepts without a write audience. The creator of `inner` stops it.
 */
export function refuseUnstamped(inner: Authenticator): Authenticator {
  const stamped = (outcome: AuthOutcome): AuthOutcome =>
    outcome.kind === "ok" && outcome.principal.audience === null ? unstamped : outcome;
  return {
    name: inner.name,
    authenticateNow(authorization) {
      const outcome = inner.authenticateNow(authorization);
      return outcome === null ? null : stamped(outcome);
    },
    authenticate: async (authorization) => stamped(await inner.authenticate(authorization)),
    stop: () => Promise.resolve(),
  };
}

/** True when a token can be a JWT in compact form (RFC 7519 3): three dot-separated parts, no key prefix. */
export function looksLikeJwt(text: string, start: number): boolean {
  if (hasKeyPrefix(text, start)) {
    return false;
  }
  const first = text.indexOf(".", start);
  if (first <= start) {
    return false;
  }
  const second = text.indexOf(".", first + 1);
  return second > first + 1 && text.indexOf(".", second + 1) === -1;
}

/**
 * OIDC first, then the key store. The two never accept the same token, because a key has no dot and
 * a JWT no key prefix: a token that cannot be a JWT skips OIDC, and one that is a JWT is refused by
 * the key store without a look-up. So each token is shown to the one provider that could accept it.
 * Stopping the chain stops neither provider: who made them stops them.
 */
export function chainAuthenticators(oidc: Authenticator, keys: Authenticator): Authenticator {
  const providerFor = (authorization: string): Authenticator => {
    const start = bearerTokenStart(authorization);
    return start >= 0 && looksLikeJwt(authorization, start) ? oidc : keys;
  };
  return {
    name: "authenticator-chain",
    authenticateNow: (authorization) => providerFor(authorization).authenticateNow(authorization),
    authenticate: (authorization) => providerFor(authorization).authenticate(authorization),
    stop: () => Promise.resolve(),
  };
}
