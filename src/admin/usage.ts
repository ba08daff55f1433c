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
  readonly step: "hour" | "day";
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
 * Oldest first, per key.
 * @param owner only keys that this caller minted; null: all
 * @throws ServiceError BAD_REQUEST for more rows than an answer holds
 */
export async function selectUsage(
  sql: SqlOrTransaction,
  owner: Caller | null,
  { keyId, audience, begin, end, step }: UsageQuery,
): Promise<readonly UsageRow[]> {
  const rows = await sql<UsageRow[]>`
    select date_trunc(${step}, u.hour, 'UTC') as at, k.key_id, k.name, k.audience,
      sum(u.requests)::float8 as requests, sum(u.bytes)::float8 as bytes, sum(u.records)::float8 as records
    from api_key_usage u join ingestion_api_keys k using (key_id)
    where u.hour >= date_trunc('hour', ${begin}::timestamptz) and u.hour < ${end}::timestamptz
      and (${keyId}::uuid is null or k.key_id = ${keyId}::uuid)
      and (${audience}::text is null or k.audience = ${audience})
      and (${owner?.name ?? null}::text is null or k.created_by = ${owner?.name ?? null})
    group by 1, 2, 3, 4
    order by 1, 2
    limit ${maxRows + 1}`;
  if (rows.length > maxRows) {
    throw new ServiceError("BAD_REQUEST", `that is more than ${maxRows} rows; narrow the time or take days`);
  }
  return rows;
}
