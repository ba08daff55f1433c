/** What the store holds, as a check sees it. */
import { join } from "node:path";

import { ServiceError } from "../../runtime/errors.js";
import { quoteText } from "../../runtime/text/sql-text.js";
import { asRefused } from "../bad-objects.js";
import { bringObjects } from "../merge/local-objects.js";
import type { MergeEngine } from "../merge/merge-engine.js";
import { everyValueSql } from "../merge/merge-sql.js";
import { checksumOfFile } from "../store/checksum.js";
import type { ObjectStore } from "../store/object-store.js";
import type { TableName } from "../tables/tables.js";
import type { CheckContext } from "./check-lake.js";
import type { CheckedPartition } from "./lake-report.js";

/** An object of the store. */
export interface Listed {
  readonly bytes: number;
  readonly modifiedMs: number;
}

/** The objects of a table by path. */
export async function listTable(store: ObjectStore, viewSet: TableName): Promise<Map<string, Listed>> {
  const stored = new Map<string, Listed>();
  for await (const { path, bytes, modifiedMs } of store.list(viewSet)) {
    stored.set(path, { bytes, modifiedMs });
  }
  return stored;
}

/** Looks for an object that a list did not have. */
export async function findObject(
  store: ObjectStore,
  { path, fileBytes }: { readonly path: string; readonly fileBytes: number },
): Promise<Listed | null> {
  for await (const found of store.list(path.slice(0, path.lastIndexOf("/")))) {
    if (found.path === path) {
      return found;
    }
  }
  // A list may lag behind; what can be read is there.
  try {
    const first = { start: 0, length: 1 };
    const { signal } = new AbortController();
    await store.remote?.read(path, first, () => Promise.resolve(), signal);
    return store.remote === null ? null : { bytes: fileBytes, modifiedMs: 0 };
  } catch (error) {
    if (error instanceof ServiceError && error.code === "NOT_FOUND") {
      return null;
    }
    throw error;
  }
}

/** Whether an object that a list had has been removed since. @throws ServiceError of a store that cannot say at present */
export async function isGone(store: ObjectStore, path: string): Promise<boolean> {
  try {
    await store.size(path, new AbortController().signal);
    return false;
  } catch (error) {
    if (error instanceof ServiceError && error.retryable) {
      throw error;
    }
    // Stores list names that they do not take.
    return error instanceof ServiceError && error.code === "NOT_FOUND";
  }
}

/** The file of an object, or the one that it is brought to. */
export function fileOf({ store, root }: CheckContext, { path }: CheckedPartition): string {
  return store.localPath(path) ?? join(root, path);
}

/**
 * The checksum of an object's file.
 * @throws RefusedFile when it is the store's own, and is gone or cannot be read: that says nothing about the others. Else
 *   what the system says.
 */
export async function checksumOfObject({ store }: Pick<CheckContext, "store">, file: string): Promise<number> {
  try {
    return await checksumOfFile(file);
  } catch (error) {
    throw asRefused(store, error);
  }
}

/** In words, what a checksum says. */
export const otherBytes = "other bytes than were written";

/** What a check reads of an object. */
export interface Content {
  readonly rows: number;
  /** Null when it was not asked for, or there is none to compare. */
  readonly checksum: number | null;
}

/** Whether an object holds what was published. */
export function isAsPublished(partition: CheckedPartition, { rows, checksum }: Content): boolean {
  return rows === partition.rowCount && (checksum === null || checksum === partition.checksum);
}

/** Rows of objects by their footers, or with `deep` by every value, and the checksums of their bytes. */
export async function readContents<P extends CheckedPartition>(
  context: CheckContext,
  engine: MergeEngine,
  partitions: readonly P[],
  deep: boolean,
): Promise<ReadonlyMap<P, Content>> {
  const local = await bringObjects(context, partitions, deep ? "objects" : "footers");
  try {
    const list = local.files.map(({ file }) => quoteText(file)).join(", ");
    const rows = await engine.rows(
      deep
        ? everyValueSql(local.files)
        : `SELECT file_name, sum(num_rows)::BIGINT FROM parquet_file_metadata([${list}]) GROUP BY 1`,
    );
    const counts = new Map(rows.map(([file, count]) => [String(file), Number(count)]));
    const contents = new Map<P, Content>();
    for (const partition of partitions) {
      const file = fileOf(context, partition);
      const checksum = deep && partition.checksum !== null ? await checksumOfObject(context, file) : null;
      contents.set(partition, { rows: counts.get(file) ?? 0, checksum });
    }
    return contents;
  } finally {
    local.release();
  }
}
