/**
 * Who is calling. Made by an authenticator, read by everything behind it.
 * `email` is set only when it may count for grants (the token does not say `email_verified: false`).
 */
export interface Principal {
  readonly kind: "ingestion_key" | "analytics_key" | "oidc" | "anonymous";
  /** The `key_id` (UUID) of an API key, otherwise null. */
  readonly keyId: string | null;
  /** The OIDC `sub` claim, otherwise null. */
  readonly subject: string | null;
  /** The OIDC email, in lower case, otherwise null. */
  readonly email: string | null;
  /** Write audience; ingestion keys only. Null means that what is written stays unstamped. */
  readonly audience: string | null;
}

/** The caller under `--disable-auth`: no identity, no audience. */
export const anonymousPrincipal: Principal = Object.freeze({
  kind: "anonymous",
  keyId: null,
  subject: null,
  email: null,
  audience: null,
});

/** What audit columns (`created_by`, `revoked_by`) record: email, else subject, else the key, else `anonymous`. */
export function principalIdentity(principal: Principal): string {
  if (principal.email !== null) return principal.email;
  if (principal.subject !== null) return principal.subject;
  return principal.keyId === null ? "anonymous" : `key:${principal.keyId}`;
}
