/** `SVC_OIDC_CONFIG` (specification, Resources, OIDC server configuration object). */
import { ServiceError } from "../runtime/errors.js";

/** One accepted issuer. */
export interface OidcIssuer {
  /** Compared with the `iss` claim character by character; discovery starts here. */
  readonly issuer: string;
  /** Compared with the `aud` claim: the client id. */
  readonly audience: string;
}

/** The configuration with its defaults filled in. */
export interface OidcConfig {
  readonly issuers: readonly OidcIssuer[];
  readonly jwksRefreshIntervalMs: number;
  readonly tokenCacheSize: number;
  readonly tokenCacheTtlMs: number;
}

const bad = (what: string): ServiceError =>
  new ServiceError("BAD_REQUEST", `SVC_OIDC_CONFIG: ${what}`);

function isLoopback(url: URL): boolean {
  return ["localhost", "127.0.0.1", "[::1]"].includes(url.hostname);
}

/** True for a URL that keys may come from: https, or http on the loopback interface. */
export function isTrustworthyUrl(text: string): boolean {
  if (!URL.canParse(text)) return false;
  const url = new URL(text);
  const secure = url.protocol === "https:" || (url.protocol === "http:" && isLoopback(url));
  return secure && url.username === "" && url.password === "";
}

function object(value: unknown, what: string): Record<string, unknown> {
  if (typeof value === "object" && value !== null && !Array.isArray(value)) {
    return value as Record<string, unknown>;
  }
  throw bad(`${what} must be an object`);
}

function integer(value: unknown, name: string, fallback: number, least: number): number {
  if (value === undefined) return fallback;
  if (typeof value === "number" && Number.isSafeInteger(value) && value >= least) return value;
  throw bad(`${name} must be an integer of at least ${least}`);
}

function parseIssuer(value: unknown, index: number): OidcIssuer {
  const entry = object(value, `issuers[${index}]`);
  const { issuer, audience } = entry;
  if (typeof issuer !== "string" || !isTrustworthyUrl(issuer) || /[?#]/u.test(issuer)) {
    throw bad(
      `issuers[${index}].issuer must be an https URL (http on loopback) without user, query or fragment`,
    );
  }
  if (typeof audience !== "string" || audience === "") {
    throw bad(`issuers[${index}].audience must be a non-empty string`);
  }
  return { issuer, audience };
}

/**
 * Parse the JSON text.
 * @throws ServiceError BAD_REQUEST that names the field and what it takes.
 */
export function parseOidcConfig(text: string): OidcConfig {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new ServiceError("BAD_REQUEST", "SVC_OIDC_CONFIG must be a JSON object", { cause });
  }
  const config = object(value, "the value");
  const { issuers } = config;
  if (!Array.isArray(issuers) || issuers.length === 0) {
    throw bad("issuers must be an array with at least one entry");
  }
  return {
    issuers: issuers.map(parseIssuer),
    jwksRefreshIntervalMs:
      1000 * integer(config["jwks_refresh_interval_secs"], "jwks_refresh_interval_secs", 3600, 1),
    tokenCacheSize: integer(config["token_cache_size"], "token_cache_size", 1000, 1),
    tokenCacheTtlMs: 1000 * integer(config["token_cache_ttl_secs"], "token_cache_ttl_secs", 300, 0),
  };
}
