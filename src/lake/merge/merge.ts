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
 * **One at a time** in each table and audience, by advisory locks of Postgres (merge-lock.ts).
 *
 * **What a crash leaves** is objects that nothing names: maintenance removes them once they are an hour old, where the
 * store is its database's own. A step that has taken half an hour no longer publishes.
 *
 * **Older and newer objects.** Columns that an object lacks are null (its lists too) in the merged one, which
 * has all columns of this version. Objects with columns that this version does not know stay as they are.
 *
 * **Missing and damaged objects** stay as they are, too, and the merge says which; the others are merged without them.
 * Those that an earlier version wrote wrong are mended first (../rewrite/mend-object.ts).
 *
 * **Attributes that occur often become columns**, made anew of the text of all attributes in each merge: those of the
 * sources are not read. Which ones is decided per step (attribute-choice.ts).
 */
import type { AudienceFilter } from "../../db/audience-filter.js";
import { reaching, type Sql } from "../../db/sql.js";
import type { Clock } from "../../runtime/clock.js";
import { ServiceError } from "../../runtime/errors.js";
import { BadObjects, isOutage } from "../bad-objects.js";
import { engineError, isOutOfMemory } from "../engine-error.js";
import { columnsOfTable } from "../tables/duckdb-types.js";
import type { CpuShare } from "./cpu-share.js";
import { withObjects } from "./local-objects.js";
import {
  type MergeEngine,
  type MergeEngineLimits,
  type MergeEngines,
  type MergeProcess,
  withMergeProcess,
} from "./merge-engine.js";
import { areJoined } from "./merge-levels.js";
import { type MergeScope, tryLockMerge, unlockMerge } from "./merge-lock.js";
import { type MergeSource, mergeStepsOf, type StepLimits } from "./merge-plan.js";
import { publish, selectMergeSources } from "./merge-publish.js";
import { columnNamesSql, type SourceFile } from "./merge-sql.js";
import { joinSources, mergeStep, partition, type StepContext } from "./merge-step.js";
import { mendedBytes, putMended, replaceObject } from "../rewrite/mend-object.js";
import type { ObjectStore } from "../store/object-store.js";
import { tableLayouts } from "../parquet/layout.js";
import { objectDirectory } from "../store/paths.js";
import { attributeColumnPrefix } from "../tables/attributes.js";
import type { TableName } from "../tables/tables.js";

/** Bounds of a merge. */
export interface MergeLimits extends MergeEngineLimits {
  /** What one step takes. */
  readonly step: StepLimits;
  /** Objects that one step writes at most, at least 2. */
  readonly objects: number;
  /** Rows from which on an object gets a roll-up; default as `settleWithRollup` says. */
  readonly rollupRows?: number;
}

/** Where a merge can be cut off, for tests: an object is written, its step is not committed yet, and is. */
export type MergePoint = "written" | "replacing" | "replaced";

/** What a merge works with. */
export interface MergeContext {
  /** At least two connections: one holds the lock. */
  readonly sql: Sql;
  /** What engines may use of the CPUs; absent: as much as they like. */
  readonly share?: CpuShare;
  readonly store: ObjectStore;
  /** Absolute path of the store's directory; behind a network, of one for the files of merges alone. */
  readonly root: string;
  readonly limits: MergeLimits;
  /** Whose engine process is used; absent: each merge starts its own. */
  readonly engines?: MergeEngines;
  readonly clock: Clock;
  /** Whether the caller has given up. */
  readonly cancelled: () => boolean;
}

