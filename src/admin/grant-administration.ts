/** Audience grants of the web server: rows are inserted and deleted, never changed. */
import type { SqlOrTransaction, TransactionSql } from "../db/sql.js";
import { ServiceError } from "../runtime/errors.js";
import { appendAudit, type AuditedChange, type Author } from "../auth/audit.js";
import { lockAudience, lockGroup } from "./locks.js";

/** The triple that a grant is. `user:` and `key:` members are in lower case. */
interface GrantTriple {
  readonly audience: string;
  readonly kind: "read" | "mint";
  readonly member: string;
}

/** A grant as the routes show it. */
interface GrantRow extends GrantTriple {
  readonly created_at: Date;
  readonly created_by: string;
}

/** A row, and whether this call made it. */
export interface Created<Row> {
  readonly row: Row;
  readonly created: boolean;
}

const groupPrefix = "group:";
const keyPrefix = "key:";

const target = (grant: GrantTriple): string => `${grant.audience}/${grant.kind}/${grant.member}`;
const details = (grant: GrantTriple): Record<string, string> => ({
  audience: grant.audience,
  kind: grant.kind,
  member: grant.member,
});

// Emails compare without regard to ASCII case; a row that was written by hand may hold any.
const sameMember = (sql: SqlOrTransaction, member: string) =>
  member.startsWith("user:") ? sql`lower(member collate "C") = ${member}` : sql`member = ${member}`;

/**
 * Makes sure of a grant.
 * @throws ServiceError BAD_REQUEST for `key:` with `mint`, and for a group or key that there is not.
 */
export async function createGrant(tx: TransactionSql, by: Author, grant: GrantTriple): Promise<Created<GrantRow>> {
  if (grant.kind === "mint" && grant.member.startsWith("key:")) {
    throw new ServiceError("BAD_REQUEST", "member key:<key_id> takes kind read only: keys do not mint");
  }
  await assertMember(tx, grant.member);
  // A grant brings an audience into being, and so must not meet a claim of it.
  await lockAudience(tx, grant.audience);
  const [known] = await tx<GrantRow[]>`
    select audience, kind, member, created_at, created_by from audience_grants
    where audience = ${grant.audience} and kind = ${grant.kind} and ${sameMember(tx, grant.member)}`;
  if (known !== undefined) {
    return { row: known, created: false };
  }
  const [row] = await tx<GrantRow[]>`
    insert into audience_grants (audience, kind, member, created_by)
    values (${grant.audience}, ${grant.kind}, ${grant.member}, ${by.caller.name})
    returning audience, kind, member, created_at, created_by`;
  if (row === undefined) {
    throw new Error("insert of a grant returned no row");
  }
  await appendAudit(tx, by, {
    action: "grant.create",
    target: target(grant),
    details: details(grant),
  });
  return { row, created: true };
}

/**
 * A grant of a group or key that is yet to come would be a trap, and so would one that a misspelt name leaves
 * without effect. Both take their grants along when they go, which is why they are locked here: this grant
 * comes before or after that.
 */
async function assertMember(tx: TransactionSql, member: string): Promise<void> {
  if (member.startsWith(groupPrefix)) {
    const name = member.slice(groupPrefix.length);
    await lockGroup(tx, name);
    if (!(await groupExists(tx, name))) {
      throw new ServiceError("BAD_REQUEST", "no group has this name; create it first");
    }
  } else if (member.startsWith(keyPrefix)) {
    const [key] = await tx<{ live: boolean }[]>`
      select revoked_at is null as live from analytics_api_keys
      where key_id = ${member.slice(keyPrefix.length)} for share`;
    if (key?.live !== true) {
      throw new ServiceError(
        "BAD_REQUEST",
        key === undefined
          ? "no analytics key has this key_id; list the analytics keys to see theirs"
          : "this analytics key is revoked; mint another and grant to that",
      );
    }
  }
}

/** Whether there is a group of that name. */
export async function groupExists(sql: SqlOrTransaction, name: string): Promise<boolean> {
  const [row] = await sql<{ known: boolean }[]>`
    select exists (select from groups where name = ${name}) as known`;
  return row?.known === true;
}

/** Newest first. */
export async function selectGrants(
  sql: SqlOrTransaction,
  filter: {
    readonly audience: string | undefined;
    readonly kind: string | undefined;
    readonly member: string | undefined;
    readonly limit: number;
    readonly offset: number;
  },
): Promise<readonly GrantRow[]> {
  const { audience, kind, member } = filter;
  return await sql<GrantRow[]>`
    select audience, kind, member, created_at, created_by from audience_grants
    where true
      ${audience === undefined ? sql`` : sql`and audience = ${audience}`}
      ${kind === undefined ? sql`` : sql`and kind = ${kind}`}
      ${member === undefined ? sql`` : sql`and ${sameMember(sql, member)}`}
    order by created_at desc, audience, kind, member
    limit ${filter.limit} offset ${filter.offset}`;
}

/** @throws ServiceError NOT_FOUND when there is no such grant. */
export async function deleteGrant(tx: TransactionSql, by: Author, grant: GrantTriple): Promise<void> {
  const deleted = await tx`
    delete from audience_grants
    where audience = ${grant.audience} and kind = ${grant.kind} and ${sameMember(tx, grant.member)}`;
  if (deleted.count === 0) {
    throw new ServiceError("NOT_FOUND", "no such grant; list the grants to see which exist");
  }
  await appendAudit(tx, by, {
    action: "grant.delete",
    target: target(grant),
    details: details(grant),
  });
}

/**
 * Deletes every grant of a locked group or key that is being deleted. Otherwise the members of a later
 * group of that name would inherit them.
 * @returns the changes, for the audit.
 */
export async function deleteGrantsOf(
  tx: TransactionSql,
  member: string,
  because: string,
): Promise<readonly AuditedChange[]> {
  const deleted = await tx<GrantTriple[]>`
    delete from audience_grants where member = ${member} returning audience, kind, member`;
  return deleted.map((grant) => ({
    action: "grant.delete",
    target: target(grant),
    details: { ...details(grant), because },
  }));
}
