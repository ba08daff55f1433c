/**
 * Screens: saved pages of the web application. Everybody reads them; the owner, who made it, and administrators change
 * one. A change names the version that it was made from, and is refused when that is not the present one any more. So a
 * screen that is made again after it was deleted takes up the numbers of the one before: that may still be open.
 */

import type { Caller } from "../../auth/caller.js";
import type { SqlOrTransaction, TransactionSql } from "../../db/sql.js";
import { ServiceError } from "../../runtime/errors.js";
import type { Page } from "../../wire/web/operation.js";
import { isAdministrator } from "../administrators.js";
import { lockCaller, lockScreen } from "../locks.js";

/** A screen without what it shows. */
interface ScreenRow {
  readonly name: string;
  readonly folder: string | null;
  readonly version: number;
  readonly owner: string;
  readonly created_at: Date;
  readonly updated_at: Date;
  readonly updated_by: string;
}

/** A screen. */
interface Screen extends ScreenRow {
  readonly config: unknown;
}

/** A version of a screen without what it showed. */
interface ScreenVersionRow {
  readonly version: number;
  readonly folder: string | null;
  readonly saved_at: Date;
  readonly saved_by: string;
}

/** What a change of a screen came to. */
export type ScreenChange =
  | { readonly kind: "saved"; readonly screen: Screen; readonly created: boolean }
  | { readonly kind: "deleted" }
  /** Somebody else was faster; null: the screen is gone, or was never there. */
  | { readonly kind: "conflict"; readonly current: Screen | null };

/** Versions of a screen that are kept, and how much they may take beside the present one, in bytes as stored. */
const keptVersions = 100;
const keptBytes = 4 << 20;
/** Screens whose last version is known after they were deleted. */
const keptDeleted = 10_000;
/** Most screens of one owner who is no administrator. */
const maxScreensOfOwner = 200;

const rowColumns = (sql: SqlOrTransaction) => sql`name, folder, version, owner, created_at, updated_at, updated_by`;

const noSuchScreen = (): ServiceError => new ServiceError("NOT_FOUND", "there is no screen of that name");

/** By name. @param folder null: of all */
export async function selectScreens(
  sql: SqlOrTransaction,
  folder: string | null,
  page: Page,
): Promise<readonly ScreenRow[]> {
  return await sql<ScreenRow[]>`
    select ${rowColumns(sql)} from web.screens
    where ${folder}::text is null or folder = ${folder}
    order by name collate "C" limit ${page.limit} offset ${page.offset}`;
}

/** Null when there is none. */
async function findScreen(sql: SqlOrTransaction, name: string): Promise<Screen | null> {
  const [row] = await sql<Screen[]>`select ${rowColumns(sql)}, config from web.screens where name = ${name}`;
  return row ?? null;
}

/** @throws ServiceError NOT_FOUND */
export async function selectScreen(sql: SqlOrTransaction, name: string): Promise<Screen> {
  const screen = await findScreen(sql, name);
  if (screen === null) {
    throw noSuchScreen();
  }
  return screen;
}

/**
 * Saves a screen.
 * @param o.version the version that was changed; 0: a new screen
 * @param o.config text of a JSON object
 * @throws ServiceError FORBIDDEN for what is another's, NOT_FOUND for an unknown folder
 */
