/**
 * OIDC tokens (OpenID Connect Core 3.1.3.7, RFC 9068, RFC 8725): signed JWTs of configured issuers.
 *
 * A token is looked for in the cache of validated tokens by its SHA-256, and validated otherwise: issuer among the
 * configured (before any key is fetched), algorithm on the list, signature by a key of that issuer, `aud` equal to the
 * entry's audience (and `azp`, where it is there, to one of the issuer's), `exp`, `iat` and `sub` present, times within
 * 60 s. Concurrent validations of one token are one; their number is bounded, and so is, for each issuer apart, that of
 * those that wait for its keys: forged tokens with unknown keys, or an issuer that hangs, keep no other token out.
 */
import { LRUMap } from "../../runtime/collections/lru-map.js";
import { decodeJwt, decodeProtectedHeader, errors, type JWTPayload, jwtVerify } from "jose";
import type { OidcConfig } from "../../runtime/config/oidc.js";
import { ServiceError } from "../../runtime/errors.js";
import { asciiLower, emailPattern } from "../../runtime/text/identities.js";
import type { Logger } from "../../runtime/log/log.js";
import type { Metrics } from "../../runtime/metrics.js";
import {
  authenticationFailed,
  type Authenticator,
  type AuthOutcome,
  invalidToken,
  looksLikeJwt,
} from "../authenticator.js";
import { bearerTokenStart } from "../bearer.js";
import { hashKeyBinary } from "../key-string.js";
import { KeySetUnavailable, OidcKeySet } from "./oidc-key-set.js";
import { identityName, type Principal } from "../principal.js";
import { createSharedClock, type SharedClock } from "../shared-clock.js";

/** How far the clock of a provider may be from ours. */
export const clockToleranceSeconds = 60;
/** Beside those that wait for keys. */
const maxValidations = 512;
/** In UTF-8: with a prefix it fits what grants and groups hold, and as characters what columns of names do. */
const maxIdentityBytes = 255;
/** End of the year 9999, the last that RFC 3339 can write. */
const latestExpSeconds = 253_402_300_799;
const emailShape = new RegExp(`^${emailPattern}$`, "u");
/** Asymmetric signatures only: neither `none` nor an HMAC that a public key could be taken for. */
const acceptedAlgorithms = "RS256 RS384 RS512 PS256 PS384 PS512 ES256 ES384 ES512 EdDSA Ed25519".split(" ");
const tokenTypes: ReadonlySet<string> = new Set(["jwt", "at+jwt", "application/at+jwt"]);

/** Options of the OIDC authenticator. */
export interface OidcAuthenticatorOptions {
  readonly config: OidcConfig;
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** Monotonic, for cache lives. */
  readonly clock?: SharedClock;
  /** Wall clock in milliseconds since the epoch, for the times in tokens. */
  readonly wallMs?: () => number;
  readonly fetchTimeoutMs?: number;
}

interface CachedToken {
  readonly outcome: AuthOutcome;
  readonly staleAtMs: number;
  readonly expiresAtWallMs: number;
}

interface Issuer {
  readonly keySet: OidcKeySet;
  readonly audiences: ReadonlySet<string>;
}

/** The token of a bearer credential, or why it is none. */
function jwtOf(authorization: string): string | typeof invalidToken {
  const start = bearerTokenStart(authorization);
  if (start < 0) {
    return authenticationFailed;
  }
  return looksLikeJwt(authorization, start) ? authorization.slice(start) : invalidToken;
}

/**
 * Make the authenticator of all issuers of `config`. Stopping it gives up fetches under way.
 * @throws ServiceError NOT_CONFIGURED when the `ca_file` of an issuer cannot be read.
 */
