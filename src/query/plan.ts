/**
 * The rows and files behind a query: which objects of the lake may be opened, and which rows of the
 * catalogue are read, for what the caller may read. The audience decides here and nowhere later.
 */
import type { AudienceFilter } from "../db/audience-filter.js";
import type { Sql } from "../db/sql.js";
import { reaching } from "../db/sql.js";
import {
  type BlockRecord,
  findPartitions,
  type ListedPartition,
  listPartitions,
  type Partition,
  type ProcessRecord,
  readBlocks,
  readProcesses,
  readStreams,
  type StreamRecord,
} from "../lake/catalogue.js";
import type { Signal } from "../lake/catalogue-rows.js";
import type { HeldFiles, LakeFiles, NeededObject } from "../lake/cache/lake-files.js";
import { objectDirectory } from "../lake/store/paths.js";
import { tables, type TableName } from "../lake/tables/tables.js";
import { ServiceError } from "../runtime/errors.js";
import { isUuid } from "../runtime/text/uuid.js";
import { type AdminContext, runAdminCall } from "./admin/admin.js";
import { adminFunctions } from "./sql/admin-functions.js";
import { catalogName, schemaName, tableType } from "./sql/catalog-names.js";
import type { FileGroup, FileSource } from "./sql/file-source.js";
import type { RolledObjects, TimeSlack } from "./sql/file-view.js";
import { type RowField, jsonObject, nanosOf } from "./sql/json-rows.js";
import { type QueryLogRecord, readQueryLog } from "./query-log.js";
import { rollupGroups, rollupOf } from "./plan-rollups.js";
import { rowsInTime, rowsWanted } from "./plan-rows.js";
import { readUsage, usageRow } from "./usage.js";
import type { Inspection } from "./backend/inspect.js";
import type { ScanBounds } from "./backend/scan-bounds.js";
import type { QuerySources } from "./backend/run.js";
import {
  type CatalogueView,
  catalogueViews,
  columnsOfView,
  type FileView,
  fileViews,
  isFileView,
  type Listing,
  listings,
  viewNamesFor,
} from "./sql/views.js";

/** The time range of `query-range-begin` (inclusive) and `query-range-end` (exclusive), nanoseconds since the epoch. */
export interface QueryRange {
  readonly beginNs: bigint | null;
  readonly endNs: bigint | null;
}

/** All of time. */
export const noRange: QueryRange = { beginNs: null, endNs: null };

/** What {@link planSources} needs beside the query. */
interface PlanContext {
  readonly sql: Sql;
  readonly files: LakeFiles;
  readonly audiences: AudienceFilter;
  /** What rows without an audience have in the column of that name. */
  readonly unstampedAudience: string;
  readonly range: QueryRange;
  /** Null when the caller is not admin. */
  readonly admin: Omit<AdminContext, "sql" | "audiences"> | null;
}

/** What a query reads. */
export interface Plan {
  /** Its objects; one that several views read is here once for each. */
  readonly objects: readonly NeededObject[];
  /** Rows of the lake that it wants, as far as the catalogue tells. */
  readonly rows: number;
  /**
   * Everything that it reads, once its objects are files.
   * @param withRollups default true; false: rows only, of objects that may not be among `objects`
   */
  sources(held: Pick<HeldFiles, "fileOf">, withRollups?: boolean): QuerySources;
}

/** Most rows of a catalogue view that one query loads, most bytes of them, and most of all its views and listings. */
const maxCatalogueRows = 1_000_000;
const maxCatalogueBytes = 32 << 20;
/** They travel in one job, as text within text: characters are escaped once more there (see `maxJobBytes`). */
const maxRowBytes = 48 << 20;

/**
 * Finds everything that a query reads.
 * @throws ServiceError UNAVAILABLE when the database cannot be reached; PAYLOAD_TOO_LARGE when the rows of
 *   the catalogue are too many
 */
export async function planSources(context: PlanContext, inspection: Inspection): Promise<Plan> {
  return reaching(() => findSources(context, inspection));
}

type RowSource = QuerySources["rows"][number];

