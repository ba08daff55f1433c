/** What a server checks about authentication before it starts. */
import { hasLiveKey, type KeyTable, type SqlOrTransaction } from "./keys.js";

/**
 * Why a server must not start, in one sentence, or null when it may: it takes OIDC, or a key table
 * with a live key (specification, Authentication, Methods and order).
 */
export async function authStartRefusal(o: {
  readonly sql: SqlOrTransaction;
  readonly table: KeyTable;
  readonly oidcConfigured: boolean;
}): Promise<string | null> {
  if (o.oidcConfigured || (await hasLiveKey(o.sql, o.table))) return null;
  return (
    `no way to authenticate callers: set SVC_OIDC_CONFIG, or mint a key into ${o.table} ` +
    "(it holds no live one); --disable-auth turns authentication off for development"
  );
}