export function createOidcAuthenticator(o: OidcAuthenticatorOptions): Authenticator {
  const clock = o.clock ?? createSharedClock();
  const wallMs = o.wallMs ?? Date.now;
  const cache = new LRUMap<string, CachedToken>(o.config.tokenCacheSize);
  const validating = new Map<string, Promise<AuthOutcome>>();
  const issuers = makeIssuers(o, clock);
  const keySets = [...new Set([...issuers.values()].map(({ keySet }) => keySet))];
  let stopped = false;

  const validatingNow = (): number => keySets.reduce((rest, { waiting }) => rest - waiting, validating.size);

  const cached = (hash: string): AuthOutcome | null => {
    const entry = cache.peek(hash);
    if (entry === undefined) {
      return null;
    }
    // A stale entry stays until it is replaced or falls out; only a fresh one counts as used.
    if (clock() >= entry.staleAtMs || wallMs() >= entry.expiresAtWallMs) {
      return null;
    }
    cache.get(hash);
    return entry.outcome;
  };

  const validate = async (token: string, hash: string): Promise<AuthOutcome> => {
    const startedMs = clock();
    try {
      const payload = await verify(token, issuers, wallMs);
      const outcome: AuthOutcome = Object.freeze({ kind: "ok", principal: principalOf(payload, issuers.size > 1) });
      cache.set(hash, {
        outcome,
        staleAtMs: startedMs + o.config.tokenCacheTtlMs,
        expiresAtWallMs: Number(payload.exp) * 1000,
      });
      return outcome;
    } catch (error) {
      if (error instanceof KeySetUnavailable) {
        return unavailable;
      }
      if (error instanceof ServiceError) {
        return { kind: "rejected", message: `invalid token: ${error.message}` };
      }
      if (error instanceof errors.JOSEError) {
        return invalidToken;
      }
      // Broken keys and tokens make the crypto layer throw errors of its own; all mean "not valid".
      o.logger.debug({ cause: String(error) }, "a token could not be validated");
      return invalidToken;
    }
  };

  return {
    name: "oidc-authenticator",
    authenticateNow(authorization) {
      const token = jwtOf(authorization);
      return typeof token === "string" ? cached(hashKeyBinary(token)) : token;
    },
    async authenticate(authorization) {
      const token = jwtOf(authorization);
      if (typeof token !== "string") {
        return token;
      }
      const hash = hashKeyBinary(token);
      const known = cached(hash) ?? validating.get(hash);
      if (known !== undefined) {
        return known;
      }
      if (stopped || validatingNow() >= maxValidations) {
        return unavailable;
      }
      const validation = validate(token, hash).finally(() => validating.delete(hash));
      validating.set(hash, validation);
      return validation;
    },
    async stop() {
      stopped = true;
      await Promise.all(keySets.map((keySet) => keySet.stop()));
    },
  };
}

const unavailable: AuthOutcome = Object.freeze({ kind: "unavailable", retryAfterSeconds: 1 });

const refusal = (why: string): ServiceError => new ServiceError("UNAUTHENTICATED", why);

function makeIssuers(o: OidcAuthenticatorOptions, clock: SharedClock): ReadonlyMap<string, Issuer> {
  const failures = o.metrics.counter("oidc_key_set_error_count", "Failed fetches of an OIDC issuer's key set.", [
    "issuer",
  ]);
  const issuers = new Map<string, Issuer>();
  for (const entry of o.config.issuers) {
    const { issuer, audience } = entry;
    // An alert does not see the step from nothing to 1.
    failures.inc({ issuer }, 0);
    const known = issuers.get(issuer);
    if (entry.allowHttp && known === undefined) {
      o.logger.warn(
        { issuer },
        `the OIDC issuer ${issuer} is reached over plain http (allow_http): an attacker on that network can be anybody`,
      );
    }
    const keySet =
      known?.keySet ??
      new OidcKeySet({
        issuer: entry,
        refreshIntervalMs: o.config.jwksRefreshIntervalMs,
        clock,
        logger: o.logger,
        onFetchError: () => failures.inc({ issuer }),
        ...(o.fetchTimeoutMs === undefined ? {} : { fetchTimeoutMs: o.fetchTimeoutMs }),
      });
    issuers.set(issuer, { keySet, audiences: new Set([...(known?.audiences ?? []), audience]) });
  }
  return issuers;
}

