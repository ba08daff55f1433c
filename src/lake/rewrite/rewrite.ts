/**
 * Rewriting: objects lose some of their rows. Each is replaced on its own, in one transaction, as merging publishes:
 * the partition leaves the catalogue, one with the other rows takes its place (none, when there are none), and whoever
 * counts what went counts it in the same transaction. So a crash leaves every object as it was or without the rows, and
 * a file that nothing names, which is removed like those of interrupted merges. Replaced objects stay for the grace
 * period, for queries that have them open.
 *
 * Merging joins objects to ones that are far larger than what can be sorted. Those are rewritten in parts.
 *
 * The lock of merging is held: nobody merges the table meanwhile. Who has lost it with its session cannot publish while
 * somebody else has it (merge-lock.ts); and a merge that has taken an object finds it gone, as this does when a merge was
 * first.
 */
import type { Sql } from "../../db/sql.js";
import { ServiceError } from "../../runtime/errors.js";
import { quoteText } from "../../runtime/text/sql-text.js";
import { isDiskFull } from "../cache/disk-cache.js";
import { engineError } from "../engine-error.js";
import { assertUnchanged, withObjects } from "../merge/local-objects.js";
import { type MergeContext, type MergePoint, withKnownColumns } from "../merge/merge.js";
import { attributesOf } from "../merge/merge-step.js";
import { engineHasEnded, type MergeEngine } from "../merge/merge-engine.js";
import { groupRowsOf, pathsOf, writeMergedObject } from "../merge/merge-object.js";
import type { MergeSource, StepLimits } from "../merge/merge-plan.js";
import { publishStored, replacePartitions } from "../merge/merge-publish.js";
import { type RowCondition, type SourceFile } from "../merge/merge-sql.js";
import { publishDeadline } from "../publish-deadline.js";
import type { TableName } from "../tables/tables.js";

/** Where a rewrite can be cut off, for tests. */
export type RewritePoint = "counted" | MergePoint;

/** What a rewrite works with. */
export interface RewriteContext extends MergeContext {
  /** Called at each point. */
  readonly at?: (point: RewritePoint) => Promise<void> | void;
}

/** An object to look through. */
export interface RewriteSource extends MergeSource {
  readonly level: number;
  readonly bucketSeconds: number | null;
  readonly sorted: boolean;
}

/** Rows to take out of some objects of one table and audience. */
export interface RewriteOrder {
  readonly viewSet: TableName;
  readonly audience: string | null;
  readonly sources: readonly RewriteSource[];
  /** The rows that go; rows of which it is neither true nor false stay. */
  readonly condition: RowCondition;
  /** See `Replacement` in merge-publish.ts. */
  readonly receivedSince?: number;
  /** What begins the transaction of each replacement. */
  readonly before?: (connection: Sql) => Promise<void>;
  /** What belongs into the transaction of each replacement. */
  readonly also?: (connection: Sql, replaced: Replaced) => Promise<void>;
}

/** What became of one object. */
interface Replaced {
  readonly rowsRemoved: number;
  /** False: no row was left, and no object. */
  readonly rewritten: boolean;
}

/**
 * Rewrites, through `connection`, which holds the lock of the table.
 * @returns partitions that were gone when their turn came
 * @throws BadObjects; ServiceError CANCELLED; CONFLICT for an object that a newer version wrote; DuckDB's and the database's errors
 */
export async function rewriteObjects(
  context: RewriteContext,
  connection: Sql,
  engine: MergeEngine,
  order: RewriteOrder,
): Promise<readonly string[]> {
  const gone: string[] = [];
  for (const step of broughtTogether(context, order.sources)) {
    const rewrite = (files: readonly RewriteFile[]) => rewriteFiles(context, connection, engine, order, files);
    gone.push(...(await withObjects(context, engine, step, rewrite)));
  }
  return gone;
}

type RewriteFile = RewriteSource & SourceFile;

/** Objects in steps: all at once where they are files, else as many as a step of a merge brings. */
function broughtTogether({ store, limits }: RewriteContext, sources: readonly RewriteSource[]): RewriteSource[][] {
  const most = store.remote === null ? Number.POSITIVE_INFINITY : limits.step.bytes;
  const steps: RewriteSource[][] = [];
  let bytes = 0;
  for (const source of sources) {
    bytes += source.fileBytes;
    if (steps.length === 0 || bytes > most) {
      steps.push([]);
      bytes = source.fileBytes;
    }
    steps.at(-1)?.push(source);
  }
  return steps;
}

async function rewriteFiles(
  context: RewriteContext,
  connection: Sql,
  engine: MergeEngine,
  order: RewriteOrder,
  files: readonly RewriteFile[],
): Promise<readonly string[]> {
  const counts = await countMatches(engine, files, order.condition);
  await assertUnchanged(
    context,
    files.filter(({ file }) => counts.has(file)),
  );
  await context.at?.("counted");
  const gone: string[] = [];
  for (const file of files) {
    const rows = counts.get(file.file) ?? 0;
    if (context.cancelled()) {
      throw new ServiceError("CANCELLED");
    }
    await context.share?.rest(context.cancelled);
    if (rows > 0 && !(await rewriteObject(context, connection, engine, order, file, rows))) {
      gone.push(file.partitionId);
    }
  }
  return gone;
}

