import { createHash } from "node:crypto";

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
  /** The OIDC email, its ASCII letters in lower case, otherwise null. */
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

/** Longest name that the columns take. */
const maxNameCharacters = 255;
/** Subjects that could be taken for an email, a key, a caller without identity, or the service itself. */
const mistakable = /[@\s]|^(?:key:.*|anonymous|migration)$/u;

/**
 * The one name of a person or service account, for `created_by`, `revoked_by`, the audit and the bounds per
 * caller: the email, else the subject. A provider may let people choose their subject: one that could be taken
 * for somebody else's name is written as `subject <subject>`, which no email and no other subject reads like.
 */
export function identityName(email: string | null, subject: string): string {
  if (email !== null) {
    return email;
  }
  if (!mistakable.test(subject)) {
    return subject;
  }
  const name = `subject ${subject}`;
  if (name.length <= maxNameCharacters) {
    return name;
  }
  return `subject sha256:${createHash("sha256").update(subject).digest("hex")}`;
}

/** What audit columns and the query log record: email or subject, else the key, else `anonymous`. */
export function principalIdentity(principal: Principal): string {
  const { email, subject } = principal;
  if (email !== null || subject !== null) {
    return identityName(email, subject ?? "");
  }
  return principal.keyId === null ? "anonymous" : `key:${principal.keyId}`;
}