async function findSources(context: PlanContext, inspection: Inspection): Promise<Plan> {
  const files: FilesOfView[] = [];
  const rows: RowSource[] = [];
  const take = takeRoom();
  for (const scan of inspection.scans) {
    const { view } = scan;
    if (isFileView(view)) {
      const found: ObjectsOfTable[] = [];
      const { tables: read, time, rolledUp } = fileViews[view];
      for (const [i, table] of read.entries()) {
        const range = widened(context.range, time);
        found.push({ range, objects: await objectsOf(context, table, scan, range, rolledUp?.[i] ?? null) });
      }
      files.push({ scan, view, found });
    } else {
      rows.push({
        name: scan.name,
        columns: catalogueViews[view],
        chunks: await catalogueRows(context, view, scan, { take, most: inspection.rowsEnough ?? Infinity }),
      });
    }
  }
  for (const listing of inspection.listings) {
    const text = JSON.stringify(await listingRows(context, listing));
    take(Buffer.byteLength(text));
    rows.push({ name: listing, columns: listings[listing], chunks: [text] });
  }
  for (const call of inspection.calls) {
    const { admin, sql, audiences } = context;
    if (admin === null) {
      throw new ServiceError("FORBIDDEN");
    }
    rows.push({
      name: call.table,
      columns: adminFunctions[call.name].columns,
      chunks: [await runAdminCall({ ...admin, sql, audiences }, call)],
    });
  }
  const objects = files.flatMap(({ found }) => found.flatMap((table) => table.objects));
  const directories = directoriesOf(context, objects);
  return {
    objects: objects.map((object) => object.rollup ?? object),
    rows: rowsInTime(objects),
    sources: ({ fileOf }, withRollups = true) => ({
      directories,
      files: files.map(({ scan, view, found }) => ({
        name: scan.name,
        view,
        sources: found.map((one) => sourceOf(context, scan, one, withRollups, fileOf)),
      })),
      rows,
    }),
  };
}

/** An object with the times that a view reads of it, and what is read in its place. */
type FoundObject = Partition & NeededObject & { readonly rollup: NeededObject | null };

/** Objects of a table, and the range of the rows that matter in them. */
interface ObjectsOfTable {
  readonly range: QueryRange;
  readonly objects: readonly FoundObject[];
}

/** The objects behind a name, table by table. */
interface FilesOfView {
  readonly scan: ScanBounds;
  readonly view: FileView;
  readonly found: readonly ObjectsOfTable[];
}

/** What rows of a catalogue view may take, and how many of them are enough. */
interface RowRoom {
  readonly take: (bytes: number) => void;
  readonly most: number;
}

/** Counts bytes of rows. @returns throws PAYLOAD_TOO_LARGE when they are too many together */
function takeRoom(): (bytes: number) => void {
  let left = maxRowBytes;
  return (bytes) => {
    left -= bytes;
    if (left >= 0) {
      return;
    }
    throw new ServiceError(
      "PAYLOAD_TOO_LARGE",
      `More than ${maxRowBytes >> 20} MiB of rows of the catalogue in one query; name fewer of its views, or narrow them by process_id or by a time range.`,
    );
  };
}

/**
 * The directories of the caller's audiences, whatever the query reads of them: one object holds one audience. Who
 * reads everything but what has no audience gets those of the objects found.
 */
function directoriesOf({ audiences, files }: PlanContext, found: readonly Partition[]): readonly string[] {
  const names = Object.keys(tables) as TableName[];
  const relative =
    audiences.kind === "some"
      ? names.flatMap((table) =>
          [...audiences.audiences, ...(audiences.unstamped ? [null] : [])].map((audience) =>
            objectDirectory(table, audience),
          ),
        )
      : audiences.unstamped === false
        ? found.map(({ viewSet, audience }) => objectDirectory(viewSet, audience))
        : names;
  return [...new Set(relative)].map((directory) => files.directory(directory));
}

/** The range of the rows that are read for a view's rows of `range`. */
function widened({ beginNs, endNs }: QueryRange, time: TimeSlack | null): QueryRange {
  return time === null
    ? noRange
    : {
        beginNs: beginNs === null ? null : beginNs - time.slackBeforeNs,
        endNs: endNs === null ? null : endNs + time.slackAfterNs,
      };
}

function processOf(scan: ScanBounds): string | undefined {
  return scan.processId !== null && isUuid(scan.processId) ? scan.processId : undefined;
}

const smallest = -(2n ** 63n);
const largest = 2n ** 63n - 1n;

function clamp(value: bigint): bigint {
  return value < smallest ? smallest : value > largest ? largest : value;
}

/** DuckDB has infinities at the ends of 64 bits, which are no times. */
function within(value: bigint): bigint {
  return value <= -largest ? 1n - largest : value >= largest ? largest - 1n : value;
}

