/**
 * The key set of one OIDC issuer: discovery (OpenID Connect Discovery 1.0, section 4), then the JWK
 * Set (RFC 7517, section 5), kept in memory.
 *
 * States: empty -> fresh -> ageing (last quarter of the refresh interval) -> expired.
 *   empty, expired  all callers wait for one shared fetch; when it fails, `unavailable`
 *   fresh           answered from memory
 *   ageing          answered from memory, while a fetch runs, so that nobody waits
 * A key set past its interval is not used: so a withdrawn key is accepted no longer than that. A signature
 * by an unknown key leads to a fetch, at most once per cool-down, however recent the last regular fetch.
 * After a failed fetch the next one waits a little. Only so many may wait for a fetch. A fetch is bounded in
 * time and bytes and follows no redirect; of its result only public keys for signatures are used.
 */
import { createLocalJWKSet, type JSONWebKeySet, type JWK, type JWTVerifyGetKey } from "jose";
import { underSignals } from "telemetry-service-client/shared/abort";
import type { OidcIssuer } from "../../runtime/config/oidc.js";
import type { Logger } from "../../runtime/log/log.js";
import { SingleFlight } from "../../runtime/single-flight.js";
import { createIssuerFetch, type IssuerFetch } from "./issuer-fetch.js";
import type { SharedClock } from "../shared-clock.js";

const defaultFetchTimeoutMs = 5000;
const maxKeys = 100;
/**
 * Least time between two fetches for unknown keys. Short, because a forged token leads to a fetch as well, and new keys
 * are refused until the next one.
 */
const cooldownMs = 5000;
const retryMs = 1000;
const maxWaiting = 512;

/** The keys could not be fetched: our side or the provider failed, not the token. */
export class KeySetUnavailable extends Error {}

/** Options of {@link OidcKeySet}. */
interface OidcKeySetOptions {
  readonly issuer: OidcIssuer;
  readonly refreshIntervalMs: number;
  readonly clock: SharedClock;
  readonly logger: Logger;
  /** Told of every failed fetch. */
  readonly onFetchError: () => void;
  /** Bound on each of the two requests of a fetch. Default 5 s. */
  readonly fetchTimeoutMs?: number;
}

/** See the head of the file. */
export class OidcKeySet {
  readonly #o: OidcKeySetOptions;
  readonly #fetchTimeoutMs: number;
  readonly #fetchFrom: IssuerFetch;
  readonly #stop = new AbortController();
  #keys: JWTVerifyGetKey | null = null;
  #fetchedAtMs = Number.NEGATIVE_INFINITY;
  #attemptedAtMs = Number.NEGATIVE_INFINITY;
  #soughtAtMs = Number.NEGATIVE_INFINITY;
  #lastFailed = false;
  #waiting = 0;
  readonly #fetching = new SingleFlight(() => this.#load());

  constructor(o: OidcKeySetOptions) {
    this.#o = o;
    this.#fetchFrom = createIssuerFetch(o.issuer);
    this.#fetchTimeoutMs = o.fetchTimeoutMs ?? defaultFetchTimeoutMs;
  }

  /** How many callers wait for a fetch, which takes as long as the provider likes. */
  get waiting(): number {
    return this.#waiting;
  }

  /** The keys. @throws KeySetUnavailable when there are none and none can be fetched. */
  async keys(): Promise<JWTVerifyGetKey> {
    const ageMs = this.#o.clock() - this.#fetchedAtMs;
    if (ageMs >= this.#o.refreshIntervalMs) {
      await this.#wait(() => this.#fetchUnlessJustFailed());
    } else if (ageMs >= this.#o.refreshIntervalMs * 0.75) {
      void this.#fetchUnlessJustFailed();
    }
    const fresh = this.#o.clock() - this.#fetchedAtMs < this.#o.refreshIntervalMs;
    if (this.#keys === null || !fresh) {
      throw new KeySetUnavailable("no key set");
    }
    return this.#keys;
  }