async function countMatches(
  engine: MergeEngine,
  files: readonly RewriteFile[],
  { sql, values }: RowCondition,
): Promise<ReadonlyMap<string, number>> {
  const list = files.map(({ file }) => quoteText(file)).join(", ");
  const rows = await engine.rows(
    `SELECT filename, count(*) FROM read_parquet([${list}], filename = true, union_by_name = true,
      hive_partitioning = false) WHERE ${sql} GROUP BY 1`,
    values,
  );
  return new Map(rows.map(([file, count]) => [String(file), Number(count)]));
}

/** Few enough to be sorted however long they are. */
const leastPartRows = 2048;

/** Rows of a source that a step of a merge would sort, in whole row groups where they are short. */
function partRows({ rows, bytes }: StepLimits, { rowCount, fileBytes }: RewriteFile, groupRows: number): number {
  const most = Math.min(rows, Math.max(leastPartRows, Math.floor(rowCount * (bytes / fileBytes))));
  return most < groupRows ? most : most - (most % groupRows);
}

/** @returns false when the partition was gone */
async function rewriteObject(
  context: RewriteContext,
  connection: Sql,
  engine: MergeEngine,
  { viewSet, audience, condition, receivedSince, before, also }: RewriteOrder,
  source: RewriteFile,
  rowsRemoved: number,
): Promise<boolean> {
  const { store, root, limits, clock, cancelled, share, at } = context;
  const left = source.rowCount - rowsRemoved;
  const level = source.level === 1 || source.level === 2 || source.level === 3 ? source.level : 1;
  if ((await withKnownColumns(engine, viewSet, [source])).length === 0) {
    throw new ServiceError("CONFLICT", `A newer version wrote ${source.path}; maintenance has to be of that version.`);
  }
  const others = { sql: `coalesce(NOT (${condition.sql}), true)`, values: condition.values };
  const rows = { sources: [source], condition: others, rows: left };
  const attributes = await attributesOf(engine, [source]);
  const groupRows = groupRowsOf([source]);
  const sortable = partRows(limits.step, source, groupRows);
  let assertInTime = publishDeadline(clock);
  // Its file grows until then, for longer perhaps than it may wait afterwards.
  const ending = (): void => {
    assertInTime = publishDeadline(clock);
  };
  const rest = async (): Promise<void> => share?.rest(cancelled);
  const parts = source.level > 0 && source.rowCount > sortable ? { rows: sortable, cancelled, rest, ending } : null;
  const made = { attributes, groupRows, parts, rollupRows: limits.rollupRows };
  const order = { table: viewSet, audience, level, ...rows, ...made } as const;
  const objects = left === 0 ? [] : [await writeMergedObject(engine, store, root, order)];
  const done = await publishStored(
    store,
    () => pathsOf(objects),
    async (begin) => {
      await at?.("written");
      assertInTime();
      begin();
      return replacePartitions(connection, {
        viewSet,
        audience,
        level,
        widthSeconds: source.bucketSeconds,
        sources: [source],
        objects,
        sorted: parts === null || source.sorted,
        ...(receivedSince === undefined ? {} : { receivedSince }),
        scope: { viewSet },
        ...(before === undefined ? {} : { before }),
        also: async (transaction) => {
          await also?.(transaction, { rowsRemoved, rewritten: left > 0 });
          await at?.("replacing");
          // It may have waited for rows that others had locked.
          assertInTime();
        },
      });
    },
  );
  await at?.("replaced");
  return done;
}

/** Words an error of DuckDB's. */
export function rewriteError(error: unknown, cancelled: boolean): unknown {
  const worded = engineError(error, cancelled, "Rewriting an object needs more memory or disk than it may have.");
  if (!(worded instanceof ServiceError) || worded === error || worded.code !== "INTERNAL") {
    return worded;
  }
  // Somebody killed it, most likely: what is left to do can be done by another one.
  if (error instanceof Error && error.message === engineHasEnded) {
    return new ServiceError("UNAVAILABLE", "The process that rewrites objects has ended.", { cause: error });
  }
  if (isDiskFull(error) || (error instanceof Error && diskFull.test(error.message))) {
    const words = "There is no room left on the disk of the object store, or on that of TMPDIR; trying again later.";
    return new ServiceError("UNAVAILABLE", words, { cause: error });
  }
  return new ServiceError("INTERNAL", "Reading or writing objects failed; the log of maintenance says why.", {
    cause: error,
  });
}

/** The system's words, as DuckDB gives them. */
const diskFull = /No space left on device|Disk quota exceeded/u;
