/**
 * Reading the catalogue: which objects a query has to open, and the rows behind the views `processes`,
 * `streams` and `blocks`. What a caller may read is decided here, by audience, and nowhere later.
 */
import { type AudienceFilter, readableBy } from "../db/audience-filter.js";
import type { Sql } from "../db/sql.js";
import type { BlockRow, ProcessColumns, StreamRow } from "./catalogue-rows.js";
import type { TableName } from "./tables/tables.js";

/** A published object, as far as those who read it have to know. */
export interface Partition {
  readonly viewSet: string;
  readonly audience: string | null;
  /** Relative to the object store's root. */
  readonly path: string;
  readonly fileBytes: number;
  /** CRC-32; null: it has none yet. */
  readonly checksum: number | null;
  readonly rowCount: number;
  /** Bounds of the column `time`, nanoseconds since 1970 UTC; null when no row has one. */
  readonly minTimeNs: bigint | null;
  readonly maxTimeNs: bigint | null;
  /** 0 as ingested; 1 to 3 after merging. */
  readonly level: number;
  /** In hex. */
  readonly schemaHash: string;
  /** What counts its rows, as {@link path}; null: there is none. */
  readonly rollupPath: string | null;
  readonly rollupBytes: number | null;
  readonly rollupChecksum: number | null;
  /** One letter for each attribute that was asked for: where its values are. */
  readonly attributes: string;
}

/** A published object, as it is listed. */
export interface ListedPartition extends Partition {
  readonly partitionId: string;
  readonly minInsertTime: Date;
  readonly maxInsertTime: Date;
  readonly sortOrder: string;
}

/** Letters of {@link Partition.attributes}. */
export const attributePlaces = {
  /** A column of its own. */
  column: "c",
  /** No row has it. */
  nowhere: "n",
  /** The JSON text of all attributes. */
  text: "t",
} as const;

/** Which partitions to find. */
interface PartitionQuery {
  readonly viewSet: TableName;
  readonly audiences: AudienceFilter;
  /** Inclusive bounds of the rows' times, nanoseconds since 1970 UTC. */
  readonly minTimeNs?: bigint | undefined;
  readonly maxTimeNs?: bigint | undefined;
  /** Leaves out partitions that are known not to hold this process. */
  readonly processId?: string | undefined;
  /** Names of attributes whose places to tell. */
  readonly attributes?: readonly string[];
}

/**
 * Every partition that may hold a row that the query asks for, oldest first, in one statement over the pruning index
 * (view, audience, max_time_ns, min_time_ns). Partitions without times are left out as soon as a bound is given.
 */
export function findPartitions(sql: Sql, query: PartitionQuery): Promise<Partition[]> {
  return select<Partition>(sql, query, sql``);
}

/** The same with what only lists of them show. */
export function listPartitions(sql: Sql, query: PartitionQuery): Promise<ListedPartition[]> {
  return select<ListedPartition>(sql, query, listedColumns(sql));
}

function listedColumns(sql: Sql) {
  return sql`, partition_id as "partitionId", min_insert_time as "minInsertTime", max_insert_time as "maxInsertTime",
    sort_order as "sortOrder"`;
}

async function select<T extends Partition>(
  sql: Sql,
  query: PartitionQuery,
  more: ReturnType<typeof listedColumns>,
): Promise<T[]> {
  const { viewSet, minTimeNs, maxTimeNs, processId, audiences, attributes = [] } = query;
  const conditions = sql`
    view_set = ${viewSet}
    ${minTimeNs === undefined ? sql`` : sql`and max_time_ns >= ${minTimeNs}`}
    ${maxTimeNs === undefined ? sql`` : sql`and min_time_ns <= ${maxTimeNs}`}
    ${processId === undefined ? sql`` : sql`and (process_ids is null or ${processId}::uuid = any(process_ids))`}`;
  const columns = sql`
    view_set as "viewSet", audience, path, file_bytes::float8 as "fileBytes", row_count::float8 as "rowCount",
    min_time_ns as "minTimeNs", max_time_ns as "maxTimeNs", level, encode(schema_hash, 'hex') as "schemaHash",
    rollup_path as "rollupPath", rollup_bytes::float8 as "rollupBytes", checksum::float8 as checksum,
    rollup_checksum::float8 as "rollupChecksum", ${placesSql(sql, attributes)} as attributes ${more}`;
  // The path ends in the id.
  const order = sql`order by "minTimeNs", path`;
  if (audiences.kind === "all") {
    return sql<T[]>`
      select ${columns} from lakehouse_partitions
      where ${conditions} and ${readableBy(sql, audiences)} ${order}`;
  }
  // Two branches rather than an OR, so that each of them is one range of the index.
  return sql<T[]>`
    select ${columns} from lakehouse_partitions
    where audience = any(${[...audiences.audiences]}::text[]) and ${conditions}
    union all
    select ${columns} from lakehouse_partitions
    where ${audiences.unstamped} and audience is null and ${conditions}
    ${order}`;
}

