/** Writing one merged object: sorted, with bloom filters, durable. Nobody sees it before it is published. */
import { randomUUID } from "node:crypto";
import { rmSync } from "node:fs";
import { join } from "node:path";

import type { RowValue } from "../../engine/protocol.js";
import { isUuid } from "../../runtime/text/uuid.js";
import { type Rollup, settleWithRollup } from "../rollup/write-rollup.js";
import type { MergeEngine } from "./merge-engine.js";
import {
  betweenTimes,
  cutsSql,
  factsSql,
  isRepeated,
  mergedSortOrder,
  processesSql,
  repeatedColumns,
  type RepeatedTexts,
  type RowCondition,
  rowsFrom,
  type SourceFile,
  textsSql,
  unfilteredSql,
  writeFiltersSql,
  writeRowsSql,
} from "./merge-sql.js";
import { groupRowsFor, rowGroupBytes, vectorRows } from "./merge-plan.js";
import type { ObjectStore, Written } from "../store/object-store.js";
import { amendFooter, footerOf } from "../parquet/footer.js";
import { groupSizes } from "../parquet/row-groups.js";
import { type JoinableFile, joinFiles, readJoinable } from "../parquet/join-files.js";
import { mergedObjectPath, objectDirectory } from "../store/paths.js";
import type { ObjectAttributes } from "../tables/attributes.js";
import type { TableName } from "../tables/tables.js";

/** A merged object and what the catalogue says about it beside its sources' insert times. */
export interface MergedObject extends Written {
  readonly partitionId: string;
  /** Relative to the store's root. */
  readonly path: string;
  readonly rowCount: number;
  /** Null when no row has a time. */
  readonly minTimeNs: bigint | null;
  readonly maxTimeNs: bigint | null;
  /** Null when they are too many to list, or not all of them UUIDs. */
  readonly processIds: readonly string[] | null;
  readonly attributes: ObjectAttributes;
  /** Null when there is none. */
  readonly rollup: Rollup | null;
}

/** The paths that objects take in the store. */
export function pathsOf(objects: readonly Pick<MergedObject, "path" | "rollup">[]): string[] {
  return objects.flatMap(({ path, rollup }) => (rollup === null ? [path] : [path, rollup.path]));
}

/** Parts that an object is written in. */
interface ObjectParts {
  readonly rows: number;
  readonly cancelled: () => boolean;
  /** Waited for before each. */
  readonly rest: () => Promise<void>;
  /** Called before the end of the file is written, which is then looked through and stored. */
  readonly ending: () => void;
}

/** What one object is made from. */
interface ObjectOrder {
  readonly table: TableName;
  readonly audience: string | null;
  readonly level: 1 | 2 | 3;
  readonly sources: readonly SourceFile[];
  /** Which of their rows. */
  readonly condition: RowCondition;
  /** How many these are. */
  readonly rows: number;
  readonly attributes: ObjectAttributes;
  /** Rows of one row group. */
  readonly groupRows: number;
  /** Of columns whose texts are all known. */
  readonly texts?: RepeatedTexts;
  /**
   * Of one source whose rows are sorted, or need not be: so many of them are sorted at a time, each part where it was.
   * Default: all are sorted.
   */
  readonly parts?: ObjectParts | null;
  /** Rows from which on an object gets a roll-up; default as `settleWithRollup` says. */
  readonly rollupRows?: number | undefined;
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
  const { table, audience, sources, rows, attributes } = order;
  const partitionId = randomUUID();
  const directory = join(root, objectDirectory(table, audience));
  // Names that begin with a dot are unfinished writes.
  const temporary = join(directory, `.${partitionId}.merge.tmp`);
  try {
    await writeRows(engine, order, temporary);
    const [facts] = await engine.rows(factsSql(temporary));
    const rowCount = Number(facts?.[0]);
    if (rowCount !== rows) {
      throw new RangeError(`a merged object holds ${rowCount} rows, not ${rows}`);
    }
    const minTimeNs = bigintOf(facts?.[1]);
    const processIds = await processesOf(engine, temporary);
    const timeMs = Number((minTimeNs ?? sources[0]?.minTimeNs ?? 0n) / 1_000_000n);
    const path = mergedObjectPath(table, audience, order.level, timeMs, partitionId);
    const finished = { table, temporary, path, rowCount, level: order.level, attributes };
    return {
      ...(await settleWithRollup(engine, store, finished, order.rollupRows)),
      partitionId,
      path,
      rowCount,
      minTimeNs,
      maxTimeNs: bigintOf(facts?.[2]),
      processIds,
      attributes,
    };
  } finally {
    rmSync(temporary, { force: true });
  }
}

