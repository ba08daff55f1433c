/** Maps by file name. The files are objects of the store; an object is never changed, a new one takes its place. */
import type { SqlOrTransaction, TransactionSql } from "../../db/sql.js";
import { ServiceError } from "../../runtime/errors.js";
import { appendAudit, type Author } from "../../auth/audit.js";
import type { Page } from "../../wire/web/operation.js";

/** A map as the routes show it. */
interface MapRow {
  readonly file: string;
  readonly bytes: number;
  readonly updated_at: Date;
  readonly updated_by: string;
}

/** Where the file of a map is. */
export interface StoredMap {
  /** In the object store. */
  readonly path: string;
  readonly bytes: number;
}

/** A map that was saved, and the object that it took the place of. */
export interface SavedMap {
  readonly row: MapRow;
  readonly replaced: string | null;
}

const maxMaps = 1000;

/** By name. */
export async function selectMaps(sql: SqlOrTransaction, page: Page): Promise<readonly MapRow[]> {
  return await sql<MapRow[]>`
    select file, bytes::float8 as bytes, updated_at, updated_by from web.maps
    order by file collate "C" limit ${page.limit} offset ${page.offset}`;
}

/** @throws ServiceError NOT_FOUND */
export async function selectMap(sql: SqlOrTransaction, file: string): Promise<StoredMap> {
  const [row] = await sql<StoredMap[]>`select path, bytes::float8 as bytes from web.maps where file = ${file}`;
  if (row === undefined) {
    throw noSuchMap();
  }
  return row;
}

/** Publishes an object as a map. @throws ServiceError CONFLICT when there are too many */
export async function saveMap(
  tx: TransactionSql,
  by: Author,
  { file, path, bytes }: StoredMap & { readonly file: string },
): Promise<SavedMap> {
  await tx`lock table web.maps in share row exclusive mode`;
  const [known] = await tx<{ path: string }[]>`select path from web.maps where file = ${file}`;
  const [count] = await tx<{ n: number }[]>`select count(*)::int as n from web.maps`;
  if (known === undefined && (count?.n ?? 0) >= maxMaps) {
    throw new ServiceError("CONFLICT", `there are ${maxMaps} maps already; delete some first`);
  }
  const [row] = await tx<MapRow[]>`
    insert into web.maps (file, path, bytes, updated_by) values (${file}, ${path}, ${bytes}, ${by.caller.name})
    on conflict (file) do update
      set path = excluded.path, bytes = excluded.bytes, updated_at = now(), updated_by = excluded.updated_by
    returning file, bytes::float8 as bytes, updated_at, updated_by`;
  if (row === undefined) {
    throw new Error("a map was not saved");
  }
  await appendAudit(tx, by, { action: "map.save", target: file, details: { bytes: String(bytes) } });
  return { row, replaced: known?.path ?? null };
}

/** @returns the path of its object. @throws ServiceError NOT_FOUND */
export async function deleteMap(tx: TransactionSql, by: Author, file: string): Promise<string> {
  const [row] = await tx<{ path: string }[]>`delete from web.maps where file = ${file} returning path`;
  if (row === undefined) {
    throw noSuchMap();
  }
  await appendAudit(tx, by, { action: "map.delete", target: file, details: {} });
  return row.path;
}

const noSuchMap = (): ServiceError => new ServiceError("NOT_FOUND", "there is no map of that name");
