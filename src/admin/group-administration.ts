/** Local groups of the web server. The reserved group `admins` cannot be deleted or emptied. */
import type { SqlOrTransaction, TransactionSql } from "../db/sql.js";
import { ServiceError } from "../runtime/errors.js";
import type { Page } from "../wire/web/operation.js";
import { appendAudit, appendAudits, type Author } from "../auth/audit.js";
import { type Created, deleteGrantsOf, groupExists } from "./grant-administration.js";
import { lockGroup } from "./locks.js";

/** A group as the routes show it. */
interface GroupRow {
  readonly name: string;
  readonly created_at: Date;
  readonly created_by: string;
}

/** A member as the routes show it: `user:<email>` or `*`. */
interface GroupMemberRow {
  readonly member: string;
  readonly created_at: Date;
  readonly created_by: string;
}

const admins = "admins";

const noSuchGroup = (): ServiceError => new ServiceError("NOT_FOUND", "no such group; create it first");

/** Makes sure of a group. */
export async function createGroup(tx: TransactionSql, by: Author, name: string): Promise<Created<GroupRow>> {
  const [row] = await tx<GroupRow[]>`
    insert into groups (name, created_by) values (${name}, ${by.caller.name})
    on conflict (name) do nothing
    returning name, created_at, created_by`;
  if (row === undefined) {
    const [known] = await tx<GroupRow[]>`
      select name, created_at, created_by from groups where name = ${name}`;
    // Deleted between the two statements: the caller may as well have come before the deletion.
    if (known === undefined) {
      throw new ServiceError("CONFLICT", "the group was just deleted");
    }
    return { row: known, created: false };
  }
  await appendAudit(tx, by, { action: "group.create", target: name, details: {} });
  return { row, created: true };
}

/** Newest first. */
export async function selectGroups(sql: SqlOrTransaction, page: Page): Promise<readonly GroupRow[]> {
  return await sql<GroupRow[]>`
    select name, created_at, created_by from groups
    order by created_at desc, name limit ${page.limit} offset ${page.offset}`;
}

/**
 * Deletes a group with its members and its grants.
 * @throws ServiceError CONFLICT for `admins`, NOT_FOUND.
 */
export async function deleteGroup(tx: TransactionSql, by: Author, name: string): Promise<void> {
  if (name === admins) {
    throw new ServiceError("CONFLICT", "the group admins is reserved and cannot be deleted");
  }
  await lockGroup(tx, name);
  const because = "its group was deleted";
  const members = await tx<{ member: string }[]>`
    delete from group_members where group_name = ${name} returning member`;
  const deleted = await tx`delete from groups where name = ${name}`;
  if (deleted.count === 0) {
    throw noSuchGroup();
  }
  const grants = await deleteGrantsOf(tx, `group:${name}`, because);
  await appendAudits(tx, by, [
    ...members.map(({ member }) => ({
      action: "group.remove_member" as const,
      target: name,
      details: { member, because },
    })),
    ...grants,
    { action: "group.delete", target: name, details: {} },
  ]);
}

/** Makes sure of a member. @throws ServiceError NOT_FOUND for an unknown group. */
export async function addMember(
  tx: TransactionSql,
  by: Author,
  name: string,
  member: string,
): Promise<Created<GroupMemberRow>> {
  await lockGroup(tx, name);
  await assertGroup(tx, name);
  const [known] = await tx<GroupMemberRow[]>`
    select member, created_at, created_by from group_members
    where group_name = ${name} and lower(member collate "C") = ${member}`;
  if (known !== undefined) {
    return { row: known, created: false };
  }
  const [row] = await tx<GroupMemberRow[]>`
    insert into group_members (group_name, member, created_by)
    values (${name}, ${member}, ${by.caller.name})
    returning member, created_at, created_by`;
  if (row === undefined) {
    throw new Error("insert of a member returned no row");
  }
  await appendAudit(tx, by, {
    action: "group.add_member",
    target: name,
    details: { member },
  });
  return { row, created: true };
}

/** Newest first. @throws ServiceError NOT_FOUND for an unknown group. */
export async function selectMembers(
  sql: SqlOrTransaction,
  name: string,
  page: Page,
): Promise<readonly GroupMemberRow[]> {
  const rows = await sql<GroupMemberRow[]>`
    select member, created_at, created_by from group_members where group_name = ${name}
    order by created_at desc, member limit ${page.limit} offset ${page.offset}`;
  if (rows.length === 0) {
    await assertGroup(sql, name);
  }
  return rows;
}

/** @throws ServiceError NOT_FOUND, or CONFLICT for the last member of `admins`. */
export async function removeMember(tx: TransactionSql, by: Author, name: string, member: string): Promise<void> {
  // Two removals of the last two members would otherwise each see the other's still there.
  await lockGroup(tx, name);
  const deleted = await tx`
    delete from group_members where group_name = ${name} and lower(member collate "C") = ${member}`;
  if (deleted.count === 0) {
    await assertGroup(tx, name);
    throw new ServiceError("NOT_FOUND", "no such member; list the members of the group to see them");
  }
  if (name === admins) {
    const [rest] = await tx<{ left: boolean }[]>`
      select exists (select from group_members where group_name = ${admins}) as left`;
    if (rest?.left !== true) {
      throw new ServiceError("CONFLICT", "the last member of admins cannot be removed; add another first");
    }
  }
  await appendAudit(tx, by, {
    action: "group.remove_member",
    target: name,
    details: { member },
  });
}

async function assertGroup(sql: SqlOrTransaction, name: string): Promise<void> {
  if (!(await groupExists(sql, name))) {
    throw noSuchGroup();
  }
}