  /**
   * The keys after looking for one that `keys()` did not hold, or null when the provider was asked
   * for such a one within the cool-down.
   * @throws KeySetUnavailable when the provider could not be asked.
   */
  async keysForUnknown(): Promise<JWTVerifyGetKey | null> {
    const nowMs = this.#o.clock();
    if (this.#lastFailed) {
      await this.#wait(() => this.#fetchUnlessJustFailed());
    } else if (this.#fetching.underWay || nowMs - this.#soughtAtMs >= cooldownMs) {
      await this.#wait(() => {
        this.#soughtAtMs = nowMs;
        return this.#fetching.run();
      });
    } else {
      return null;
    }
    if (this.#lastFailed || this.#keys === null) {
      throw new KeySetUnavailable("no key set");
    }
    return this.#keys;
  }

  /** Gives up a fetch under way. */
  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#fetching.idle();
  }

  async #wait(fetch: () => Promise<void>): Promise<void> {
    if (this.#waiting >= maxWaiting) {
      throw new KeySetUnavailable("too many wait for the key set");
    }
    this.#waiting++;
    try {
      await fetch();
    } finally {
      this.#waiting--;
    }
  }

  #fetchUnlessJustFailed(): Promise<void> {
    const wait = this.#lastFailed && this.#o.clock() - this.#attemptedAtMs < retryMs;
    return wait && !this.#fetching.underWay ? Promise.resolve() : this.#fetching.run();
  }

  // Never rejects; what it found shows in the fields.
  async #load(): Promise<void> {
    const startedMs = this.#o.clock();
    this.#attemptedAtMs = startedMs;
    try {
      this.#keys = createLocalJWKSet(await this.#download());
      this.#fetchedAtMs = startedMs;
      this.#lastFailed = false;
    } catch (error) {
      this.#attemptedAtMs = this.#o.clock();
      this.#lastFailed = true;
      this.#o.onFetchError();
      this.#o.logger.warn(
        {
          issuer: this.#o.issuer.issuer,
          cause: error instanceof Error ? error.message : "unknown",
        },
        "the key set of the OIDC issuer could not be fetched",
      );
    }
  }

  async #download(): Promise<JSONWebKeySet> {
    const { issuer } = this.#o.issuer;
    const base = issuer.endsWith("/") ? issuer.slice(0, -1) : issuer;
    const discovered = await this.#getJson(`${base}/.well-known/openid-configuration`);
    const { issuer: named, jwks_uri: uri } = discovered;
    if (named !== issuer) {
      throw new Error("discovery names another issuer");
    }
    if (typeof uri !== "string") {
      throw new Error("discovery names no jwks_uri");
    }
    const { keys } = await this.#getJson(uri);
    if (!Array.isArray(keys)) {
      throw new Error("the key set has no array of keys");
    }
    if (keys.length > maxKeys) {
      throw new Error(`the key set has more than ${maxKeys} keys`);
    }
    return { keys: keys.filter(isPublicSignatureKey) };
  }

  async #getJson(url: string): Promise<Record<string, unknown>> {
    const timeout = AbortSignal.timeout(this.#fetchTimeoutMs);
    return await underSignals([timeout, this.#stop.signal], (signal) => getJson(this.#fetchFrom, url, signal));
  }
}

/** The JSON object at an address; throws for anything else. */
async function getJson(fetchFrom: IssuerFetch, url: string, signal: AbortSignal): Promise<Record<string, unknown>> {
  const response = await fetchFrom(url, {
    redirect: "error",
    signal,
    headers: { accept: "application/json" },
  });
  if (response.status !== 200) {
    throw new Error(`HTTP ${response.status}`);
  }
  const value: unknown = await response.json();
  if (typeof value !== "object" || value === null) {
    throw new Error("not a JSON object");
  }
  return value as Record<string, unknown>;
}

// Symmetric keys (`oct`) have no business in a public key set; the algorithm list refuses them too.
function isPublicSignatureKey(value: unknown): value is JWK {
  if (typeof value !== "object" || value === null) {
    return false;
  }
  const { kty, use } = value as { kty?: unknown; use?: unknown };
  const publicType = kty === "RSA" || kty === "EC" || kty === "OKP";
  return publicType && (use === undefined || use === "sig");
}
