/** What ingestion keys were used for: sums of hours or days. */
import type { SqlOrTransaction } from "../db/sql.js";
import type { Caller } from "../auth/caller.js";
import { ServiceError } from "../runtime/errors.js";

/** What to sum up. */
interface UsageQuery {
  readonly keyId: string | null;
  readonly audience: string | null;
  readonly begin: Date;
  readonly end: Date;
  /** all: one sum for each key, whose time is that of its last hour with use. */
  readonly step: "hour" | "day" | "all";
}

/** A sum. */
interface UsageRow {
  readonly at: Date;
  readonly key_id: string;
  readonly name: string;
  readonly audience: string;
  readonly requests: number;
  readonly bytes: number;
  readonly records: number;
}

/** Most rows of an answer. */
const maxRows = 20_000;

/**
 * Oldest first, per key. The use is looked up key by key (`offset 0` makes Postgres do so): a plan that it keeps for all
 * times would read that of every key for a few.
 * @param owner only keys that this caller minted; null: all
 * @throws ServiceError BAD_REQUEST for more rows than an answer holds
 */
export async function selectUsage(
  sql: SqlOrTransaction,
  owner: Caller | null,
  { keyId, audience, begin, end, step }: UsageQuery,
): Promise<readonly UsageRow[]> {
  const at = step === "all" ? sql`max(u.hour)` : sql`date_trunc(${step}, u.hour, 'UTC')`;
  const rows = await sql<UsageRow[]>`
    select ${at} as at, k.key_id, k.name, k.audience,
      sum(u.requests)::float8 as requests, sum(u.bytes)::float8 as bytes, sum(u.records)::float8 as records
    from ingestion_api_keys k cross join lateral (
      select hour, requests, bytes, records from api_key_usage
      where key_id = k.key_id and hour >= date_trunc('hour', ${begin}::timestamptz) and hour < ${end}::timestamptz
      offset 0
    ) u
    where true
      ${keyId === null ? sql`` : sql`and k.key_id = ${keyId}`}
      ${audience === null ? sql`` : sql`and k.audience = ${audience}`}
      ${owner === null ? sql`` : sql`and k.created_by = ${owner.name}`}
    group by ${step === "all" ? sql`` : sql`1,`} 2, 3, 4
    order by 1, 2
    limit ${maxRows + 1}`;
  if (rows.length > maxRows) {
    throw new ServiceError(
      "BAD_REQUEST",
      `that is more than ${maxRows} rows; narrow the time, take days or sums of all, or name an audience`,
    );
  }
  return rows;
}
