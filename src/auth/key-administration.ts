/** Minting, listing and revoking of keys for the web server (specification, Rules for the key routes). */
import type { TransactionSql } from "../db/sql.js";
import { ServiceError } from "../runtime/errors.js";
import { appendAudit, type RequestOrigin } from "./audit.js";
import type { Caller } from "./caller.js";
import { type Claim, mintAudited, type MintResult } from "./claims.js";
import { type KeyTable, mintAnalyticsKey, type MintedKey, type SqlOrTransaction } from "./keys.js";
import { lockAudienceShared, lockCaller } from "./locks.js";
import { decideMint, type MintPolicy, selectMintFacts } from "./minting-policy.js";

/** Use of a key over the last 24 hours, the present one included. */
export interface KeyUsage24h {
  readonly requests: number;
  readonly bytes: number;
  readonly records: number;
}

/** A row of the list routes; never the key or its hash (rule 8). `audience` with ingestion keys only. */
export interface KeyRow {
  readonly key_id: string;
  readonly name: string;
  readonly created_at: Date;
  readonly created_by: string;
  readonly last_used_at: Date | null;
  readonly revoked_at: Date | null;
  readonly revoked_by: string | null;
  readonly audience?: string;
  readonly usage_24h: KeyUsage24h;
}

/** What part of the list is wanted. */
export interface KeyPage {
  readonly limit: number;
  readonly offset: number;
  readonly includeRevoked: boolean;
}

/** Mints under a standing grant. @throws ServiceError FORBIDDEN when it no longer stands. */
export async function mintUnderGrant(
  tx: TransactionSql,
  policy: MintPolicy,
  mint: Claim & { readonly explicit: boolean },
): Promise<MintResult> {
  await lockCaller(tx, mint.caller.name);
  await lockAudienceShared(tx, mint.audience);
  const facts = await selectMintFacts(tx, policy, mint.caller, mint.audience);
  const decision = decideMint(facts, policy, mint);
  if (decision.kind === "refused") throw new ServiceError("FORBIDDEN", decision.message);
  if (decision.kind === "claim") {
    throw new ServiceError("FORBIDDEN", `your mint grant for ${mint.audience} was just deleted`);
  }
  return { key: await mintAudited(tx, mint), claimed: false };
}

/** Mints an analytics key. */
export async function mintAnalyticsAudited(
  tx: TransactionSql,
  caller: Caller,
  origin: RequestOrigin,
  name: string,
): Promise<MintedKey> {
  const key = await mintAnalyticsKey(tx, { name, createdBy: caller.name });
  await appendAudit(tx, caller, origin, {
    action: "key.mint",
    target: key.keyId,
    details: { table: "analytics_api_keys", name },
  });
  return key;
}

interface SelectedKeyRow extends Omit<KeyRow, "usage_24h"> {
  readonly requests: number;
  readonly bytes: number;
  readonly records: number;
}

/** Newest first, by the index on the time of creation (of all, or of the live ones). */
export async function selectKeys(
  sql: SqlOrTransaction,
  table: KeyTable,
  page: KeyPage,
): Promise<readonly KeyRow[]> {
  const ofLive = page.includeRevoked ? sql`` : sql`where revoked_at is null`;
  const audience = table === "ingestion_api_keys" ? sql`, audience` : sql``;
  const rows = await sql<SelectedKeyRow[]>`
    select k.*, u.requests, u.bytes, u.records
    from (
      select key_id, name, created_at, created_by, last_used_at, revoked_at, revoked_by ${audience}
      from ${sql(table)} ${ofLive}
      order by created_at desc, key_id
      limit ${page.limit} offset ${page.offset}
    ) k
    cross join lateral (
      select coalesce(sum(requests), 0)::float8 as requests,
        coalesce(sum(bytes), 0)::float8 as bytes, coalesce(sum(records), 0)::float8 as records
      from api_key_usage where key_id = k.key_id and hour > now() - interval '24 hours'
    ) u
    order by k.created_at desc, k.key_id`;
  return rows.map(({ requests, bytes, records, ...key }) => ({
    ...key,
    usage_24h: { requests, bytes, records },
  }));
}

const uuidPattern = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/**
 * Revokes a key; when it was revoked already, nothing changes (rule 9).
 * @returns when it was first revoked.
 * @throws ServiceError NOT_FOUND for an id that no key of the table has.
 */
export async function revokeKey(
  tx: TransactionSql,
  table: KeyTable,
  caller: Caller,
  origin: RequestOrigin,
  keyId: string,
): Promise<Date> {
  if (uuidPattern.test(keyId)) {
    const [revoked] = await tx<{ revoked_at: Date }[]>`
      update ${tx(table)} set revoked_at = now(), revoked_by = ${caller.name}
      where key_id = ${keyId} and revoked_at is null
      returning revoked_at`;
    if (revoked !== undefined) {
      await appendAudit(tx, caller, origin, {
        action: "key.revoke",
        target: keyId.toLowerCase(),
        details: { table },
      });
      return revoked.revoked_at;
    }
    // A statement of its own: it sees what the revocation that was waited for has committed.
    const [known] = await tx<{ revoked_at: Date | null }[]>`
      select revoked_at from ${tx(table)} where key_id = ${keyId}`;
    const revokedAt = known?.revoked_at ?? null;
    if (revokedAt !== null) return revokedAt;
  }
  throw new ServiceError(
    "NOT_FOUND",
    "no such key; key_id is the UUID that the list shows, and each table has its own",
  );
}
