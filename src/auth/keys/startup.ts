/** What a server checks about authentication before it starts. */
import type { SqlOrTransaction } from "../../db/sql.js";
import { holdsKeys, type KeyTable } from "./keys.js";

/**
 * Why a server must not start, in one sentence, or null when it may: it takes OIDC, or a key table
 * that is not empty. Where all keys are revoked it starts and refuses everybody, until one is minted.
 */
export async function authStartRefusal(o: {
  readonly sql: SqlOrTransaction;
  readonly table: KeyTable;
  readonly oidcConfigured: boolean;
}): Promise<string | null> {
  if (o.oidcConfigured || (await holdsKeys(o.sql, o.table))) {
    return null;
  }
  return (
    `no way to authenticate callers: set SVC_OIDC_CONFIG, or mint a key into ${o.table} ` +
    "(it is empty); --disable-auth turns authentication off for development"
  );
}
