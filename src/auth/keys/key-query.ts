/** The hot statement of authentication: which of these hashes are live keys. */
import type { Sql } from "../../db/sql.js";
import type { KeyTable } from "./keys.js";

/** A live key as the tables hold it; `audience` is null for analytics keys. */
export interface LiveKeyRow {
  readonly key_hash: Uint8Array;
  readonly key_id: string;
  readonly audience: string | null;
}

/**
 * Rows of the live keys among `hashes` (32 one-byte characters each), in one statement, found by the
 * unique index on `key_hash`. The hashes travel as one text parameter, so that the statement is
 * prepared once whatever their number, and needs no array type of the driver.
 */
export function selectLiveKeys(
  sql: Sql,
  table: KeyTable,
  hashes: readonly string[],
): PromiseLike<readonly LiveKeyRow[]> {
  const list = hashes.map((hash) => Buffer.from(hash, "latin1").toString("hex")).join(",");
  return table === "ingestion_api_keys"
    ? sql<LiveKeyRow[]>`
        select k.key_hash, k.key_id::text as key_id, k.audience
        from unnest(string_to_array(${list}, ',')) as wanted (hex)
        join ingestion_api_keys k on k.key_hash = decode(wanted.hex, 'hex')
        where k.revoked_at is null`
    : sql<LiveKeyRow[]>`
        select k.key_hash, k.key_id::text as key_id, null::text as audience
        from unnest(string_to_array(${list}, ',')) as wanted (hex)
        join analytics_api_keys k on k.key_hash = decode(wanted.hex, 'hex')
        where k.revoked_at is null`;
}
