/** What a server checks about authentication before it starts. */
import type { Logger } from "../runtime/log.js";
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

/** Warn that environment keyrings are not read here; `variables` are the names found set. */
export function warnAboutIgnoredKeyrings(logger: Logger, variables: readonly string[]): void {
  for (const variable of variables) {
    logger.warn(
      { variable },
      `${variable} is set but not read by this server: API keys come from the database only`,
    );
  }
}
