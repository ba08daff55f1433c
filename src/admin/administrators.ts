/** Who is an administrator, and what a caller may read and mint: asked of the database, not a cache. */
import { type SqlOrTransaction, sqlState } from "../db/sql.js";
import { ServiceError } from "../runtime/errors.js";
import { type Caller, userMemberOf } from "../auth/caller.js";

/** Whether a caller is an administrator. */
export interface CallerStanding {
  readonly isAdmin: boolean;
  /** Everybody is an administrator, because `admins` holds `*`. */
  readonly adminsOpen: boolean;
}

/** What `GET /api/audience-grants/my-audiences` tells of the database. Audiences are sorted. */
interface CallerAudiences extends CallerStanding {
  readonly read: readonly string[];
  readonly mint: readonly string[];
}

/** Membership in the reserved group `admins`, or its `*`, which makes everybody one. */
export async function isAdministrator(sql: SqlOrTransaction, caller: Caller): Promise<boolean> {
  const [row] = await sql<{ admin: boolean }[]>`
    select exists (
      select from group_members
      where group_name = 'admins' and (member = '*' or lower(member collate "C") = ${userMemberOf(caller)})
    ) as admin`;
  return row?.admin === true;
}

/** Whether a caller is an administrator, and whether everybody is. */
export async function selectStanding(sql: SqlOrTransaction, caller: Caller): Promise<CallerStanding> {
  const [isAdmin, [admins]] = await Promise.all([
    isAdministrator(sql, caller),
    sql<{ open: boolean }[]>`
      select exists (
        select from group_members where group_name = 'admins' and member = '*'
      ) as open`,
  ]);
  return { isAdmin, adminsOpen: admins?.open === true };
}

/** Everything that a caller's own grants, groups' grants and `*` grants add up to. */
export async function selectCallerAudiences(sql: SqlOrTransaction, caller: Caller): Promise<CallerAudiences> {
  const user = userMemberOf(caller);
  const [standing, rows] = await Promise.all([
    selectStanding(sql, caller),
    sql<{ kind: "read" | "mint"; audience: string }[]>`
      with own_groups as (
        select distinct 'group:' || group_name as member from group_members
        where ${user}::text is not null and (member = '*' or lower(member collate "C") = ${user})
      )
      select distinct kind, audience from audience_grants
      where member = '*' or lower(member collate "C") = ${user} or member in (select member from own_groups)
      order by audience`,
  ]);
  const of = (kind: string): string[] => rows.filter((row) => row.kind === kind).map((row) => row.audience);
  return { ...standing, read: of("read"), mint: of("mint") };
}

/** SQLSTATEs of a schema that lacks something: undefined table, undefined column. */
const schemaStates: ReadonlySet<string> = new Set(["42P01", "42703"]);

/**
 * Runs a query over grants and groups. One that fails makes the request UNAVAILABLE: no decision was made, and the
 * caller may try again. Only a schema before version 6 stays an unexpected error, which is answered with an opaque 500.
 */
export async function authorizing<T>(sql: SqlOrTransaction, query: () => Promise<T>): Promise<T> {
  try {
    return await query();
  } catch (cause) {
    if (cause instanceof ServiceError) {
      throw cause;
    }
    if (schemaStates.has(sqlState(cause) ?? "") && !(await hasAudienceColumn(sql))) {
      throw cause;
    }
    throw new ServiceError("UNAVAILABLE", "grants cannot be read now; try again", {
      cause,
      retryAfterSeconds: 1,
    });
  }
}

async function hasAudienceColumn(sql: SqlOrTransaction): Promise<boolean> {
  const [row] = await sql<{ present: boolean }[]>`
    select exists (
      select from pg_attribute
      where attrelid = to_regclass('ingestion_api_keys') and attname = 'audience'
    ) as present`;
  return row?.present === true;
}
