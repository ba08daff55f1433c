/**
 * Merging: many partitions become few, each of one audience and one bucket of time, sorted, compressed
 * with ZSTD, with statistics per row group and bloom filters on `trace_id` and `process_id`.
 *
 * **Whole partitions go in, and all their rows come out.** The range of a merge says which partitions it
 * takes: those whose bounds meet it. It never says which rows: a partition that exceeds the range is
 * merged as a whole, and one that spans buckets is split among them. So the objects of a step hold
 * exactly the rows of its partitions. Both are counted: the partitions by bucket beforehand, and each
 * object after it was written. A difference fails the step. A bucket may have several objects, because
 * steps are bounded and because rows come late; nothing assumes that it has one.
 *
 * **Rows that fit no bucket.** Rows without a time go into the object of the step's first bucket; a
 * partition without any time meets no range and is merged only when it is named. When a step's rows are
 * in more than {@link MergeLimits.objects} buckets, those with the fewest rows share one object, whose
 * bounds in the catalogue say so; it is not merged again to the same width.
 *
 * **A step is a transaction** that takes its partitions out of the catalogue, hands their objects to the sweep
 * (retire.ts), which leaves them for queries under way, and puts the merged objects in. Another query sees either. If a
 * source partition is gone from the catalogue, the step changes nothing, removes its objects, and the call fails with
 * UNAVAILABLE. Earlier steps stay, and calling again continues from there.
 *
 * **One at a time.** A session holds an advisory lock of Postgres per table. It saves work; rows do not depend on it: a
 * process that has lost its session, and so the lock, finds its partitions gone when it publishes.
 *
 * **What a crash leaves** is objects that nothing names: maintenance, or the next merge of a range,
 * removes them once they are an hour old. A step that has taken half an hour no longer publishes.
 *
 * **Older and newer objects.** Columns that an object lacks are null (its lists too) in the merged one, which
 * has all columns of this version. Objects with columns that this version does not know stay as they are.
 *
 * **Attributes that occur often become columns**, made anew of the text of all attributes in each merge: those of the
 * sources are not read. Which ones is decided per step (attribute-choice.ts).
 */
import { isConnectionError, type Sql } from "../../db/sql.js";
import type { Clock } from "../../runtime/clock.js";
import { ServiceError } from "../../runtime/errors.js";
import type { AudienceFilter } from "../catalogue.js";
import { columnsOfTable } from "../tables/duckdb-types.js";
import { chooseAttributes, type KnownAttributes, maxCounts } from "./attribute-choice.js";
import { bringObjects } from "./local-objects.js";
import { type MergeEngine, type MergeEngineLimits, type MergeProcess, startMergeProcess } from "./merge-engine.js";
import { type MergedObject, writeMergedObject } from "./merge-object.js";
import { levelOfWidth, type MergeSource, slicesOf, type StepLimits, mergeStepsOf } from "./merge-plan.js";
import { arePublished, replacePartitions, selectMergeSources, tryLockMerge, unlockMerge } from "./merge-publish.js";
import { attributeCountsSql, bucketCountsSql, columnNamesSql, sliceCondition, type SourceFile } from "./merge-sql.js";
import type { ObjectStore } from "../store/object-store.js";
import { tableLayouts } from "../parquet/layout.js";
import { objectDirectory } from "../store/paths.js";
import { type SweepResult, sweepOrphans } from "../sweep.js";
import { attributeColumnPrefix, type ObjectAttributes } from "../tables/attributes.js";
import type { TableName } from "../tables/tables.js";

/** Bounds of a merge. */
export interface MergeLimits extends MergeEngineLimits {
  /** What one step takes. */
  readonly step: StepLimits;
  /** Objects that one step writes at most, at least 2. */
  readonly objects: number;
}

/** What a merge works with. */
export interface MergeContext {
  /** At least two connections: one holds the lock. */
  readonly sql: Sql;
  readonly store: ObjectStore;
  /** Absolute path of the store's directory; behind a network, of one for the files of merges alone. */
  readonly root: string;
  readonly limits: MergeLimits;
  readonly clock: Clock;
  /** Whether the caller has given up. */
  readonly cancelled: () => boolean;
}

