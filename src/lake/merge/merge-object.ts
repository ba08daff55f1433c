/** Writing one merged object: sorted, with bloom filters, durable. Nobody sees it before it is published. */
import { randomUUID } from "node:crypto";
import { chmodSync, closeSync, fsyncSync, openSync, renameSync, rmSync, statSync } from "node:fs";
import { dirname, join } from "node:path";

import type { RowValue } from "../../engine/protocol.js";
import { isUuid } from "../../runtime/text/uuid.js";
import { fileMode, makeDirectory, syncDirectory } from "../store/file-store.js";
import type { MergeEngine } from "./merge-engine.js";
import {
  factsSql,
  mergedSortOrder,
  processesSql,
  type RowCondition,
  type SourceFile,
  unfilteredSql,
  writeFiltersSql,
  writeRowsSql,
} from "./merge-sql.js";
import type { ObjectStore } from "../store/object-store.js";
import { amendFooter } from "../parquet/footer.js";
import { mergedObjectPath, objectDirectory } from "../store/paths.js";
import type { ObjectAttributes } from "../tables/attributes.js";
import type { TableName } from "../tables/tables.js";

/** A merged object and what the catalogue says about it beside its sources' insert times. */
export interface MergedObject {
  readonly partitionId: string;
  /** Relative to the store's root. */
  readonly path: string;
  readonly fileBytes: number;
  readonly rowCount: number;
  /** Null when no row has a time. */
  readonly minTimeNs: bigint | null;
  readonly maxTimeNs: bigint | null;
  /** Null when they are too many to list, or not all of them UUIDs. */
  readonly processIds: readonly string[] | null;
  readonly attributes: ObjectAttributes;
}

/** What one object is made from. */
export interface ObjectOrder {
  readonly table: TableName;
  readonly audience: string | null;
  readonly level: 1 | 2 | 3;
  readonly sources: readonly SourceFile[];
  /** Which of their rows. */
  readonly condition: RowCondition;
  /** How many these are. */
  readonly rows: number;
  readonly attributes: ObjectAttributes;
}

/** A partition lists its processes up to this many. */
export const maxListedProcesses = 32;

/**
 * Writes an object below `root`, which is the store's directory or a temporary one, and stores it.
 * @throws RangeError when it does not hold as many rows as ordered; DuckDB's, the store's and the file system's errors.
 *   Then nothing remains.
 */
export async function writeMergedObject(
  engine: MergeEngine,
  store: ObjectStore,
  root: string,
  order: ObjectOrder,
): Promise<MergedObject> {
  const { table, audience, sources, condition, rows, attributes } = order;
  const partitionId = randomUUID();
  const directory = join(root, objectDirectory(table, audience));
  // Names that begin with a dot are unfinished writes.
  const temporary = join(directory, `.${partitionId}.merge.tmp`);
  const filters = join(directory, `.${partitionId}.filters.tmp`);
  try {
    await engine.run(writeRowsSql(table, sources, condition.sql, attributes, temporary), condition.values);
    const [facts] = await engine.rows(factsSql(temporary));
    const rowCount = Number(facts?.[0]);
    if (rowCount !== rows) {
      throw new RangeError(`a merged object holds ${rowCount} rows, not ${rows}`);
    }
    const minTimeNs = bigintOf(facts?.[1]);
    const processIds = await processesOf(engine, temporary);
    const others =
      attributes.columns.length === 0
        ? []
        : (await engine.rows(unfilteredSql(temporary))).map(([name]) => String(name));
    await engine.run(writeFiltersSql(table, others, temporary, filters));
    amendFooter(temporary, filters, mergedSortOrder);
    const timeMs = Number((minTimeNs ?? sources[0]?.minTimeNs ?? 0n) / 1_000_000n);
    const path = mergedObjectPath(table, audience, order.level, timeMs, partitionId);
    const fileBytes = await settleObject(store, path, temporary);
    return {
      partitionId,
      path,
      fileBytes,
      rowCount,
      minTimeNs,
      maxTimeNs: bigintOf(facts?.[2]),
      processIds,
      attributes,
    };
  } finally {
    rmSync(temporary, { force: true });
    rmSync(filters, { force: true });
  }
}

function bigintOf(value: RowValue | undefined): bigint | null {
  return typeof value === "string" ? BigInt(value) : null;
}

async function processesOf(engine: MergeEngine, file: string): Promise<string[] | null> {
  const ids = (await engine.rows(processesSql(file, maxListedProcesses))).map(([id]) => id);
  if (ids.length > maxListedProcesses) {
    return null;
  }
  const listed = ids.filter((id): id is string => typeof id === "string" && isUuid(id));
  return listed.length === ids.length ? listed.toSorted() : null;
}

/** Makes a finished file an object of the store, durably, and says how large it is. */
export async function settleObject(store: ObjectStore, path: string, temporary: string): Promise<number> {
  const file = store.localPath(path);
  if (file === null) {
    if (store.remote === null) {
      throw new TypeError("an object is neither a file nor behind a network");
    }
    return store.remote.putFile(path, temporary);
  }
  makeDirectory(dirname(file));
  chmodSync(temporary, fileMode);
  const descriptor = openSync(temporary, "r");
  try {
    fsyncSync(descriptor);
  } finally {
    closeSync(descriptor);
  }
  renameSync(temporary, file);
  syncDirectory(dirname(file));
  return statSync(file).size;
}