function placesSql(sql: Sql, attributes: readonly string[]) {
  return attributes.length === 0
    ? sql`''`
    : sql`(
        select string_agg(case when name = any(attribute_columns) then 'c'
          when name <> all(attribute_names) then 'n' else 't' end, '' order by i)
        from unnest(${[...attributes]}::text[]) with ordinality as asked (name, i))`;
}

/** A row of the view `processes`. */
export interface ProcessRecord extends Omit<ProcessColumns, "processPid" | "startTimeMs"> {
  readonly processPid: bigint | null;
  readonly startTime: Date | null;
  readonly insertTime: Date;
}

/** A row of the view `streams`. */
export interface StreamRecord extends StreamRow {
  readonly format: string;
  readonly insertTime: Date;
}

/** A row of the view `blocks`. */
export interface BlockRecord extends BlockRow {
  readonly insertTime: Date;
}

/** Which rows of `processes`, `streams` or `blocks` to read. */
interface CatalogueQuery {
  readonly audiences: AudienceFilter;
  /** Only this process. */
  readonly processId?: string | undefined;
}

/** Rows that one step of a stream holds at most. */
const chunkRows = 2000;

function allowed(sql: Sql, query: CatalogueQuery) {
  const { audiences, processId } = query;
  const process = processId === undefined ? sql`` : sql`and process_id = ${processId}::uuid`;
  return sql`where ${readableBy(sql, audiences)} ${process}`;
}

/** Rows of `processes` in chunks; leaving the loop early closes the cursor. */
export function readProcesses(sql: Sql, query: CatalogueQuery): AsyncIterable<ProcessRecord[]> {
  return sql<ProcessRecord[]>`
    select process_id as "processId", audience, service_namespace as "serviceNamespace",
      service_name as "serviceName", service_instance_id as "serviceInstanceId",
      service_version as "serviceVersion", host_id as "hostId", host_name as "hostName",
      process_pid as "processPid", executable, username, sdk_name as "sdkName",
      sdk_language as "sdkLanguage", sdk_version as "sdkVersion", start_time as "startTime",
      insert_time as "insertTime", properties::text as properties
    from processes ${allowed(sql, query)}`.cursor(chunkRows);
}

/** Rows of `streams` in chunks; leaving the loop early closes the cursor. */
export function readStreams(sql: Sql, query: CatalogueQuery): AsyncIterable<StreamRecord[]> {
  return sql<StreamRecord[]>`
    select stream_id as "streamId", process_id as "processId", audience, signal, format,
      insert_time as "insertTime"
    from streams ${allowed(sql, query)}`.cursor(chunkRows);
}

/**
 * Rows of `blocks` in chunks, those whose times meet the (inclusive) bounds if any are given; leaving
 * the loop early closes the cursor.
 */
export function readBlocks(
  sql: Sql,
  query: CatalogueQuery & {
    readonly minTimeNs?: bigint | undefined;
    readonly maxTimeNs?: bigint | undefined;
  },
): AsyncIterable<BlockRecord[]> {
  const { minTimeNs, maxTimeNs } = query;
  return sql<BlockRecord[]>`
    select block_id as "blockId", stream_id as "streamId", process_id as "processId", audience,
      signal, begin_time_ns as "beginTimeNs", end_time_ns as "endTimeNs", row_count as "rowCount",
      payload_bytes as "payloadBytes", insert_time as "insertTime"
    from blocks ${allowed(sql, query)}
    ${minTimeNs === undefined ? sql`` : sql`and end_time_ns >= ${minTimeNs}`}
    ${maxTimeNs === undefined ? sql`` : sql`and begin_time_ns <= ${maxTimeNs}`}`.cursor(chunkRows);
}