/** What to merge: partitions by their times, or by name. Plain data; it crosses threads. */
export type MergeRequest = MergeOfRange | MergeOfList;

interface MergeTarget {
  readonly viewSet: TableName;
  /** Partitions of these audiences only. */
  readonly audiences: AudienceFilter;
  /** Width of the buckets, which count from 1970. */
  readonly widthSeconds: number;
}

/** Merges what has rows in a range. Times are nanoseconds since 1970 UTC. */
export interface MergeOfRange extends MergeTarget {
  readonly beginNs: bigint;
  /** Excluded. */
  readonly endNs: bigint;
  /** Also what is merged to that width, or a wider one, already. */
  readonly regenerate: boolean;
}

/** Merges these partitions, whatever they were merged to before; those without any time as well. */
export interface MergeOfList extends MergeTarget {
  readonly partitionIds: readonly string[];
}

/** A partition that a merge made or took. */
export interface MergedPartition {
  readonly action: "created" | "replaced";
  readonly partitionId: string;
  readonly path: string;
  readonly rowCount: number;
  readonly fileBytes: number;
}

const nsPerSecond = 1_000_000_000n;
const staleAfterMs = 3_600_000;
const maxStepMs = staleAfterMs / 2;
/** How often is asked whether the caller has given up. */
const watchEveryMs = 10;

/**
 * Merges, and says what it made of what.
 *
 * @throws {ServiceError} UNAVAILABLE (retryable) when the table is being merged by somebody else, when a
 *   partition was retired in between, when the database cannot be reached; CANCELLED; PAYLOAD_TOO_LARGE
 *   when memory and disk do not suffice; INTERNAL. Steps that were published before stay.
 */
export async function mergePartitions(context: MergeContext, request: MergeRequest): Promise<MergedPartition[]> {
  const { viewSet } = request;
  try {
    const connection = await context.sql.reserve();
    try {
      if (!(await tryLockMerge(connection, viewSet))) {
        throw new ServiceError(
          "UNAVAILABLE",
          `Partitions of ${viewSet} are being merged by another call; try again when it has ended.`,
          { retryAfterSeconds: 10 },
        );
      }
      try {
        return await mergeLocked(context, connection, request);
      } finally {
        await unlockMerge(connection, viewSet);
      }
    } finally {
      connection.release();
    }
  } catch (error) {
    if (!isConnectionError(error)) {
      throw error;
    }
    throw new ServiceError("UNAVAILABLE", "the database cannot be reached", { cause: error });
  }
}

async function mergeLocked(context: MergeContext, connection: Sql, request: MergeRequest): Promise<MergedPartition[]> {
  const found = await selectMergeSources(connection, request);
  const byAudience = new Map<string | null, MergeSource[]>();
  for (const source of found) {
    const group = byAudience.get(source.audience);
    if (group === undefined) {
      byAudience.set(source.audience, [source]);
    } else {
      group.push(source);
    }
  }
  if (byAudience.size === 0) {
    return [];
  }
  const merger = await startMergeProcess(context.limits);
  const watch = setInterval(() => {
    if (context.cancelled()) {
      merger.interrupt();
    }
  }, watchEveryMs);
  try {
    return await mergeAudiences(context, connection, request, byAudience, merger);
  } catch (error) {
    throw mergeError(error, context.cancelled());
  } finally {
    clearInterval(watch);
    await merger.close();
  }
}

async function mergeAudiences(
  context: MergeContext,
  connection: Sql,
  request: MergeRequest,
  byAudience: ReadonlyMap<string | null, readonly MergeSource[]>,
  merger: MergeProcess,
): Promise<MergedPartition[]> {
  const done: MergedPartition[] = [];
  for (const [audience, sources] of byAudience) {
    // Listing every object of the audience is too much for a few partitions; maintenance does it beside.
    if (!("partitionIds" in request)) {
      const prefix = objectDirectory(request.viewSet, audience);
      await removeMergeLeftovers(context.sql, context.store, context.clock.nowMs(), prefix);
    }
    done.push(...(await mergeAudience(context, connection, request, audience, sources, merger)));
  }
  return done;
}

