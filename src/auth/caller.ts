/** Who drives the web server: an identity from an OIDC identity token, never from an API key. */

/** A person or service account that is logged in. */
export interface Caller {
  /** The `iss` claim. */
  readonly issuer: string;
  /** The `sub` claim. */
  readonly subject: string;
  /** In lower case; null without a verified email. */
  readonly email: string | null;
  /** What `created_by`, `revoked_by` and the audit record; see `identityName`. */
  readonly name: string;
}

/** The member that means this caller in grants and groups; null without an email. */
export function userMemberOf(caller: Caller): string | null {
  return caller.email === null ? null : `user:${caller.email}`;
}
