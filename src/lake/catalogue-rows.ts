/**
 * Rows of the catalogue as an encode worker hands them to the committer: plain data that survives
 * structured cloning. UUIDs are lower-case text. An audience of null means unstamped.
 */
import type { TableName } from "./tables/tables.js";

/** 1 logs, 2 metrics, 3 traces. */
export type Signal = 1 | 2 | 3;

/** What sent telemetry: the columns of a row of `processes`. */
export interface ProcessColumns {
  readonly processId: string;
  readonly audience: string | null;
  readonly serviceNamespace: string | null;
  readonly serviceName: string | null;
  readonly serviceInstanceId: string | null;
  readonly serviceVersion: string | null;
  readonly hostId: string | null;
  readonly hostName: string | null;
  /** A safe integer. */
  readonly processPid: number | null;
  readonly executable: string | null;
  readonly username: string | null;
  readonly sdkName: string | null;
  readonly sdkLanguage: string | null;
  readonly sdkVersion: string | null;
  /** Milliseconds since 1970 UTC; what Postgres cannot hold becomes null. */
  readonly startTimeMs: number | null;
  /** All resource attributes as a JSON object. */
  readonly properties: string;
}

/**
 * One row of `processes`. The first one of an id stays. Its columns are JSON text from the start, because every batch
 * brings the row again and it is seldom read: see process-row.ts.
 */
export interface ProcessRow {
  readonly processId: string;
  readonly columns: string;
}

/** One flow of one signal from a process: one row of `streams`. */
export interface StreamRow {
  readonly streamId: string;
  readonly processId: string;
  readonly audience: string | null;
  readonly signal: Signal;
}

/** One resource's share of one request: one row of `blocks`. Its id is what counts bytes once. */
export interface BlockRow {
  readonly blockId: string;
  readonly streamId: string;
  readonly processId: string;
  readonly audience: string | null;
  readonly signal: Signal;
  /** Bounds of the rows' times in nanoseconds since 1970 UTC; null without rows. */
  readonly beginTimeNs: bigint | null;
  readonly endTimeNs: bigint | null;
  readonly rowCount: number;
  /** Bytes of the resource's share as protobuf. */
  readonly payloadBytes: number;
}

/** One Parquet object to publish: one row of `lakehouse_partitions`. */
export interface PartitionRow {
  readonly partitionId: string;
  readonly viewSet: TableName;
  readonly audience: string | null;
  /** Relative to the object store's root. */
  readonly path: string;
  readonly fileBytes: number;
  /** CRC-32 of the object's bytes; null: it has none yet. */
  readonly checksum: number | null;
  readonly rowCount: number;
  readonly minTimeNs: bigint;
  readonly maxTimeNs: bigint;
  /** When the batch was received, milliseconds since 1970 UTC. */
  readonly insertTimeMs: number;
  readonly level: 0;
  /** In hex. */
  readonly schemaHash: string;
  /** Columns the rows are sorted by, separated by commas; empty when they are not. */
  readonly sortOrder: string;
  /** The processes in it when they are few (32 at most), else null. */
  readonly processIds: readonly string[] | null;
}

/** Everything one encoded batch adds to the catalogue. */
export interface SegmentCommit {
  readonly processes: readonly ProcessRow[];
  readonly streams: readonly StreamRow[];
  readonly blocks: readonly BlockRow[];
  readonly partitions: readonly PartitionRow[];
}