/** Removes what interrupted merges have left below `prefix`; nothing but a merge writes such names. */
export async function removeMergeLeftovers(
  sql: Sql,
  store: ObjectStore,
  nowMs: number,
  prefix = "",
): Promise<SweepResult> {
  return sweepOrphans(sql, store, {
    nowMs,
    olderThanMs: staleAfterMs,
    prefix,
    only: (path) => /(?:\.l[123]\.parquet|\.(?:merge|filters)\.tmp)$/u.test(path),
  });
}

async function mergeAudience(
  context: MergeContext,
  connection: Sql,
  request: MergeRequest,
  audience: string | null,
  sources: readonly MergeSource[],
  merger: MergeProcess,
): Promise<MergedPartition[]> {
  const { root, limits } = context;
  const engine = merger.within(`${root}/${objectDirectory(request.viewSet, audience)}`);
  const known = await knownOf(context, engine, request.viewSet, sources);
  const done: MergedPartition[] = [];
  const steps = mergeStepsOf(known, limits.step).toReversed();
  for (let step = steps.pop(); step !== undefined; step = steps.pop()) {
    const local = await bringObjects(context, step);
    try {
      done.push(...(await mergeStep(context, connection, engine, request, audience, local.files)));
    } catch (error) {
      // What a row takes is an estimate. Half of the partitions take about half.
      if (!isOutOfMemory(error) || step.length === 1 || context.cancelled()) {
        throw error;
      }
      const half = step.length >> 1;
      steps.push(step.slice(half), step.slice(0, half));
    } finally {
      local.release();
    }
  }
  return done;
}

/** Leaves out the objects of versions that write columns which would be lost here; one of each version is looked at. */
async function knownOf(
  context: MergeContext,
  engine: MergeEngine,
  table: TableName,
  sources: readonly MergeSource[],
): Promise<readonly MergeSource[]> {
  const own = tableLayouts[table].schemaHash;
  const samples = new Map(sources.map((source) => [source.schemaHash, source]));
  samples.delete(own);
  if (samples.size === 0) {
    return sources;
  }
  const local = await bringObjects(context, [...samples.values()]);
  try {
    const known = await withKnownColumns(engine, table, local.files);
    const good = new Set([own, ...known.map(({ schemaHash }) => schemaHash)]);
    return sources.filter(({ schemaHash }) => good.has(schemaHash));
  } finally {
    local.release();
  }
}

/** Leaves out the objects of versions that write columns which would be lost here. */
export async function withKnownColumns(
  engine: MergeEngine,
  table: TableName,
  files: readonly SourceFile[],
): Promise<SourceFile[]> {
  const columns = new Set(columnsOfTable(table).map(([name]) => name));
  const good = new Map([[tableLayouts[table].schemaHash, true]]);
  for (const { schemaHash, file } of files) {
    if (good.has(schemaHash)) {
      continue;
    }
    const names = await engine.rows(columnNamesSql(file));
    good.set(
      schemaHash,
      names.every(
        ([name]) => typeof name === "string" && (columns.has(name) || name.startsWith(attributeColumnPrefix)),
      ),
    );
  }
  return files.filter(({ schemaHash }) => good.get(schemaHash) === true);
}

