/** `SVC_OIDC_CONFIG`, and which addresses it trusts. */

import { isLoopbackHost } from "telemetry-service-client/shared/loopback";
import { isObject } from "telemetry-service-client/shared/is-object";

/** One accepted issuer. */
export interface OidcIssuer {
  /** URL of the issuer, compared with the `iss` claim character by character; discovery starts here. */
  readonly issuer: string;
  /** Compared with the `aud` claim: the client id. */
  readonly audience: string;
  /** `allow_http`: the issuer, and the addresses that it names, may be plain http off loopback. */
  readonly allowHttp: boolean;
  /** `ca_file`: PEM with the only certificate authorities that vouch for the issuer; null: the usual ones. */
  readonly caFile: string | null;
}

/** The configuration with its defaults filled in. */
export interface OidcConfig {
  readonly issuers: readonly OidcIssuer[];
  readonly jwksRefreshIntervalMs: number;
  readonly tokenCacheSize: number;
  readonly tokenCacheTtlMs: number;
}

/** Words what {@link checkOidcConfig} accepts. */
export const oidcConfigTakes =
  'a JSON object {"issuers": [{"issuer": URL, "audience": CLIENT_ID, "allow_http"?: false, "ca_file"?: PATH}, ...]} ' +
  "with at least one issuer, and as whole numbers if wanted jwks_refresh_interval_secs, token_cache_size, " +
  "token_cache_ttl_secs";

/** True for a URL that keys may come from: https, or http on the loopback interface or where it is allowed. */
export function isTrustworthyUrl(text: string, allowHttp: boolean): boolean {
  if (!URL.canParse(text)) {
    return false;
  }
  const { protocol, hostname, username, password } = new URL(text);
  const secure = protocol === "https:" || (protocol === "http:" && (allowHttp || isLoopbackHost(hostname)));
  return secure && username === "" && password === "";
}

/**
 * Reads the document.
 * @returns a sentence that names the field when it has another shape. Unknown fields are refused, as they
 *   are misspelt known ones.
 */
export function checkOidcConfig(document: unknown): OidcConfig | string {
  if (!isObject(document)) {
    return "the value must be an object";
  }
  const {
    issuers,
    jwks_refresh_interval_secs: refresh = 3600,
    token_cache_size: size = 1000,
    token_cache_ttl_secs: ttl = 300,
    ...unknown
  } = document;
  const [misspelt] = Object.keys(unknown);
  if (misspelt !== undefined) {
    return `there is no field ${misspelt}`;
  }
  if (!Array.isArray(issuers) || issuers.length === 0) {
    return "issuers must be an array with at least one entry";
  }
  if (!isCount(refresh, 1)) {
    return "jwks_refresh_interval_secs must be an integer of at least 1";
  }
  if (!isCount(size, 1)) {
    return "token_cache_size must be an integer of at least 1";
  }
  if (!isCount(ttl, 0)) {
    return "token_cache_ttl_secs must be an integer of at least 0";
  }
  const accepted: OidcIssuer[] = [];
  for (const [index, entry] of issuers.entries()) {
    const issuer = checkIssuer(entry, accepted);
    if (typeof issuer === "string") {
      return `issuers[${index}]${issuer}`;
    }
    accepted.push(issuer);
  }
  return {
    issuers: accepted,
    jwksRefreshIntervalMs: refresh * 1000,
    tokenCacheSize: size,
    tokenCacheTtlMs: ttl * 1000,
  };
}

/** @returns the end of a sentence that begins with the entry's place. */
function checkIssuer(entry: unknown, before: readonly OidcIssuer[]): OidcIssuer | string {
  if (!isObject(entry)) {
    return " must be an object";
  }
  const { issuer, audience, allow_http: allowHttp = false, ca_file: caFile, ...unknown } = entry;
  const [misspelt] = Object.keys(unknown);
  if (misspelt !== undefined) {
    return ` has no field ${misspelt}`;
  }
  if (typeof allowHttp !== "boolean") {
    return ".allow_http must be true or false";
  }
  if (caFile !== undefined && !isText(caFile)) {
    return ".ca_file must be the path of a PEM file";
  }
  if (!isText(audience)) {
    return ".audience must be a non-empty string";
  }
  if (!isText(issuer) || !isTrustworthyUrl(issuer, allowHttp) || /[?#]/u.test(issuer)) {
    return '.issuer must be an https URL (http on loopback, or with "allow_http": true) without user, query or fragment';
  }
  const accepted: OidcIssuer = { issuer, audience, allowHttp, caFile: caFile ?? null };
  const other = before.find((known) => known.issuer === issuer) ?? accepted;
  return other.allowHttp === accepted.allowHttp && other.caFile === accepted.caFile
    ? accepted
    : " must have the allow_http and ca_file of the other entry of its issuer";
}

function isText(value: unknown): value is string {
  return typeof value === "string" && value !== "";
}

function isCount(value: unknown, min: number): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= min;
}
