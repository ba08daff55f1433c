/** Storing a merged object with its roll-up. Nobody sees either before they are published. */
import { rmSync } from "node:fs";
import { dirname } from "node:path";

import { quoteText } from "../../runtime/text/sql-text.js";
import { isOutOfMemory } from "../engine-error.js";
import type { MergeEngine } from "../merge/merge-engine.js";
import type { ObjectStore, Written } from "../store/object-store.js";
import { settleObject } from "../store/settle-object.js";
import type { TableName } from "../tables/tables.js";
import type { ObjectAttributes } from "../tables/attributes.js";
import { sharedPairsSql } from "./calls.js";
import { callsRollupSql, type CountedTable, rollupLengthSql, rollupPathOf, rollupSql, timelessSql } from "./rollup.js";

/** A roll-up in the store. */
export interface Rollup extends Written {
  /** Relative to the store's root. */
  readonly path: string;
}

/** A merged object as a file that is not in the store yet. */
interface FinishedObject {
  readonly table: TableName;
  /** The file, absolute; it is gone afterwards, or stays. */
  readonly temporary: string;
  /** Where it goes, relative to the store's root. */
  readonly path: string;
  readonly rowCount: number;
  readonly level: 1 | 2 | 3;
  readonly attributes: ObjectAttributes;
}

/** Smaller objects are read as fast as another file is opened. */
const defaultRollupRows = 8192;
/** A roll-up has to be shorter than its object by this factor. */
const leastShrink = 4;
/** By how much an estimate of its length may be too long. */
const estimateSlack = 1.3;

/**
 * Stores an object, and what its rows add up to where that is worth a file.
 * @param rollupRows rows from which on an object gets a roll-up
 * @throws DuckDB's, the store's and the file system's errors; then neither is there
 */
export async function settleWithRollup(
  engine: MergeEngine,
  store: ObjectStore,
  finished: FinishedObject,
  rollupRows = defaultRollupRows,
): Promise<Written & { readonly rollup: Rollup | null }> {
  const { temporary, path, rowCount } = finished;
  const rolled = `${dirname(temporary)}/.${path.slice(path.lastIndexOf("/") + 1)}.rollup.tmp`;
  let rollup: Rollup | null = null;
  try {
    if (rowCount >= rollupRows && (await rollUp(engine, finished, rolled))) {
      const rollupPath = rollupPathOf(finished.table, path);
      rollup = { path: rollupPath, ...(await settleObject(store, rollupPath, rolled)) };
    }
    return { ...(await settleObject(store, path, temporary)), rollup };
  } catch (error) {
    if (rollup !== null) {
      await Promise.allSettled([store.remove(rollup.path)]);
    }
    throw error;
  } finally {
    rmSync(rolled, { force: true });
  }
}

const read = (file: string): string => `read_parquet([${quoteText(file)}], hive_partitioning = false)`;
const copySql = (select: string, target: string, metadata = ""): string =>
  `COPY (${select}) TO ${quoteText(target)} (FORMAT parquet, PARQUET_VERSION V2, COMPRESSION zstd${metadata}, USE_TMP_FILE false)`;

/** @returns whether the roll-up is exact and worth its file */
async function rollUp(engine: MergeEngine, finished: FinishedObject, target: string): Promise<boolean> {
  const { table } = finished;
  try {
    return await (table === "spans"
      ? rollUpCalls(engine, finished, target)
      : rollUpCounts(engine, table, finished, target));
  } catch (error) {
    // Too many groups for the memory of a merge: nothing that a merge has to fail for.
    if (isOutOfMemory(error)) {
      return false;
    }
    throw error;
  }
}

async function rollUpCounts(
  engine: MergeEngine,
  table: CountedTable,
  { temporary, rowCount }: FinishedObject,
  target: string,
): Promise<boolean> {
  const [estimated] = await engine.rows(rollupLengthSql(table, read(temporary)));
  if (Number(estimated?.[0]) * leastShrink > rowCount * estimateSlack) {
    return false;
  }
  await engine.run(copySql(rollupSql(table, read(temporary)), target));
  const [counted] = await engine.rows(
    `SELECT coalesce(CAST(sum("count") AS BIGINT), 0), count(*) FROM ${read(target)}`,
  );
  const [rows, groups] = counted ?? [];
  return Number(rows) === rowCount && Number(groups) * leastShrink <= rowCount;
}

/** A join of all spans is dear, so those that are not merged again are joined. */
async function rollUpCalls(
  engine: MergeEngine,
  { temporary, rowCount, level, attributes }: FinishedObject,
  target: string,
): Promise<boolean> {
  if (level < 3) {
    return false;
  }
  const [cost] = await engine.rows(`SELECT (${timelessSql(read(temporary))}), (${sharedPairsSql(read(temporary))})`);
  const [timeless, pairs] = cost ?? [];
  if (Number(timeless) > 0 || Number(pairs) > rowCount) {
    return false;
  }
  const metadata = `, KV_METADATA {rows: '${rowCount}'}`;
  await engine.run(copySql(callsRollupSql(read(temporary), attributes), target, metadata));
  return true;
}

/** A SELECT of how many rows of its object the roll-up in a file stands for. */
export function rolledRowsSql(table: TableName, file: string): string {
  return table === "spans"
    ? `SELECT CAST(decode(value) AS BIGINT) FROM parquet_kv_metadata([${quoteText(file)}]) WHERE decode(key) = 'rows'`
    : `SELECT CAST(sum("count") AS BIGINT) FROM ${read(file)}`;
}
