/** Minting, listing and revoking of keys for the web server. */
import type { SqlOrTransaction, TransactionSql } from "../db/sql.js";
import { ServiceError } from "../runtime/errors.js";
import { isUuid } from "../runtime/text/uuid.js";
import { appendAudit, appendAudits, type Author } from "../auth/audit.js";
import type { Caller } from "../auth/caller.js";
import { type Claim, mintAudited, type MintResult } from "./claims.js";
import { deleteGrantsOf } from "./grant-administration.js";
import { type KeyTable, mintAnalyticsKey, type MintedKey } from "../auth/keys/keys.js";
import { lockAudienceShared, lockCaller } from "./locks.js";
import { decideMint, type MintPolicy, selectMintFacts } from "./minting-policy.js";

/** The page of a list. */
interface KeyPage {
  readonly limit: number;
  readonly offset: number;
  readonly includeRevoked: boolean;
  /** Adds `usage_24h` to the rows; only ingestion keys are counted. */
  readonly includeUsage: boolean;
  /** Only keys that this caller minted; null: all. */
  readonly owner: Caller | null;
}

/** Mints under a grant. @throws ServiceError FORBIDDEN when the grant is gone. */
export async function mintUnderGrant(
  tx: TransactionSql,
  policy: MintPolicy,
  mint: Claim & { readonly explicit: boolean },
): Promise<MintResult> {
  // Sent together and run in this order, as in a claim.
  const [, , facts] = await Promise.all([
    lockCaller(tx, mint.caller.name),
    lockAudienceShared(tx, mint.audience),
    selectMintFacts(tx, policy, mint.caller, mint.audience),
  ]);
  const decision = decideMint(facts, policy, mint);
  if (decision.kind === "refused") {
    throw new ServiceError("FORBIDDEN", decision.message);
  }
  if (decision.kind === "claim") {
    throw new ServiceError("FORBIDDEN", `your mint grant for ${mint.audience} was just deleted`);
  }
  return { key: await mintAudited(tx, mint), claimed: false };
}

/** Mints an analytics key. */
export async function mintAnalyticsAudited(tx: TransactionSql, by: Author, name: string): Promise<MintedKey> {
  const key = await mintAnalyticsKey(tx, { name, createdBy: by.caller.name });
  await appendAudit(tx, by, {
    action: "key.mint",
    target: key.keyId,
    details: { table: "analytics_api_keys", name },
  });
  return key;
}

/**
 * A page of keys as the text of a JSON array (AnalyticsKey or IngestionKey of the OpenAPI document), newest first, by
 * the index on the time of creation of all keys or of the live ones, or on who minted them; never the key or its hash.
 * Postgres writes the JSON, whole rows at a time: turning 500 rows into objects and those into text took five times the
 * CPU, and naming each member to Postgres half as much again. `usage_24h` adds up the present hour and the 23 before it,
 * which the primary key of `api_key_usage` holds: it is read without the table.
 */
export async function selectKeysJson(sql: SqlOrTransaction, table: KeyTable, page: KeyPage): Promise<string> {
  const ofLive = page.includeRevoked ? sql`` : sql`and revoked_at is null`;
  const ofOwner = page.owner === null ? sql`` : sql`and created_by = ${page.owner.name}`;
  const audience = table === "ingestion_api_keys" ? sql`, audience` : sql``;
  const usage = page.includeUsage ? sql`, u as usage_24h` : sql``;
  const counts = page.includeUsage
    ? sql`
      cross join lateral (
        select coalesce(sum(requests), 0) as requests, coalesce(sum(bytes), 0) as bytes,
          coalesce(sum(records), 0) as records
        from api_key_usage where key_id = k.key_id and hour > now() - interval '24 hours'
      ) u`
    : sql``;
  const [row] = await sql<{ page: string }[]>`
    select coalesce(json_agg(r), '[]')::text as page
    from (
      select k.key_id, k.name,
        to_char(k.created_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as created_at,
        k.created_by,
        to_char(k.last_used_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as last_used_at,
        to_char(k.revoked_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as revoked_at,
        k.revoked_by ${audience} ${usage}
      from (
        select key_id, name, created_at, created_by, last_used_at, revoked_at, revoked_by ${audience}
        from ${sql(table)} where true ${ofLive} ${ofOwner}
        order by created_at desc, key_id
        limit ${page.limit} offset ${page.offset}
      ) k ${counts}
      order by k.created_at desc, k.key_id
    ) r`;
  if (row === undefined) {
    throw new Error("an aggregate returned no row");
  }
  return row.page;
}

/**
 * Revokes a key, and deletes the grants of an analytics key. Revoking a revoked key changes nothing.
 * @param because why, for the audit, where it is not the caller's wish.
 * @returns when it was first revoked.
 * @throws ServiceError NOT_FOUND for an id that no key of the table has.
 */
export async function revokeKey(
  tx: TransactionSql,
  table: KeyTable,
  by: Author,
  keyId: string,
  because?: string,
): Promise<Date> {
  if (isUuid(keyId)) {
    const [revoked] = await tx<{ revoked_at: Date }[]>`
      update ${tx(table)} set revoked_at = now(), revoked_by = ${by.caller.name}
      where key_id = ${keyId} and revoked_at is null
      returning revoked_at`;
    if (revoked !== undefined) {
      const id = keyId.toLowerCase();
      const grants = table === "analytics_api_keys" ? await deleteGrantsOf(tx, `key:${id}`, "its key was revoked") : [];
      const details = { table, ...(because === undefined ? {} : { because }) };
      await appendAudits(tx, by, [{ action: "key.revoke", target: id, details }, ...grants]);
      return revoked.revoked_at;
    }
    // A statement of its own: it sees what the revocation that was waited for has committed.
    const [known] = await tx<{ revoked_at: Date | null }[]>`
      select revoked_at from ${tx(table)} where key_id = ${keyId}`;
    const revokedAt = known?.revoked_at ?? null;
    if (revokedAt !== null) {
      return revokedAt;
    }
  }
  throw new ServiceError("NOT_FOUND", "no such key; list the keys of this kind to see their key_id");
}
