import { createHash } from "node:crypto";

/**
 * Who is calling. Made by an authenticator, read by everything behind it.
 * `email` is set only when it may count for grants (the token does not say `email_verified: false`).
 */
export interface Principal {
  readonly kind: "ingestion_key" | "analytics_key" | "oidc" | "anonymous";
  /** The `key_id` (UUID) of an API key, otherwise null. */
  readonly keyId: string | null;
  /** The OIDC `iss` claim, otherwise null. */
  readonly issuer: string | null;
  /** The OIDC `sub` claim, otherwise null. */
  readonly subject: string | null;
  /** The OIDC email, its ASCII letters in lower case, otherwise null. */
  readonly email: string | null;
  /** See {@link identityName}; null without an OIDC token. */
  readonly name: string | null;
  /** Write audience; ingestion keys only. Null means that what is written stays unstamped. */
  readonly audience: string | null;
}

/** The caller under `--disable-auth`: no identity, no audience. */
export const anonymousPrincipal: Principal = Object.freeze({
  kind: "anonymous",
  keyId: null,
  issuer: null,
  subject: null,
  email: null,
  name: null,
  audience: null,
});

/** Longest name that the columns take. */
const maxNameCharacters = 255;
/** Subjects that could be taken for an email, a key, a caller without identity, or the service itself. */
const mistakable = /[@\s]|^(?:key:.*|anonymous|migration|maintenance)$/u;

/**
 * The one name of a person or service account, for `created_by`, `revoked_by`, the audit and the bounds per
 * caller: the email, else the subject. A provider may let people choose their subject: one that could be taken
 * for somebody else's name is written as `subject <subject>`, which no email and no other subject reads like.
 * @param issuer where several are accepted, each of which has subjects of its own; null: it is the only one
 */
export function identityName(email: string | null, subject: string, issuer: string | null): string {
  if (email !== null) {
    return email;
  }
  if (issuer !== null) {
    const name = `issuer ${issuer} subject ${subject}`;
    return name.length <= maxNameCharacters ? name : `issuer sha256:${sha256(JSON.stringify([issuer, subject]))}`;
  }
  if (!mistakable.test(subject)) {
    return subject;
  }
  const name = `subject ${subject}`;
  return name.length <= maxNameCharacters ? name : `subject sha256:${sha256(subject)}`;
}

/** What audit columns and the query log record: email or subject, else the key, else `anonymous`. */
export function principalIdentity({ name, keyId }: Principal): string {
  return name ?? (keyId === null ? "anonymous" : `key:${keyId}`);
}

function sha256(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}