/** Both bounds hold, so the later begin and the earlier end do. */
function boundsOf(
  range: QueryRange,
  scan: Pick<ScanBounds, "minTimeNs" | "maxTimeNs">,
): { readonly minTimeNs: bigint | undefined; readonly maxTimeNs: bigint | undefined } {
  const mins = [range.beginNs, scan.minTimeNs].filter((bound) => bound !== null);
  const maxs = [range.endNs === null ? null : range.endNs - 1n, scan.maxTimeNs].filter((bound) => bound !== null);
  return {
    minTimeNs: mins.length === 0 ? undefined : clamp(mins.reduce((a, b) => (a > b ? a : b))),
    maxTimeNs: maxs.length === 0 ? undefined : clamp(maxs.reduce((a, b) => (a < b ? a : b))),
  };
}

async function objectsOf(
  context: PlanContext,
  viewSet: TableName,
  scan: ScanBounds,
  range: QueryRange,
  rolledUp: RolledObjects | null,
): Promise<FoundObject[]> {
  const wanted = boundsOf(range, scan);
  const partitions = await findPartitions(context.sql, {
    viewSet,
    audiences: context.audiences,
    ...wanted,
    processId: processOf(scan),
    attributes: scan.attributes.map(({ attribute }) => attribute),
  });
  // Nobody else has them: copies of thousands would take longer than to find them.
  return partitions.map((partition) =>
    Object.assign(partition, {
      wanted,
      rollup: rolledUp === null ? null : rollupOf(viewSet, partition, wanted, rolledUp),
    }),
  );
}

/** @param needed the range of the rows that matter */
function sourceOf(
  context: PlanContext,
  scan: ScanBounds,
  { objects: found, range: needed }: ObjectsOfTable,
  withRollups: boolean,
  fileOf: HeldFiles["fileOf"],
): FileSource {
  const rollups = withRollups ? found.filter(({ rollup }) => rollup !== null) : [];
  const objects = rollups.length === 0 ? found : found.filter(({ rollup }) => rollup === null);
  const merged = objects.filter(({ level }) => level > 0);
  const traceIds = filterableTraces(scan, merged.length);
  const byTrace = traceIds === null ? {} : { byTrace: { traceIds, groups: groupsOf(context, scan, merged, fileOf) } };
  const { beginNs, endNs } = context.range;
  const { minTimeNs, maxTimeNs } = boundsOf(needed, scan);
  const others = traceIds === null ? objects : objects.filter(({ level }) => level === 0);
  return {
    groups: groupsOf(context, scan, others, fileOf),
    ...(rollups.length === 0 ? {} : { rollups: rollupGroups(rollups, context.unstampedAudience, fileOf) }),
    ...byTrace,
    processId: scan.name === scan.view ? null : scan.processId,
    traceId: scan.ofTrace,
    attributes: scan.attributes,
    comparesTime: scan.comparedWithNs !== null,
    columns: scan.columns,
    rowsAbout: rowsWanted(objects),
    beginNs: beginNs === null || beginNs <= -largest ? null : within(beginNs),
    endNs: endNs === null || endNs >= largest ? null : within(endNs),
    firstNeededNs: minTimeNs === undefined || minTimeNs <= -largest ? null : within(minTimeNs),
    lastNeededNs: maxTimeNs === undefined || maxTimeNs >= largest ? null : within(maxTimeNs),
  };
}

/**
 * Lists longer than this are left to the bounds of row groups, and so are many in too many files: each trace names all.
 */
const maxTraces = 16;
const maxFileNames = 20_000;
const traceId = /^[0-9a-f]{32}$/u;

/** The traces of a query when merged files are best searched trace by trace. */
function filterableTraces({ traceIds }: ScanBounds, files: number): readonly string[] | null {
  if (traceIds === null || traceIds.length === 0 || traceIds.length > maxTraces) {
    return null;
  }
  if (traceIds.length * files > maxFileNames) {
    return null;
  }
  return traceIds.every((id) => traceId.test(id)) ? traceIds : null;
}