async function mergeStep(
  context: MergeContext,
  connection: Sql,
  engine: MergeEngine,
  request: MergeRequest,
  audience: string | null,
  sources: readonly SourceFile[],
): Promise<MergedPartition[]> {
  const { store, root, limits, clock } = context;
  const { viewSet, widthSeconds } = request;
  const startedMs = clock.monotonicMs();
  const widthNs = BigInt(widthSeconds) * nsPerSecond;
  const level = levelOfWidth(widthSeconds);
  const counted = await engine.rows(bucketCountsSql(viewSet, sources, widthNs));
  const counts = counted.map(([bucket, rows]) => ({
    bucket: typeof bucket === "string" ? BigInt(bucket) : null,
    rows: Number(rows),
  }));
  const attributes = await attributesOf(engine, sources);
  const objects: MergedObject[] = [];
  let published: "yes" | "no" | "unknown" = "no";
  try {
    for (const slice of slicesOf(counts, limits.objects)) {
      if (context.cancelled()) {
        throw new ServiceError("CANCELLED");
      }
      const condition = sliceCondition(slice, widthNs);
      const order = { table: viewSet, audience, level, sources, condition, rows: slice.rows, attributes };
      objects.push(await writeMergedObject(engine, store, root, order));
    }
    if (clock.monotonicMs() - startedMs > maxStepMs) {
      throw new ServiceError("UNAVAILABLE", "A step of the merge took too long; call again.");
    }
    const replacement = { viewSet, audience, level, widthSeconds, sources, objects };
    published = "unknown";
    published = (await publish(context, connection, replacement)) ? "yes" : "no";
    if (published === "no") {
      throw new ServiceError(
        "UNAVAILABLE",
        "Partitions were retired while they were being merged; nothing is lost, call again.",
        { retryAfterSeconds: 1 },
      );
    }
  } catch (error) {
    // What may be published must not be removed: the next merge finds out (see the head of this file).
    if (published === "no" || !isConnectionError(error)) {
      await Promise.allSettled(objects.map(({ path }) => store.remove(path)));
    }
    throw error;
  }
  return [
    ...objects.map((object) => partition("created", object)),
    ...sources.map((source) => partition("replaced", source)),
  ];
}

/** What objects made of these tell about attributes. Files that were never merged are counted. */
export async function attributesOf(engine: MergeEngine, files: readonly SourceFile[]): Promise<ObjectAttributes> {
  const known: KnownAttributes[] = [];
  const unknown: SourceFile[] = [];
  for (const file of files) {
    if (file.attributeColumns === null) {
      unknown.push(file);
    } else {
      known.push({ columns: file.attributeColumns, names: file.attributeNames, rowCount: file.rowCount });
    }
  }
  const counts = unknown.length === 0 ? [] : await engine.rows(attributeCountsSql(unknown, maxCounts));
  return chooseAttributes(
    counts.map(([name, rows]) => ({ name: String(name), rows: Number(rows) })),
    unknown.reduce((sum, { rowCount }) => sum + rowCount, 0),
    known,
  );
}

/** Replaces; when the connection breaks, asks on another one what became of it. */
async function publish(
  { sql }: MergeContext,
  connection: Sql,
  replacement: Parameters<typeof replacePartitions>[1],
): Promise<boolean> {
  try {
    return await replacePartitions(connection, replacement);
  } catch (error) {
    // Without the session the step is either committed by now or will never be, once the server has
    // noticed; only the first can be told from here.
    if (isConnectionError(error) && (await arePublished(sql, replacement.objects))) {
      return true;
    }
    throw error;
  }
}

function partition(
  action: MergedPartition["action"],
  { partitionId, path, rowCount, fileBytes }: MergeSource | MergedObject,
): MergedPartition {
  return { action, partitionId, path, rowCount, fileBytes };
}

function isOutOfMemory(error: unknown): boolean {
  return error instanceof Error && /^Out of Memory Error:/iu.test(error.message);
}

/** DuckDB's errors are about our own SQL, files and limits; none of their words are for callers. */
function mergeError(error: unknown, cancelled: boolean): unknown {
  if (error instanceof ServiceError || isConnectionError(error)) {
    return error;
  }
  if (cancelled) {
    return new ServiceError("CANCELLED", undefined, { cause: error });
  }
  if (isOutOfMemory(error)) {
    return new ServiceError(
      "PAYLOAD_TOO_LARGE",
      "The merge needs more memory or temporary disk space than it may have.",
      { cause: error },
    );
  }
  return new ServiceError("INTERNAL", undefined, { cause: error });
}
