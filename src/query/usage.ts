/** What each ingestion key was used for, by hour: the rows behind the view `usage`. */
import { type AudienceFilter, readableBy } from "../db/audience-filter.js";
import type { Sql } from "../db/sql.js";
import type { RowField } from "./sql/json-rows.js";

/** A row of the view `usage`. */
interface UsageRecord {
  /** Beginning of the hour. */
  readonly hour: Date;
  readonly keyId: string;
  readonly keyName: string;
  readonly audience: string;
  readonly requests: bigint;
  /** Of the bodies as sent. */
  readonly bytes: bigint;
  /** Records stored. */
  readonly records: bigint;
}

/**
 * Usage of the keys that write for the audiences, of hours that begin within (inclusive) bounds in nanoseconds since
 * 1970, in chunks; leaving the loop early closes the cursor. A key keeps its audience for good, so that of the hour is
 * the key's.
 */
export function readUsage(
  sql: Sql,
  query: {
    readonly audiences: AudienceFilter;
    readonly minTimeNs: bigint | undefined;
    readonly maxTimeNs: bigint | undefined;
  },
): AsyncIterable<UsageRecord[]> {
  const { audiences, minTimeNs, maxTimeNs } = query;
  const hour = (seconds: bigint) => sql`to_timestamp(${String(seconds)}::float8)`;
  return sql<UsageRecord[]>`
    select u.hour, u.key_id as "keyId", k.name as "keyName", k.audience, u.requests, u.bytes, u.records
    from api_key_usage u join ingestion_key_names k using (key_id)
    where ${readableBy(sql, audiences)}
    ${minTimeNs === undefined ? sql`` : sql`and u.hour >= ${hour(-floorSeconds(-minTimeNs))}`}
    ${maxTimeNs === undefined ? sql`` : sql`and u.hour <= ${hour(floorSeconds(maxTimeNs))}`}`.cursor(2000);
}

/** The columns of the view. */
export function usageRow(row: UsageRecord): Record<string, RowField> {
  return {
    time: row.hour,
    key_id: row.keyId,
    key_name: row.keyName,
    audience: row.audience,
    requests: row.requests,
    bytes: row.bytes,
    records: row.records,
  };
}

/** Whole seconds, downwards also before 1970. */
function floorSeconds(ns: bigint): bigint {
  const seconds = ns / 1_000_000_000n;
  return seconds * 1_000_000_000n > ns ? seconds - 1n : seconds;
}
