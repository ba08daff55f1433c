/** How long rows are kept: a default, and overrides by table and audience of which the most specific one wins. */
import type { Sql } from "../../db/sql.js";

/** One override. */
export interface RetentionOverride {
  /** A table of the lake, or `api_key_usage`. */
  readonly viewSet: string;
  /** Null: every audience without an override of its own. */
  readonly audience: string | null;
  /** 0: for good. */
  readonly days: number;
}

/** Everything that decides how long a row is kept. */
export interface RetentionPolicy {
  /** `SVC_RETENTION_DAYS`; null: for good. */
  readonly defaultDays: number | null;
  /** `SVC_UNSTAMPED_AUDIENCE`, whose overrides hold for rows without an audience; the empty string: none does. */
  readonly unstampedAudience: string;
  readonly overrides: readonly RetentionOverride[];
}

/** Days that rows of a table and audience (null: unstamped) are kept after they were received; null: for good. */
export function daysKept(policy: RetentionPolicy, viewSet: string, audience: string | null): number | null {
  const name = audience ?? policy.unstampedAudience;
  const known = daysByTarget(policy.overrides);
  const days = known.get(targetOf(viewSet, name)) ?? known.get(targetOf(viewSet, null)) ?? policy.defaultDays;
  return days === 0 ? null : days;
}

/** Kept with the overrides: every stream and every table of an audience is asked about. */
const indexes = new WeakMap<readonly RetentionOverride[], ReadonlyMap<string, number>>();

function daysByTarget(overrides: readonly RetentionOverride[]): ReadonlyMap<string, number> {
  const known =
    indexes.get(overrides) ??
    new Map(overrides.map(({ viewSet, audience, days }) => [targetOf(viewSet, audience), days]));
  indexes.set(overrides, known);
  return known;
}

/** Names a table and audience; null: none of its own. */
export const targetOf = (viewSet: string, audience: string | null): string => `${viewSet}/${audience ?? ""}`;

/** The longest of several tables; null when one of them keeps its rows for good. */
export function longestKept(
  policy: RetentionPolicy,
  viewSets: readonly string[],
  audience: string | null,
): number | null {
  const days = viewSets.map((viewSet) => daysKept(policy, viewSet, audience));
  return days.reduce((longest, one) => (longest === null || one === null ? null : Math.max(longest, one)), 0);
}

/** Whether anything is ever removed for its age. */
export function removesAnything({ defaultDays, overrides }: RetentionPolicy): boolean {
  return (defaultDays !== null && defaultDays > 0) || overrides.some(({ days }) => days > 0);
}

/** Writes down the default and when it was said, for the web server, which does not know it otherwise. */
export async function noteDefault(sql: Sql, defaultDays: number | null): Promise<void> {
  await sql`update lake_state set retention_days = ${defaultDays}, retention_seen_at = now()`;
}

/** Reads the overrides. */
export function selectOverrides(sql: Sql): Promise<RetentionOverride[]> {
  return sql<RetentionOverride[]>`select view_set as "viewSet", audience, days from retention_overrides`;
}