// Throws a JOSEError or ServiceError for what is wrong with the token, KeySetUnavailable for ours.
async function verify(token: string, issuers: ReadonlyMap<string, Issuer>, wallMs: () => number): Promise<JWTPayload> {
  // Unverified, only to choose the keys and to refuse early; jwtVerify checks both again.
  const { iss } = decodeJwt(token);
  const { alg, typ } = decodeProtectedHeader(token);
  const issuer = typeof iss === "string" ? issuers.get(iss) : undefined;
  if (iss === undefined || issuer === undefined) {
    throw refusal("SVC_OIDC_CONFIG does not name its issuer");
  }
  if (typeof alg !== "string" || !acceptedAlgorithms.includes(alg)) {
    throw refusal("its algorithm is not accepted");
  }
  // Other kinds of JWT by the same issuer, such as logout tokens, are not credentials.
  if (typ !== undefined && (typeof typ !== "string" || !tokenTypes.has(typ.toLowerCase()))) {
    throw refusal("its type is that of no identity or access token");
  }
  const check = async (keys: Parameters<typeof jwtVerify>[1]): Promise<JWTPayload> => {
    // Of claims it speaks only when the signature is good.
    const { payload } = await jwtVerify(token, keys, {
      issuer: iss,
      algorithms: acceptedAlgorithms,
      clockTolerance: clockToleranceSeconds,
      currentDate: new Date(wallMs()),
      requiredClaims: ["exp", "iat", "sub", "aud"],
    }).catch((error: unknown) => {
      throw claimRefusal(error) ?? error;
    });
    return payload;
  };
  const payload = await verifyWithRefetch(check, issuer.keySet);
  assertMeantForUs(payload, issuer.audiences);
  const latestIat = wallMs() / 1000 + clockToleranceSeconds;
  if (typeof payload.iat !== "number" || payload.iat > latestIat) {
    throw refusal(`it was issued in the future; ${checkClocks}`);
  }
  if (typeof payload.sub !== "string" || !isIdentity(payload.sub)) {
    throw refusal("its subject is empty, too long or no text");
  }
  if (Number(payload.exp) > latestExpSeconds) {
    throw refusal("its end is beyond the year 9999");
  }
  return payload;
}

/** OpenID Connect Core 3.1.3.7, steps 3 to 5. */
function assertMeantForUs(payload: JWTPayload, audiences: ReadonlySet<string>): void {
  const { aud, azp } = payload;
  // Equal, alone or as the only entry of a list: a token with a second audience is refused.
  const only: unknown = Array.isArray(aud) && aud.length === 1 ? aud[0] : aud;
  if (typeof only !== "string" || !audiences.has(only)) {
    throw refusal("its audience is not, or not only, the one in SVC_OIDC_CONFIG");
  }
  // A token that was issued to another client belongs to that client only.
  if (azp !== undefined && (typeof azp !== "string" || !audiences.has(azp))) {
    throw refusal("it was issued to another client");
  }
}

const checkClocks = "check the clocks of this server and of the identity provider";

/** What is wrong with the claims of a token that its issuer did sign; null when something else is wrong. */
function claimRefusal(error: unknown): ServiceError | null {
  if (error instanceof errors.JWTExpired) {
    return refusal("it has expired");
  }
  if (!(error instanceof errors.JWTClaimValidationFailed)) {
    return null;
  }
  return error.claim === "nbf" && error.reason === "check_failed"
    ? refusal(`it is not valid yet; ${checkClocks}`)
    : refusal(error.message);
}

async function verifyWithRefetch(
  check: (keys: Parameters<typeof jwtVerify>[1]) => Promise<JWTPayload>,
  keySet: OidcKeySet,
): Promise<JWTPayload> {
  try {
    return await check(await keySet.keys());
  } catch (error) {
    // A provider may also give a new key the id of the old one, or none.
    if (!(error instanceof errors.JWKSNoMatchingKey || error instanceof errors.JWSSignatureVerificationFailed)) {
      throw error;
    }
    const keys = await keySet.keysForUnknown();
    if (keys === null) {
      throw error;
    }
    return check(keys);
  }
}

// Postgres keeps neither NUL nor half a surrogate pair: two names would become one there.
const isIdentity = (text: string): boolean =>
  text !== "" &&
  Buffer.byteLength(text, "utf8") <= maxIdentityBytes &&
  !text.includes("\0") &&
  Buffer.from(text, "utf8").toString("utf8") === text;
const isEmail = (text: string): boolean => isIdentity(text) && emailShape.test(text);

function principalOf(payload: JWTPayload, severalIssuers: boolean): Principal {
  const { email: claimed, email_verified: verified, iss: issuer = "", sub: subject = "" } = payload;
  // Some providers send no flag, some send it as text; anything else is no yes.
  const counts =
    verified === undefined || verified === true || (typeof verified === "string" && asciiLower(verified) === "true");
  const email = counts && typeof claimed === "string" && isEmail(claimed) ? asciiLower(claimed) : null;
  return Object.freeze({
    kind: "oidc",
    keyId: null,
    issuer,
    subject,
    email,
    name: identityName(email, subject, severalIssuers ? issuer : null),
    audience: null,
  });
}