/** A merge that tells where it is. */
export interface WatchedMergeContext extends MergeContext {
  /** Called at each point. */
  readonly at?: (point: MergePoint) => Promise<void> | void;
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
interface MergeOfRange extends MergeTarget {
  readonly beginNs: bigint;
  /** Excluded. */
  readonly endNs: bigint;
  /** Also what is merged to that width, or a wider one, already. */
  readonly regenerate: boolean;
}

/** Merges these partitions, whatever they were merged to before; those without any time as well. */
export interface MergeOfList extends MergeTarget {
  readonly partitionIds: readonly string[];
  /** Of what it makes; above 1, sorted objects of a fair size are joined. */
  readonly level: 1 | 2 | 3;
}

/** A partition that a merge made or took, or left as it is because its object is missing or damaged. */
export interface MergedPartition {
  readonly action: "created" | "replaced" | "unreadable";
  readonly partitionId: string;
  readonly path: string;
  readonly rowCount: number;
  readonly fileBytes: number;
}

/**
 * Merges, and says what it made of what.
 *
 * @throws {ServiceError} UNAVAILABLE (retryable) when the table is being merged by somebody else, when a
 *   partition was retired in between, when the database cannot be reached; CANCELLED; PAYLOAD_TOO_LARGE
 *   when memory and disk do not suffice; INTERNAL. Steps that were published before stay. A list of partitions of one
 *   audience: CONFLICT when somebody else merges that audience, or has merged some of them.
 */
export async function mergePartitions(context: WatchedMergeContext, request: MergeRequest): Promise<MergedPartition[]> {
  const { viewSet } = request;
  const scope = scopeOf(request);
  await context.share?.rest(context.cancelled);
  return reaching(async () => {
    const connection = await context.sql.reserve();
    try {
      if (!(await tryLockMerge(connection, scope))) {
        if (scope.audience !== undefined) {
          throw new ServiceError("CONFLICT", `Another process merges these partitions of ${viewSet}.`);
        }
        throw new ServiceError(
          "UNAVAILABLE",
          `Partitions of ${viewSet} are being merged by another call; try again when it has ended.`,
          { retryAfterSeconds: 10 },
        );
      }
      try {
        return await mergeLocked(context, connection, request, scope);
      } finally {
        await unlockMerge(connection, scope);
      }
    } finally {
      connection.release();
    }
  });
}

/** A list of one audience's partitions leaves the other audiences to other processes. */
function scopeOf(request: MergeRequest): MergeScope {
  const { viewSet, audiences } = request;
  if ("partitionIds" in request && audiences.kind === "some") {
    const [audience = null, ...others] = audiences.audiences;
    if (others.length === 0 && (audience === null) === audiences.unstamped) {
      return { viewSet, audience };
    }
  }
  return { viewSet };
}

async function mergeLocked(
  context: WatchedMergeContext,
  connection: Sql,
  request: MergeRequest,
  scope: MergeScope,
): Promise<MergedPartition[]> {
  const found = await selectMergeSources(connection, request);
  if (scope.audience !== undefined && "partitionIds" in request && found.length < request.partitionIds.length) {
    throw new ServiceError("CONFLICT", `Some of these partitions of ${scope.viewSet} have been merged meanwhile.`);
  }
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
  return await withMergeProcess(context, async (merger) => {
    const done: MergedPartition[] = [];
    try {
      for (const [audience, sources] of byAudience) {
        done.push(...(await mergeAudience({ ...context, connection, request, scope }, audience, sources, merger)));
      }
      return done;
    } catch (error) {
      throw engineError(
        error,
        context.cancelled(),
        "The merge needs more memory or temporary disk space than it may have.",
      );
    }
  });
}

/** Merges what can be read: objects that turn out to be missing or damaged are left out, and the others merged. */
async function mergeAudience(
  context: StepContext,
  audience: string | null,
  sources: readonly MergeSource[],
  merger: MergeProcess,
): Promise<MergedPartition[]> {
  const engine = merger.within(`${context.root}/${objectDirectory(context.request.viewSet, audience)}`);
  const done: MergedPartition[] = [];
  for (let left = sources; ;) {
    try {
      for await (const merged of mergeSources(context, engine, audience, left)) {
        done.push(...merged);
      }
      return done;
    } catch (error) {
      if (!(error instanceof BadObjects)) {
        throw error;
      }
      const { paths } = error;
      const mended = new Map<string, MergeSource>();
      for (const source of left.filter(({ path }) => paths.includes(path))) {
        const whole = await mendedSource(context, engine, source);
        if (whole === null) {
          done.push(partition("unreadable", source));
        } else {
          done.push(partition("replaced", source), partition("created", whole));
          mended.set(source.partitionId, whole);
        }
      }
      const settled = new Set(done.flatMap(({ action, partitionId }) => (action === "created" ? [] : [partitionId])));
      left = left.flatMap((source) => {
        const whole = mended.get(source.partitionId);
        return whole === undefined ? (settled.has(source.partitionId) ? [] : [source]) : [whole];
      });
    }
  }
}

/** What stands for an object that an earlier version wrote wrong; null when its fault is another one. */
async function mendedSource(
  context: StepContext,
  engine: MergeEngine,
  source: MergeSource,
): Promise<MergeSource | null> {
  const { connection, scope, cancelled } = context;
  const bytes = await mendedBytes(context, source).catch((error: unknown) => {
    if (cancelled() || isOutage(error)) {
      throw error;
    }
    return null;
  });
  if (bytes === null) {
    return null;
  }
  const object = await putMended(context, engine, source, bytes, (mended, assertInTime) =>
    publish(connection, scope, () => {
      assertInTime();
      return replaceObject(connection, "lakehouse_partitions", source, mended);
    }),
  );
  return object === null || object === "stays" ? null : { ...source, ...object };
}

/** @throws BadObjects */
async function* mergeSources(
  context: StepContext,
  engine: MergeEngine,
  audience: string | null,
  sources: readonly MergeSource[],
): AsyncGenerator<MergedPartition[]> {
  const { limits, request, share, cancelled } = context;
  const known = await knownOf(context, engine, request.viewSet, sources);
  const isSorted = "partitionIds" in request && request.level > 1;
  if (isSorted && areJoined(known)) {
    yield* joinSources(context, engine, audience, known);
    return;
  }
  const steps = mergeStepsOf(known, limits.step)
    // What is sorted already and meets nobody to be sorted with stays.
    .filter((step) => !isSorted || step.length > 1)
    .toReversed();
  for (let step = steps.pop(); step !== undefined; step = steps.pop()) {
    await share?.rest(cancelled);
    try {
      yield await withObjects(context, engine, step, (files) => mergeStep(context, engine, audience, files));
    } catch (error) {
      // What a row takes is an estimate. Half of the partitions take about half.
      if (!isOutOfMemory(error) || step.length === 1 || cancelled()) {
        throw error;
      }
      const half = step.length >> 1;
      steps.push(step.slice(half), step.slice(0, half));
    }
  }
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
  const known = await withObjects(context, engine, [...samples.values()], (files) =>
    withKnownColumns(engine, table, files),
  );
  const good = new Set([own, ...known.map(({ schemaHash }) => schemaHash)]);
  return sources.filter(({ schemaHash }) => good.has(schemaHash));
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
