/** Lakes whose rows have been there for a while, tasks over them, and processes that die while they do them. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { crc32 } from "node:zlib";

import type { TaskContext, TaskPoint } from "../../../src/lake/check/lake-tasks.js";
import type { RetentionPoint } from "../../../src/lake/retention/retention.js";
import type { TableName } from "../../../src/lake/tables/tables.js";
import type { FilePoint } from "./file-points.js";
import type { MergeLab } from "./lake-merge.js";
import { addPartition } from "./lake.js";
import type { MergeWork } from "./merge-work.js";

/** An object to add; see `addPartition`. */
export interface AgedPartition {
  readonly table: TableName;
  readonly audience: string | null;
  readonly rowsSql: string;
  /** When its rows were received: the first of them, and the last. */
  readonly daysAgo?: readonly [number, number];
  /** What the days are counted from; now, unless the rows say when they were received. */
  readonly nowMs?: number;
  readonly level?: 0 | 1 | 2 | 3;
  readonly processIds?: readonly string[];
}

/** Adds an object as it would be after some days, with its true size. */
export async function addAged(lab: MergeLab, o: AgedPartition): Promise<{ readonly path: string }> {
  const nowSeconds = (o.nowMs ?? Date.now()) / 1000;
  const [first, last] = (o.daysAgo ?? [0, 0]).map((days) => nowSeconds - days * 86_400);
  const { path } = await addPartition(lab.lake, lab.sql, o);
  const relative = path.slice(lab.lake.directory.length + 1);
  const bytes = await readFile(path);
  await lab.sql`update lakehouse_partitions set file_bytes = ${bytes.length}, checksum = ${crc32(bytes)}, level = ${o.level ?? 0},
    min_insert_time = to_timestamp(${first ?? 0}::float8), max_insert_time = to_timestamp(${last ?? 0}::float8)
    where path = ${relative}`;
  return { path: relative };
}

/** What a task runs with. */
export function taskContext(lab: MergeLab, more: Partial<TaskContext> = {}): TaskContext {
  return { ...lab.context, ...more };
}

/** Asks for an erasure as the administration does. @returns the task's id */
export async function askErasure(
  lab: MergeLab,
  request: {
    readonly audience: string;
    readonly where: Readonly<Record<string, string | { readonly key: string; readonly value: string }>>;
    readonly begin_ns?: string | null;
    readonly end_ns?: string | null;
  },
): Promise<string> {
  return askTask(lab, "erasure", request);
}

/** Asks for a task. @returns its id */
export async function askTask(lab: MergeLab, kind: "erasure" | "check", request: object): Promise<string> {
  const [row] = await lab.sql<{ id: string }[]>`
    insert into lake_tasks (kind, request, created_by)
    values (${kind}, ${JSON.stringify(request)}::text::jsonb, 'test') returning task_id as id`;
  return row?.id ?? "";
}

/** How a task stands. */
export async function taskRow(lab: MergeLab, taskId: string) {
  const [row] = await lab.sql<
    { state: string; rows: number; rewritten: number; removed: number; error: string | null; report: unknown }[]
  >`
    select state, rows_removed::int as rows, objects_rewritten::int as rewritten, objects_removed::int as removed,
      error, report
    from lake_tasks where task_id = ${taskId}`;
  return row;
}

/** Values of a column in every published object of a table, sorted. */
export async function publishedValues(lab: MergeLab, table: TableName, column: string): Promise<string[]> {
  const paths = await lab.sql<{ path: string }[]>`select path from lakehouse_partitions where view_set = ${table}`;
  if (paths.length === 0) {
    return [];
  }
  const files = paths.map(({ path }) => `'${lab.lake.directory}/${path}'`).join(", ");
  const rows = await lab.duck(
    `SELECT CAST(${column} AS VARCHAR) AS value FROM read_parquet([${files}], union_by_name = true) ORDER BY 1`,
  );
  return rows.map(({ value }) => String(value));
}

/** What a process is given to do. */
type ChildWork =
  | { readonly task: string }
  | { readonly merge: MergeWork }
  | { readonly sweep: true }
  | { readonly retentionDays: number }
  | { readonly trimDays: number };

const workArguments = (lab: MergeLab, work: ChildWork): readonly string[] => [
  lab.connectionString,
  lab.lake.uri,
  lab.context.limits.tempDirectory,
  JSON.stringify(work),
];

/** A process that does a task, or runs retention, and kills itself when it is at a point for the `nth` time. */
export async function dieAt(
  lab: MergeLab,
  work: ChildWork,
  point: TaskPoint | RetentionPoint | FilePoint,
  nth = 1,
): Promise<void> {
  await killedChild("./lake-task-child.js", point, nth, workArguments(lab, work));
}

/**
 * A process that does some work while files can have so many bytes and no more, as on a disk that is full (prlimit(1)).
 * @returns its exit code
 */
export async function workOnFullDisk(lab: MergeLab, work: ChildWork, mostBytes: number): Promise<number | null> {
  const entry = fileURLToPath(new URL("./lake-task-child.js", import.meta.url));
  const args = [`--fsize=${mostBytes}`, process.execPath, entry, ...workArguments(lab, work)];
  const [code] = (await once(spawn("prlimit", args, { stdio: "ignore" }), "exit")) as [number | null];
  return code;
}

/** Starts a program beside this file. */
export function startChild(program: `./${string}.js`, args: readonly string[]): ChildProcess {
  const entry = fileURLToPath(new URL(program, import.meta.url));
  return spawn(process.execPath, [entry, ...args], { stdio: ["ignore", "inherit", "inherit"] });
}

/** Runs a program beside this file, which kills itself when it is at a point for the `nth` time. */
export async function killedChild(
  program: `./${string}.js`,
  point: string,
  nth: number,
  args: readonly string[],
): Promise<void> {
  const [, signal] = (await once(startChild(program, [...args, point, String(nth)]), "exit")) as [
    number | null,
    string | null,
  ];
  if (signal !== "SIGKILL") {
    throw new Error(`the process was never at ${point} for the ${nth}. time`);
  }
}
