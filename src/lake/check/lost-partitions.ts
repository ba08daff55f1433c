/** Partitions that leave the catalogue because their objects are gone or broken, and come back with them. */
import type { Sql } from "../../db/sql.js";
import type { ObjectStore } from "../store/object-store.js";
import type { TableName } from "../tables/tables.js";
import { type CheckedPartition, type LakeReportBuilder, wordsOf } from "./lake-report.js";

/** Reports a partition whose object cannot be used; with `repair` it leaves the catalogue, if it is still there. */
export async function loseLost(
  sql: Sql,
  report: LakeReportBuilder,
  partition: CheckedPartition,
  kind: "missing" | "unreadable",
  detail: string,
  repair: boolean,
): Promise<void> {
  const standing = repair
    ? await sql`
        with gone as (
          delete from lakehouse_partitions where partition_id = ${partition.partitionId} returning *
        )
        insert into lost_partitions (partition_id, path, reason, partition)
        select partition_id, path, ${kind}, to_jsonb(gone) from gone`
    : await sql`select from lakehouse_partitions where partition_id = ${partition.partitionId}`;
  // Somebody merged or retired it since it was listed.
  if (standing.count > 0) {
    report.add({ ...wordsOf(partition), kind, mended: repair, detail });
  }
}

interface LostPartition {
  readonly partitionId: string;
  readonly path: string;
  readonly reason: string;
  readonly viewSet: TableName;
  readonly audience: string | null;
  readonly rowCount: number;
  readonly fileBytes: number;
  readonly lostMs: number;
}

/**
 * Reports what earlier repairs took out. With `repair`, what has its object back, as large as it was, is in the
 * catalogue again; if that cannot be read either, the check that follows takes it out once more.
 */
export async function restoreReturned(
  sql: Sql,
  store: ObjectStore,
  report: LakeReportBuilder,
  repair: boolean,
): Promise<void> {
  const lost = await sql<LostPartition[]>`
    select partition_id as "partitionId", path, reason, partition ->> 'view_set' as "viewSet",
      partition ->> 'audience' as audience, (partition ->> 'row_count')::float8 as "rowCount",
      (partition ->> 'file_bytes')::float8 as "fileBytes",
      (extract(epoch from lost_at) * 1000)::float8 as "lostMs"
    from lost_partitions order by path`;
  for (const partition of lost) {
    const back = await hasObject(store, partition);
    if (back && repair) {
      // Its roll-up has been retired.
      await sql`
        with back as (
          delete from lost_partitions where partition_id = ${partition.partitionId} returning partition
        )
        insert into lakehouse_partitions
        select whole.* from back, jsonb_populate_record(
          null::lakehouse_partitions, back.partition - 'rollup_path' - 'rollup_bytes') as whole`;
    }
    const detail = back ? "the object is back" : `its object is ${partition.reason}`;
    report.add({ ...wordsOf(partition), kind: back ? "returned" : "lost", mended: back && repair, detail });
  }
}

/** Whether the object is there as it was; one that could not be read has to be another one since. */
async function hasObject(store: ObjectStore, { path, reason, fileBytes, lostMs }: LostPartition): Promise<boolean> {
  for await (const found of store.list(path.slice(0, path.lastIndexOf("/")))) {
    if (found.path === path) {
      return found.bytes === fileBytes && (reason === "missing" || found.modifiedMs > lostMs);
    }
  }
  return false;
}