/** Files in groups of one schema, one audience, the same places of attributes, and of rows that are all wanted or not. */
function groupsOf(
  context: PlanContext,
  scan: ScanBounds,
  objects: readonly FoundObject[],
  fileOf: HeldFiles["fileOf"],
): FileGroup[] {
  type Group = FileGroup & { readonly paths: string[] };
  const groups = new Map<string, Group>();
  let last: { readonly of: FoundObject; readonly isWhole: boolean; readonly paths: string[] } | undefined;
  for (const object of objects) {
    const { schemaHash, audience: stamped, attributes } = object;
    const audience = stamped ?? context.unstampedAudience;
    const file = fileOf(object);
    if (file === null) {
      continue;
    }
    const isWhole = isWhollyWanted(context.range, scan, object);
    // Thousands that follow each other are mostly of one group.
    if (
      last?.isWhole === isWhole &&
      last.of.schemaHash === schemaHash &&
      last.of.audience === stamped &&
      last.of.attributes === attributes
    ) {
      last.paths.push(file);
      continue;
    }
    const key = `${schemaHash} ${isWhole} ${audience} ${attributes}`;
    const group: Group = groups.get(key) ?? {
      audience,
      paths: [],
      attributes,
      timeNs: isWhole ? object.minTimeNs : null,
    };
    groups.set(key, group);
    group.paths.push(file);
    last = { of: object, isWhole, paths: group.paths };
  }
  return [...groups.values()];
}

/** Whether every row of an object is in the session's range, and meets what the query asks of `time` for certain. */
function isWhollyWanted(
  { beginNs, endNs }: QueryRange,
  scan: ScanBounds,
  { minTimeNs, maxTimeNs }: Partition,
): boolean {
  if (minTimeNs === null || maxTimeNs === null) {
    return false;
  }
  const { comparedWithNs } = scan;
  return (
    (beginNs === null || beginNs <= minTimeNs) &&
    (endNs === null || maxTimeNs < endNs) &&
    (comparedWithNs === null || (comparedWithNs.min <= minTimeNs && maxTimeNs <= comparedWithNs.max))
  );
}

const signalNames: Readonly<Record<Signal, string>> = { 1: "logs", 2: "metrics", 3: "traces" };

async function catalogueRows(
  context: PlanContext,
  view: CatalogueView,
  scan: ScanBounds,
  room: RowRoom,
): Promise<string[]> {
  const query = { audiences: context.audiences, processId: processOf(scan) };
  const audienceOf = ({ audience }: { readonly audience: string | null }): string =>
    audience ?? context.unstampedAudience;
  switch (view) {
    case "processes":
      return collect(room, view, readProcesses(context.sql, query), (row) => ({
        ...processRow(row),
        audience: audienceOf(row),
      }));
    case "streams":
      return collect(room, view, readStreams(context.sql, query), (row) => ({
        ...streamRow(row),
        audience: audienceOf(row),
      }));
    case "blocks":
      return collect(room, view, readBlocks(context.sql, { ...query, ...boundsOf(context.range, scan) }), (row) => ({
        ...blockRow(row),
        audience: audienceOf(row),
      }));
    case "usage": {
      const inHour = { audiences: context.audiences, ...boundsOf(context.range, scan) };
      return collect(room, view, readUsage(context.sql, inHour), usageRow);
    }
    case "query_log":
      if (context.admin === null) {
        throw new ServiceError("FORBIDDEN");
      }
      return collect(room, view, queriesInRange(context, scan), queryRow);
  }
}

/** Postgres compares microseconds, so it is asked for a little more than the range. */
async function* queriesInRange(
  { sql, range: { beginNs, endNs }, range }: PlanContext,
  scan: ScanBounds,
): AsyncGenerator<QueryLogRecord[]> {
  for await (const rows of readQueryLog(sql, boundsOf(range, scan))) {
    yield rows.filter(({ timeNs }) => (beginNs === null || timeNs >= beginNs) && (endNs === null || timeNs < endNs));
  }
}

/** Chunks as JSON text, which DuckDB reads by itself; nanoseconds are written as digits, not as numbers. */
async function collect<T>(
  { take, most }: RowRoom,
  view: CatalogueView,
  chunks: AsyncIterable<T[]>,
  fields: (row: T) => Readonly<Record<string, RowField>>,
): Promise<string[]> {
  const texts: string[] = [];
  let rows = 0;
  let bytes = 0;
  for await (const all of chunks) {
    const chunk = rows + all.length > most ? all.slice(0, most - rows) : all;
    const text = `[${chunk.map((row) => jsonObject(fields(row))).join(",")}]`;
    const textBytes = Buffer.byteLength(text);
    rows += chunk.length;
    bytes += textBytes;
    if (rows > maxCatalogueRows || bytes > maxCatalogueBytes) {
      throw new ServiceError(
        "PAYLOAD_TOO_LARGE",
        `More than ${maxCatalogueRows} rows or ${maxCatalogueBytes >> 20} MiB of ${view}; narrow the query by process_id or by a time range.`,
      );
    }
    take(textBytes);
    texts.push(text);
    if (rows >= most) {
      break;
    }
  }
  return texts;
}