/** Writes the rows of an object to a file: sorted, or in parts that are, one behind the other. */
async function writeRows(engine: MergeEngine, order: ObjectOrder, target: string): Promise<void> {
  const { parts = null, groupRows, attributes } = order;
  if (parts === null && groupRows >= vectorRows) {
    await writeSorted(engine, order, order.condition, target);
  } else {
    const files = sortedParts(engine, order, `${target}.part`);
    await joinFiles(files, target, { attributes: JSON.stringify(attributes) }, parts?.cancelled);
  }
}

/** The parts of an object, each in the file of the last: all of them would take as much of the disk as the object. */
async function* sortedParts(engine: MergeEngine, order: ObjectOrder, file: string): AsyncGenerator<JoinableFile> {
  const { sources, condition, parts = null } = order;
  const rows = sources.reduce((sum, { rowCount }) => sum + rowCount, 0);
  const partRows = parts?.rows ?? rows;
  for (let from = 0; from < rows; from += partRows) {
    const some = parts === null ? condition : rowsFrom(condition, from, partRows);
    for (const part of await cutByTime(engine, order, some)) {
      await parts?.rest();
      try {
        await writeSorted(engine, order, part, file);
        const written = await readJoinable(file);
        // Another part might be of another form than one without rows.
        if (written.rows > 0) {
          yield written;
        }
      } finally {
        rmSync(file, { force: true });
      }
    }
  }
  parts?.ending();
}

/** Rows in parts that fit into a row group each, where DuckDB would write larger ones. */
async function cutByTime(
  engine: MergeEngine,
  { table, sources, groupRows }: ObjectOrder,
  rows: RowCondition,
): Promise<RowCondition[]> {
  if (groupRows >= vectorRows) {
    return [rows];
  }
  const cuts = await engine.rows(cutsSql(table, sources, rows.sql, rowGroupBytes), rows.values);
  return betweenTimes(
    rows,
    cuts.flatMap(([time]) => bigintOf(time) ?? []),
  );
}

async function writeSorted(
  engine: MergeEngine,
  { table, sources, attributes, groupRows, texts = new Map() }: ObjectOrder,
  condition: RowCondition,
  target: string,
): Promise<void> {
  const filters = `${target}.filters`;
  try {
    const write = writeRowsSql(table, sources, condition.sql, attributes, texts, groupRows, target);
    await engine.run(write, condition.values);
    const others =
      attributes.columns.length === 0 ? [] : (await engine.rows(unfilteredSql(target))).map(([name]) => String(name));
    await engine.run(writeFiltersSql(table, others, groupRows, target, filters));
    amendFooter(target, filters, mergedSortOrder);
  } finally {
    rmSync(filters, { force: true });
  }
}

/** Rows of a row group in what is made of these. */
export function groupRowsOf(sources: readonly SourceFile[]): number {
  // DuckDB would not tell sizes of groups whose bounds it cannot word, such as times beyond its own.
  return groupRowsFor(sources.flatMap(({ file }) => groupSizes(footerOf(file))));
}

/** Most combinations of texts that are listed, most bytes of these, and most characters without what repeats. */
const maxTexts = { rows: 1024, bytes: 4 << 20 };
const maxTextLength = 1 << 20;
/** Each row group holds all texts that are listed. */
const rowsPerText = 64;
/** Looking for texts costs 0.7 ms a source. It saves 1 to 2 us a row, and memory, which many rows need. */
const rowsPerSource = 64;

/** Texts that repeat in some sources, for objects of enough rows. */
interface ListedTexts {
  /** Those of an object with so many rows. */
  forRows(rows: number): RepeatedTexts;
}

/** Lists the texts that repeat: none where they are too many, or sources so small that looking costs more than it saves. */
export async function listTexts(
  engine: MergeEngine,
  table: TableName,
  sources: readonly SourceFile[],
): Promise<ListedTexts> {
  if (sources.reduce((sum, { rowCount }) => sum + rowCount, 0) < sources.length * rowsPerSource) {
    return { forRows: () => new Map() };
  }
  const columns = repeatedColumns(table);
  const rows = await engine.rows(textsSql(table, sources, columns, maxTexts));
  const bytes = Number(rows[0]?.[columns.length] ?? 0);
  const listed = new Map<string, readonly string[]>();
  let length = 0;
  for (const [index, name] of columns.entries()) {
    const texts = new Set(rows.flatMap((row) => row[index] ?? []).map(String));
    length += [...texts].reduce((sum, text) => sum + text.length, 0);
    if (isRepeated(name, [...texts])) {
      listed.set(name, [...texts]);
    }
  }
  const few = rows.length <= maxTexts.rows && bytes <= maxTexts.bytes && length <= maxTextLength;
  return { forRows: (count) => (few && rows.length * rowsPerText <= count ? listed : new Map()) };
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
