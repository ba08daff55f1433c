/** One step of a merge: what is written of some objects, and how that takes their place (see the head of merge.ts). */
import { randomUUID } from "node:crypto";
import { rmSync } from "node:fs";
import { join } from "node:path";

import { isConnectionError, type Sql } from "../../db/sql.js";
import { ServiceError } from "../../runtime/errors.js";
import { publishDeadline } from "../publish-deadline.js";
import { settleWithRollup } from "../rollup/write-rollup.js";
import { makeDirectory } from "../store/file-store.js";
import { mergedObjectPath, objectDirectory } from "../store/paths.js";
import type { ObjectAttributes } from "../tables/attributes.js";
import { chooseAttributes, joinAttributes, type KnownAttributes, maxCounts } from "./attribute-choice.js";
import { joinFiles, type JoinableFile, readJoinable } from "../parquet/join-files.js";
import { assertUnchanged, withObjects } from "./local-objects.js";
import type { MergeEngine } from "./merge-engine.js";
import { groupsToJoin } from "./merge-levels.js";
import type { MergeScope } from "./merge-lock.js";
import {
  groupRowsOf,
  listTexts,
  maxListedProcesses,
  type MergedObject,
  pathsOf,
  writeMergedObject,
} from "./merge-object.js";
import { levelOfWidth, type MergeSource, slicesOf } from "./merge-plan.js";
import {
  arePublished,
  publishStored,
  replacePartitions,
  type Replacement,
  selectCommonFacts,
} from "./merge-publish.js";
import { attributeCountsSql, bucketCountsSql, sliceCondition, type SourceFile } from "./merge-sql.js";
import type { MergedPartition, MergeRequest, WatchedMergeContext } from "./merge.js";

/** What a step works with. */
export interface StepContext extends WatchedMergeContext {
  /** Holds the lock. */
  readonly connection: Sql;
  readonly request: MergeRequest;
  readonly scope: MergeScope;
}

const nsPerSecond = 1_000_000_000n;

