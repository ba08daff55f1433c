/** What a merge does, worked out before it touches anything: steps of partitions, slices of time. Pure. */

import type { ListedPartition } from "../catalogue.js";
import type { GroupSize } from "../parquet/row-groups.js";

/** A partition to merge, as the catalogue has it. */
export type MergeSource = Pick<
  ListedPartition,
  "partitionId" | "audience" | "path" | "fileBytes" | "rowCount" | "minTimeNs" | "maxTimeNs" | "schemaHash" | "checksum"
> & {
  /** Null of what was never merged. */
  readonly attributeColumns: readonly string[] | null;
  readonly attributeNames: readonly string[] | null;
  /** Rows as ingested by a clock that was far behind: they count as received then, nanoseconds since 1970. Else null. */
  readonly receivedNs: bigint | null;
};

/** How much one step takes at most; a partition that is larger is a step of its own. */
export interface StepLimits {
  readonly rows: number;
  readonly bytes: number;
  readonly sources: number;
}

/**
 * Memory that goes to the row group being written, whatever is sorted, and what each row takes beside it while it is
 * sorted: all its text is laid out row by row then, with the process's, which a file holds once for many rows.
 * Steps that do not fit go through the disk: a log record costs 4.6 to 11 us then instead of 3.3.
 */
const baseBytes = 256 << 20;
const sortBytesPerRow = 1024;
const minStepRows = 61_440;

/** Rows of one row group, where they are not large. A multiple of what DuckDB writes at a time, so that groups are even. */
export const rowGroupRows = 61_440;
/** What DuckDB writes at a time: it makes no row group smaller, unless there are no more rows. */
export const vectorRows = 2048;
/** Bytes of one column in a row group, before compression: each thread of a query takes four times as much to read it. */
export const rowGroupBytes = 32 << 20;

/** What a step takes when DuckDB may use so much memory: as many rows as fit into it. */
export function stepLimitsFor(memoryLimitBytes: number): StepLimits {
  return {
    rows: Math.max(minStepRows, Math.floor((memoryLimitBytes - baseBytes) / sortBytesPerRow)),
    bytes: 256 << 20,
    sources: 1000,
  };
}

/**
 * Rows of a row group in what is made of these: as many as fit even where their longest rows come together. Where these
 * are fewer than {@link vectorRows}, the rows are written in parts that fit.
 */
export function groupRowsFor(groups: readonly GroupSize[]): number {
  let rows = 0;
  let bytes = 0;
  for (const group of groups.toSorted((a, b) => b.bytes / b.rows - a.bytes / a.rows)) {
    const left = rowGroupBytes - bytes;
    if (group.bytes > left) {
      const most = Math.min(rowGroupRows, Math.floor(rows + (group.rows * left) / group.bytes));
      return most < vectorRows ? Math.max(1, most) : most - (most % vectorRows);
    }
    rows += group.rows;
    bytes += group.bytes;
  }
  return rowGroupRows;
}

/** Level of partitions merged into buckets of a width: 1 below an hour, 2 below a day, 3 from a day on. */
export function levelOfWidth(seconds: number): 1 | 2 | 3 {
  if (seconds < 3600) {
    return 1;
  }
  return seconds < 86_400 ? 2 : 3;
}

/**
 * Cuts partitions into steps, each of one audience, in the order given (by audience, then by time), so
 * that a step's partitions follow each other in time.
 */
export function mergeStepsOf<S extends MergeSource>(sources: readonly S[], limits: StepLimits): S[][] {
  const steps: S[][] = [];
  let step: S[] = [];
  let rows = 0;
  let bytes = 0;
  for (const source of sources) {
    const full =
      step.length >= limits.sources || rows + source.rowCount > limits.rows || bytes + source.fileBytes > limits.bytes;
    if (step.length > 0 && (full || step[0]?.audience !== source.audience)) {
      steps.push(step);
      step = [];
      rows = 0;
      bytes = 0;
    }
    step.push(source);
    rows += source.rowCount;
    bytes += source.fileBytes;
  }
  if (step.length > 0) {
    steps.push(step);
  }
  return steps;
}

/** How many rows of a step fall into a bucket (its number counts from 1970); null: rows without a time. */
interface BucketCount {
  readonly bucket: bigint | null;
  readonly rows: number;
}

/** Rows that go into one object: those of `buckets`, or with `except` those of all others. */
export interface MergeSlice {
  readonly buckets: readonly bigint[];
  readonly except: boolean;
  /** Rows without a time are among them. */
  readonly timeless: boolean;
  readonly rows: number;
}

/**
 * One slice per bucket, in the order of time; beyond `maxSlices` the buckets with the fewest rows share
 * the last one. Rows without a time are in the first slice. Every row is in exactly one slice.
 */
export function slicesOf(counts: readonly BucketCount[], maxSlices: number): MergeSlice[] {
  const timeless = counts.reduce((sum, { bucket, rows }) => sum + (bucket === null ? rows : 0), 0);
  const filled = counts.flatMap(({ bucket, rows }) => (bucket === null ? [] : [{ bucket, rows }]));
  const byTime = (a: { bucket: bigint }, b: { bucket: bigint }): number => (a.bucket < b.bucket ? -1 : 1);
  const largest = filled.toSorted((a, b) => b.rows - a.rows || byTime(a, b));
  const own = filled.length <= maxSlices ? largest : largest.slice(0, maxSlices - 1);
  const shared = largest.slice(own.length);
  const slices: MergeSlice[] = own
    .toSorted(byTime)
    .map(({ bucket, rows }) => ({ buckets: [bucket], except: false, timeless: false, rows }));
  if (shared.length > 0) {
    const rows = shared.reduce((sum, one) => sum + one.rows, 0);
    slices.push({ buckets: own.map(({ bucket }) => bucket), except: true, timeless: false, rows });
  }
  if (timeless === 0) {
    return slices;
  }
  const [first, ...others] = slices;
  if (first === undefined) {
    return [{ buckets: [], except: false, timeless: true, rows: timeless }];
  }
  return [{ ...first, timeless: true, rows: first.rows + timeless }, ...others];
}

const smallest = -(2n ** 63n);
const largest = 2n ** 63n - 1n;

/** First and last nanosecond of a bucket, both included; null where every time is on the right side of it. */
export function boundsOfBucket(
  bucket: bigint,
  widthNs: bigint,
): { readonly firstNs: bigint | null; readonly lastNs: bigint | null } {
  const firstNs = bucket * widthNs;
  const lastNs = firstNs + widthNs - 1n;
  return {
    firstNs: firstNs <= smallest ? null : firstNs,
    lastNs: lastNs >= largest ? null : lastNs,
  };
}
