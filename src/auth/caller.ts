/** Who drives the web server: an identity from an OIDC identity token, never from an API key. */

/** A person or service account that is logged in. */
export interface Caller {
  /** The `sub` claim. */
  readonly subject: string;
  /** In lower case; null when there is none or the token says `email_verified: false`. */
  readonly email: string | null;
  /** What `created_by`, `revoked_by` and the audit record; see `identityName`. */
  readonly name: string;
}

/** What a request's cookies are worth. */
export type CallerOutcome =
  | { readonly kind: "ok"; readonly caller: Caller; readonly expiresAtMs: number }
  | { readonly kind: "rejected"; readonly message: string }
  | { readonly kind: "unavailable" };

/** Turns the `Cookie` field of a request into a caller. */
export interface CallerSource {
  /** @param cookieHeader the field's value, the empty string when there is none. */
  caller(cookieHeader: string): Promise<CallerOutcome>;
}

/** The member that stands for this caller in grants and groups; null without an email (rule 5). */
export function userMemberOf(caller: Caller): string | null {
  return caller.email === null ? null : `user:${caller.email}`;
}