/** Sorts the rows of some objects into one for each bucket, and publishes these. */
export async function mergeStep(
  context: StepContext,
  engine: MergeEngine,
  audience: string | null,
  sources: readonly SourceFile[],
): Promise<MergedPartition[]> {
  const { store, root, limits, request, cancelled } = context;
  const { viewSet, widthSeconds } = request;
  const widthNs = BigInt(widthSeconds) * nsPerSecond;
  const level = levelOf(request);
  await assertUnchanged(context, sources);
  const counted = await engine.rows(bucketCountsSql(viewSet, sources, widthNs));
  const counts = counted.map(([bucket, rows]) => ({
    bucket: typeof bucket === "string" ? BigInt(bucket) : null,
    rows: Number(rows),
  }));
  const attributes = await attributesOf(engine, sources);
  const groupRows = groupRowsOf(sources);
  const texts = await listTexts(engine, viewSet, sources);
  return settled(context, { audience, sources, widthSeconds }, async (written) => {
    for (const slice of slicesOf(counts, limits.objects)) {
      if (cancelled()) {
        throw new ServiceError("CANCELLED");
      }
      const condition = sliceCondition(slice, widthNs);
      const rows = { sources, condition, rows: slice.rows };
      const made = { attributes, groupRows, texts: texts.forRows(slice.rows), rollupRows: limits.rollupRows };
      const order = { table: viewSet, audience, level, ...rows, ...made };
      await written(await writeMergedObject(engine, store, root, order));
    }
  });
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

/** Joins the objects of each bucket, where they can be; others stay as they are. @throws BadObjects */
export async function* joinSources(
  context: StepContext,
  engine: MergeEngine,
  audience: string | null,
  sources: readonly MergeSource[],
): AsyncGenerator<MergedPartition[]> {
  const { widthSeconds } = context.request;
  for (const group of groupsToJoin(sources, widthSeconds)) {
    await context.share?.rest(context.cancelled);
    yield await withObjects(context, engine, group, (files) => joinForms(context, engine, audience, files));
  }
}

async function joinForms(
  context: StepContext,
  engine: MergeEngine,
  audience: string | null,
  sources: readonly SourceFile[],
): Promise<MergedPartition[]> {
  await assertUnchanged(context, sources);
  const done: MergedPartition[] = [];
  for (const files of await byForm(sources)) {
    if (files.length > 1) {
      done.push(...(await joinStep(context, engine, audience, files)));
    }
  }
  return done;
}

type JoinSource = SourceFile & { readonly joinable: JoinableFile };

/** Files of one form and one version: what is joined has the columns that they have. */
async function byForm(files: readonly SourceFile[]): Promise<JoinSource[][]> {
  const forms = new Map<string, JoinSource[]>();
  for (const file of files) {
    const joinable = await readJoinable(file.file);
    if (joinable.rows !== file.rowCount) {
      throw new RangeError(`an object holds ${joinable.rows} rows, not ${file.rowCount}`);
    }
    const form = `${file.schemaHash} ${joinable.form}`;
    const group = forms.get(form);
    if (group === undefined) {
      forms.set(form, [{ ...file, joinable }]);
    } else {
      group.push({ ...file, joinable });
    }
  }
  return [...forms.values()];
}

async function joinStep(
  context: StepContext,
  engine: MergeEngine,
  audience: string | null,
  sources: readonly JoinSource[],
): Promise<MergedPartition[]> {
  const { store, root, limits, request, connection, clock, share, cancelled } = context;
  const { viewSet, widthSeconds } = request;
  const attributes = joinAttributes(sources);
  const order = sources.toSorted((a, b) => compare(a.minTimeNs, b.minTimeNs));
  const facts = await selectCommonFacts(connection, sources, maxListedProcesses);
  const overlap = order.some(({ minTimeNs }, at) => compare(order[at - 1]?.maxTimeNs ?? null, minTimeNs) > 0);
  const schemaHash = sources[0]?.schemaHash;
  const joined = { audience, sources, widthSeconds, schemaHash, sorted: facts.sorted && !overlap };
  return settled(context, joined, async (written) => {
    const partitionId = randomUUID();
    const directory = join(root, objectDirectory(viewSet, audience));
    makeDirectory(directory);
    const temporary = join(directory, `.${partitionId}.merge.tmp`);
    const startedMs = clock.monotonicMs();
    try {
      await joinFiles(
        order.map(({ joinable }) => joinable),
        temporary,
        { attributes: JSON.stringify(attributes) },
        cancelled,
      );
      // It copies in this thread, and mostly computes nothing: more than it took cannot have been used.
      share?.spend((clock.monotonicMs() - startedMs) / 1000);
      const rowCount = sources.reduce((sum, source) => sum + source.rowCount, 0);
      const minTimeNs = order[0]?.minTimeNs ?? null;
      const timeMs = Number((minTimeNs ?? 0n) / 1_000_000n);
      const level = levelOf(request);
      const path = mergedObjectPath(viewSet, audience, level, timeMs, partitionId);
      const finished = { table: viewSet, temporary, path, rowCount, level, attributes };
      await written({
        ...(await settleWithRollup(engine, store, finished, limits.rollupRows)),
        partitionId,
        path,
        rowCount,
        minTimeNs,
        maxTimeNs: sources.reduce<bigint | null>((last, { maxTimeNs }) => later(last, maxTimeNs), null),
        processIds: facts.processIds,
        attributes,
      });
    } finally {
      rmSync(temporary, { force: true });
    }
  });
}

function compare(a: bigint | null, b: bigint | null): number {
  const [x, y] = [a ?? 0n, b ?? 0n];
  return a === null || b === null || x === y ? 0 : x < y ? -1 : 1;
}

function later(a: bigint | null, b: bigint | null): bigint | null {
  return a === null || (b !== null && b > a) ? b : a;
}

function levelOf(request: MergeRequest): 1 | 2 | 3 {
  return "partitionIds" in request ? request.level : levelOfWidth(request.widthSeconds);
}

/** Publishes what `write` tells of in the place of the sources; when that fails, nothing of it remains. */
async function settled(
  context: StepContext,
  step: Pick<Replacement, "audience" | "widthSeconds" | "schemaHash" | "sorted"> & {
    readonly sources: readonly SourceFile[];
  },
  write: (written: (object: MergedObject) => Promise<void>) => Promise<void>,
): Promise<MergedPartition[]> {
  const { store, clock, request, scope, at } = context;
  const assertInTime = publishDeadline(clock);
  const objects: MergedObject[] = [];
  const done = await publishStored(
    store,
    () => pathsOf(objects),
    async (begin) => {
      await write(async (object) => {
        objects.push(object);
        await at?.("written");
      });
      assertInTime();
      const also = async (): Promise<void> => {
        await at?.("replacing");
        // It may have waited for rows that others had locked.
        assertInTime();
      };
      begin();
      return publish(context, { ...step, viewSet: request.viewSet, level: levelOf(request), objects, scope, also });
    },
  );
  if (!done) {
    throw new ServiceError(
      "UNAVAILABLE",
      "Partitions were retired or merged while they were being merged; nothing is lost, call again.",
      { retryAfterSeconds: 1 },
    );
  }
  await at?.("replaced");
  return [
    ...objects.map((object) => partition("created", object)),
    ...step.sources.map((source) => partition("replaced", source)),
  ];
}

/** Replaces; when the connection breaks, asks on another one what became of it. */
async function publish({ sql, connection }: StepContext, replacement: Replacement): Promise<boolean> {
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

/** A partition as a merge tells of it. */
export function partition(
  action: MergedPartition["action"],
  { partitionId, path, rowCount, fileBytes }: MergeSource | MergedObject,
): MergedPartition {
  return { action, partitionId, path, rowCount, fileBytes };
}