export async function saveScreen(
  tx: TransactionSql,
  caller: Caller,
  o: { readonly name: string; readonly folder: string | null; readonly config: string; readonly version: number },
): Promise<ScreenChange> {
  const { name, folder, config } = o;
  await lockScreen(tx, name);
  const current = await findScreen(tx, name);
  if (current !== null) {
    await assertMayChange(tx, caller, current);
  }
  if ((current?.version ?? 0) !== o.version) {
    return { kind: "conflict", current };
  }
  if (folder !== null) {
    const [known] = await tx`select from web.folders where name = ${folder} for key share`;
    if (known === undefined) {
      throw new ServiceError("NOT_FOUND", "there is no folder of that name; an administrator can make it");
    }
  }
  const version = (current === null ? await takeDeletedVersion(tx, name) : o.version) + 1;
  if (current === null) {
    await assertBelowBound(tx, caller);
    await tx`
      insert into web.screens (name, folder, config, version, owner, created_at, updated_at, updated_by)
      values (${name}, ${folder}, ${config}::text::json, ${version}, ${caller.name}, now(), now(), ${caller.name})`;
  } else {
    await tx`
      update web.screens set folder = ${folder}, config = ${config}::text::json, version = ${version},
        updated_at = now(), updated_by = ${caller.name}
      where name = ${name}`;
  }
  await tx`
    insert into web.screen_versions (name, version, folder, config, saved_at, saved_by)
    values (${name}, ${version}, ${folder}, ${config}::text::json, now(), ${caller.name})`;
  await tx`
    delete from web.screen_versions where name = ${name} and version < ${version} and version <= (
      select max(version) from (
        select version, row_number() over newest as place, sum(pg_column_size(config)) over newest as bytes
        from web.screen_versions where name = ${name} window newest as (order by version desc)
      ) kept where place > ${keptVersions} or bytes > ${keptBytes})`;
  return { kind: "saved", screen: await selectScreen(tx, name), created: current === null };
}

/** @param version null: whichever. @throws ServiceError NOT_FOUND, FORBIDDEN */
export async function deleteScreen(
  tx: TransactionSql,
  caller: Caller,
  name: string,
  version: number | null,
): Promise<ScreenChange> {
  await lockScreen(tx, name);
  const current = await selectScreen(tx, name);
  await assertMayChange(tx, caller, current);
  if (version !== null && current.version !== version) {
    return { kind: "conflict", current };
  }
  await tx`delete from web.screens where name = ${name}`;
  await tx`
    insert into web.deleted_screens (name, version) values (${name}, ${current.version})
    on conflict (name) do update set version = excluded.version, deleted_at = excluded.deleted_at`;
  await tx`
    delete from web.deleted_screens where deleted_at < (
      select deleted_at from web.deleted_screens order by deleted_at desc offset ${keptDeleted - 1} limit 1)`;
  return { kind: "deleted" };
}

/** The last version of the screen of that name that was deleted; 0 when there was none. */
async function takeDeletedVersion(tx: TransactionSql, name: string): Promise<number> {
  const [row] = await tx<{ version: number }[]>`
    delete from web.deleted_screens where name = ${name} returning version`;
  return row?.version ?? 0;
}

/** Newest first. @throws ServiceError NOT_FOUND */
export async function selectScreenVersions(
  sql: SqlOrTransaction,
  name: string,
  page: Page,
): Promise<readonly ScreenVersionRow[]> {
  const rows = await sql<ScreenVersionRow[]>`
    select version, folder, saved_at, saved_by from web.screen_versions where name = ${name}
    order by version desc limit ${page.limit} offset ${page.offset}`;
  if (rows.length === 0) {
    await selectScreen(sql, name);
  }
  return rows;
}

/** @throws ServiceError NOT_FOUND */
export async function selectScreenVersion(
  sql: SqlOrTransaction,
  name: string,
  version: number,
): Promise<ScreenVersionRow & { readonly config: unknown }> {
  const [row] = await sql<(ScreenVersionRow & { config: unknown })[]>`
    select version, folder, saved_at, saved_by, config from web.screen_versions
    where name = ${name} and version = ${version}`;
  if (row === undefined) {
    throw new ServiceError("NOT_FOUND", "there is no such version; the last hundred are kept, fewer of large ones");
  }
  return row;
}

async function assertMayChange(tx: TransactionSql, caller: Caller, { owner }: ScreenRow): Promise<void> {
  if (owner !== caller.name && !(await isAdministrator(tx, caller))) {
    throw new ServiceError(
      "FORBIDDEN",
      `only its owner ${owner} and administrators change this screen; save it under another name`,
    );
  }
}

async function assertBelowBound(tx: TransactionSql, caller: Caller): Promise<void> {
  await lockCaller(tx, caller.name);
  const [row] = await tx<{ count: number }[]>`
    select count(*)::int as count from web.screens where owner = ${caller.name}`;
  if ((row?.count ?? 0) >= maxScreensOfOwner && !(await isAdministrator(tx, caller))) {
    throw new ServiceError("FORBIDDEN", `you have ${maxScreensOfOwner} screens already; delete some first`);
  }
}
