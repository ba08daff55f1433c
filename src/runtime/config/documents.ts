/** The JSON documents among the options. */

/** One accepted issuer of {@link OidcConfig}. */
export interface OidcIssuer {
  /** URL of the issuer, as it stands in the `iss` claim. */
  readonly issuer: string;
  /** The `aud` claim that is expected: the client id. */
  readonly audience: string;
}

/** `SVC_OIDC_CONFIG` with its defaults filled in (specification, "OIDC server configuration object"). */
export interface OidcConfig {
  readonly issuers: readonly OidcIssuer[];
  /** Default 3600. */
  readonly jwks_refresh_interval_secs: number;
  /** Default 1000. */
  readonly token_cache_size: number;
  /** Default 300. */
  readonly token_cache_ttl_secs: number;
}

/** One entry of the object cache's `SVC_API_KEYS`. */
export interface KeyringEntry {
  readonly name: string;
  /** Secret. */
  readonly key: string;
}

/** Words what {@link checkOidcConfig} accepts. */
export const oidcConfigTakes =
  'a JSON object {"issuers": [{"issuer": URL, "audience": CLIENT_ID}, ...]} with at least one issuer, and as whole ' +
  "numbers if wanted jwks_refresh_interval_secs, token_cache_size, token_cache_ttl_secs";

/** Words what {@link checkKeyring} accepts. */
export const keyringTakes = 'a JSON array [{"name": "...", "key": "..."}, ...]';

/** Reads an OIDC configuration object; null when it has another shape. Unknown fields are refused, as they are misspelt known ones. */
export function checkOidcConfig(document: unknown): OidcConfig | null {
  if (!isRecord(document)) {
    return null;
  }
  const {
    issuers,
    jwks_refresh_interval_secs = 3600,
    token_cache_size = 1000,
    token_cache_ttl_secs = 300,
    ...unknownFields
  } = document;
  if (
    Object.keys(unknownFields).length > 0 ||
    !Array.isArray(issuers) ||
    issuers.length === 0 ||
    !isCount(jwks_refresh_interval_secs, 1) ||
    !isCount(token_cache_size, 1) ||
    !isCount(token_cache_ttl_secs, 0)
  ) {
    return null;
  }
  const accepted: OidcIssuer[] = [];
  for (const entry of issuers) {
    const { issuer, audience } = isRecord(entry) ? entry : {};
    if (
      !isText(issuer) ||
      !/^https?:\/\//.test(issuer) ||
      !URL.canParse(issuer) ||
      !isText(audience)
    ) {
      return null;
    }
    accepted.push({ issuer, audience });
  }
  return { issuers: accepted, jwks_refresh_interval_secs, token_cache_size, token_cache_ttl_secs };
}

/** Reads the object cache's keyring; null when it has another shape. */
export function checkKeyring(document: unknown): readonly KeyringEntry[] | null {
  if (!Array.isArray(document)) {
    return null;
  }
  const entries: KeyringEntry[] = [];
  for (const entry of document) {
    const { name, key } = isRecord(entry) ? entry : {};
    if (!isText(name) || !isText(key)) {
      return null;
    }
    entries.push({ name, key });
  }
  return entries;
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isText(value: unknown): value is string {
  return typeof value === "string" && value !== "";
}

function isCount(value: unknown, min: number): value is number {
  return typeof value === "number" && Number.isSafeInteger(value) && value >= min;
}
