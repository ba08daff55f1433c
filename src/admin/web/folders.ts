/** Folders of screens: names, no more. Administrators change them. */
import type { Caller } from "../../auth/caller.js";
import { type SqlOrTransaction, sqlState, type TransactionSql } from "../../db/sql.js";
import { ServiceError } from "../../runtime/errors.js";
import type { Created } from "../grant-administration.js";
import type { Page } from "../../wire/web/operation.js";

/** A folder as the routes show it. */
interface FolderRow {
  readonly name: string;
  readonly created_at: Date;
  readonly created_by: string;
  /** How many it holds. */
  readonly screens: number;
}

const maxFolders = 10_000;
const foreignKeyViolation = "23503";
const uniqueViolation = "23505";

const columns = (sql: SqlOrTransaction) =>
  sql`name, created_at, created_by,
    (select count(*)::int from web.screens where folder = f.name) as screens`;

/** By name. */
export async function selectFolders(sql: SqlOrTransaction, page: Page): Promise<readonly FolderRow[]> {
  return await sql<FolderRow[]>`
    select ${columns(sql)} from web.folders f
    order by name collate "C" limit ${page.limit} offset ${page.offset}`;
}

/** Makes sure of a folder. @throws ServiceError CONFLICT when there are too many */
export async function createFolder(tx: TransactionSql, caller: Caller, name: string): Promise<Created<FolderRow>> {
  await tx`lock table web.folders in share row exclusive mode`;
  const [count] = await tx<{ n: number }[]>`select count(*)::int as n from web.folders`;
  if ((count?.n ?? 0) >= maxFolders) {
    throw new ServiceError("CONFLICT", `there are ${maxFolders} folders already; delete some first`);
  }
  const made = await tx`
    insert into web.folders (name, created_by) values (${name}, ${caller.name}) on conflict (name) do nothing`;
  return { row: await folderOf(tx, name), created: made.count === 1 };
}

/** @throws ServiceError NOT_FOUND, and CONFLICT for a name that is taken */
export async function renameFolder(tx: TransactionSql, name: string, newName: string): Promise<FolderRow> {
  try {
    const { count } = await tx.savepoint((sp) => sp`update web.folders set name = ${newName} where name = ${name}`);
    if (count === 0) {
      throw noSuchFolder();
    }
  } catch (error) {
    if (sqlState(error) === uniqueViolation) {
      throw new ServiceError("CONFLICT", "there is a folder of that name already", { cause: error });
    }
    throw error;
  }
  return await folderOf(tx, newName);
}

/** @throws ServiceError NOT_FOUND, and CONFLICT while it holds screens */
export async function deleteFolder(tx: TransactionSql, name: string): Promise<void> {
  try {
    const { count } = await tx.savepoint((sp) => sp`delete from web.folders where name = ${name}`);
    if (count === 0) {
      throw noSuchFolder();
    }
  } catch (error) {
    if (sqlState(error) === foreignKeyViolation) {
      throw new ServiceError("CONFLICT", "the folder holds screens; move or delete them first", { cause: error });
    }
    throw error;
  }
}

async function folderOf(tx: TransactionSql, name: string): Promise<FolderRow> {
  const [row] = await tx<FolderRow[]>`select ${columns(tx)} from web.folders f where name = ${name}`;
  if (row === undefined) {
    throw new ServiceError("CONFLICT", "the folder was just deleted");
  }
  return row;
}

const noSuchFolder = (): ServiceError => new ServiceError("NOT_FOUND", "there is no folder of that name");
