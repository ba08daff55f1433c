/** Who can log in at the identity provider of development mode. */

/** One account; it has no password. */
export interface Account {
  /** The subject of its tokens. */
  readonly id: string;
  readonly email: string;
  readonly name: string;
  /** What it may do, for the login page. */
  readonly summary: string;
}

/** The account that a fresh database has for its only administrator. */
export const administrator: Account = {
  id: "dev",
  email: "dev@localhost",
  name: "Dev",
  summary: "Administrator",
};

/** The account to see the service with as somebody without rights. */
export const guest: Account = {
  id: "guest",
  email: "guest@localhost",
  name: "Guest",
  summary: "Not an administrator",
};

/** Every account, in the order of the login page. */
export const accounts: readonly Account[] = [administrator, guest];

/** The account with an email; null when there is none. */
export function accountOf(email: string): Account | null {
  return accounts.find((account) => account.email === email) ?? null;
}