function processRow(row: ProcessRecord): Record<string, RowField> {
  return {
    process_id: row.processId,
    service_namespace: row.serviceNamespace,
    service_name: row.serviceName,
    service_instance_id: row.serviceInstanceId,
    service_version: row.serviceVersion,
    host_id: row.hostId,
    host_name: row.hostName,
    process_pid: row.processPid,
    executable: row.executable,
    username: row.username,
    sdk_name: row.sdkName,
    sdk_language: row.sdkLanguage,
    sdk_version: row.sdkVersion,
    start_time: row.startTime,
    insert_time: row.insertTime,
    properties: row.properties,
  };
}

function streamRow(row: StreamRecord): Record<string, RowField> {
  return {
    stream_id: row.streamId,
    process_id: row.processId,
    signal: signalNames[row.signal],
    format: row.format,
    insert_time: row.insertTime,
  };
}

function blockRow(row: BlockRecord): Record<string, RowField> {
  return {
    block_id: row.blockId,
    stream_id: row.streamId,
    process_id: row.processId,
    signal: signalNames[row.signal],
    begin_time: row.beginTimeNs,
    end_time: row.endTimeNs,
    row_count: row.rowCount,
    payload_bytes: row.payloadBytes,
    insert_time: row.insertTime,
  };
}

function queryRow(row: QueryLogRecord): Record<string, RowField> {
  return {
    query_id: row.queryId,
    time: row.timeNs,
    caller: row.caller,
    client: row.client,
    sql: row.sql,
    sql_hash: row.sqlHash,
    fingerprint: row.fingerprint,
    duration_ms: row.durationMs,
    row_count: row.rowCount,
    bytes: row.bytes,
    partitions: row.partitions,
    peak_memory_bytes: row.peakMemoryBytes,
    outcome: row.outcome,
    engine: row.engine,
    engine_reason: row.engineReason,
  };
}

async function listingRows(context: PlanContext, listing: Listing): Promise<readonly Record<string, RowField>[]> {
  const views = viewNamesFor(context.admin !== null);
  const schema = { table_catalog: catalogName, table_schema: schemaName };
  switch (listing) {
    case "svc_show_tables":
      return views.map((name) => ({ name }));
    case "svc_information_schema_tables":
      return views.map((view) => ({ ...schema, table_name: view, table_type: tableType }));
    case "svc_information_schema_columns":
      return views.flatMap((view) =>
        columnsOfView(view).map(([column, type], i) => ({
          ...schema,
          table_name: view,
          column_name: column,
          ordinal_position: i + 1,
          column_default: null,
          is_nullable: "YES",
          data_type: type,
        })),
      );
    case "svc_list_view_sets":
      return views.map((view) => ({
        view_set: view,
        kind: isFileView(view) ? "files" : "catalogue",
        column_count: columnsOfView(view).length,
      }));
    case "svc_list_partitions": {
      const found: Record<string, RowField>[] = [];
      const { sql, audiences, range } = context;
      for (const viewSet of Object.keys(tables) as TableName[]) {
        const partitions = await listPartitions(sql, { viewSet, audiences, ...boundsOf(range, anyTime) });
        found.push(...partitions.map(partitionRow));
      }
      return found;
    }
  }
}

const anyTime = { minTimeNs: null, maxTimeNs: null } as const;

function partitionRow(partition: ListedPartition): Record<string, RowField> {
  return {
    view_set: partition.viewSet,
    partition_id: partition.partitionId,
    path: partition.path,
    // Digits as text: DuckDB casts them, and a JavaScript number would lose some.
    begin_time: partition.minTimeNs === null ? null : String(partition.minTimeNs),
    end_time: partition.maxTimeNs === null ? null : String(partition.maxTimeNs),
    min_insert_time: String(nanosOf(partition.minInsertTime.getTime())),
    max_insert_time: String(nanosOf(partition.maxInsertTime.getTime())),
    level: partition.level,
    row_count: partition.rowCount,
    file_bytes: partition.fileBytes,
    schema_hash: partition.schemaHash,
    sort_order: partition.sortOrder,
  };
}
