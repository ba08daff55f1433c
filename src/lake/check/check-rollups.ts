/**
 * Checking roll-ups: each is there, as large as the catalogue says, with its checksum, and counts the rows of its object.
 * They are small, so they are always read. A repair takes those out that are not so: queries read the rows then.
 */
import type { Sql } from "../../db/sql.js";
import { ServiceError } from "../../runtime/errors.js";
import { isOutage, isRefused } from "../bad-objects.js";
import { bringObjects } from "../merge/local-objects.js";
import { isReadableRollup } from "../rollup/rollup.js";
import { rolledRowsSql } from "../rollup/write-rollup.js";
import type { TableName } from "../tables/tables.js";
import type { TableCheck } from "./check-lake.js";
import { type CheckedPartition, type LakeProblemKind, wordsOf } from "./lake-report.js";
import { checksumOfObject, findObject, otherBytes } from "./stored-objects.js";

/** `path`, `fileBytes` and `checksum` are of the roll-up, `rowCount` of the object. */
type CheckedRollup = CheckedPartition;

const pageRollups = 500;

/** Roll-ups that are named leave `stored` as well. */
export async function checkRollups(table: TableCheck): Promise<void> {
  const { sql, store, viewSet, stored, cancelled } = table;
  let after: CheckedRollup | null = null;
  for (;;) {
    const page: readonly CheckedRollup[] = await rollupsAfter(sql, viewSet, after);
    for (const rollup of page) {
      if (cancelled()) {
        throw new ServiceError("CANCELLED");
      }
      const listed = stored.get(rollup.path) ?? (await findObject(store, rollup));
      stored.delete(rollup.path);
      if (listed === null) {
        await dropRollup(table, rollup, "missing", "the roll-up is not in the store");
      } else if (listed.bytes === rollup.fileBytes) {
        await checkCounts(table, rollup);
      } else {
        const detail = `${listed.bytes} bytes instead of ${rollup.fileBytes}`;
        await dropRollup(table, rollup, "wrong_size", detail);
      }
    }
    after = page.at(-1) ?? null;
    if (page.length < pageRollups) {
      return;
    }
  }
}

function rollupsAfter(sql: Sql, viewSet: TableName, after: CheckedRollup | null): Promise<CheckedRollup[]> {
  return sql<CheckedRollup[]>`
    select partition_id as "partitionId", view_set as "viewSet", audience, rollup_path as path,
      rollup_bytes::float8 as "fileBytes", row_count::float8 as "rowCount",
      rollup_checksum::float8 as checksum
    from lakehouse_partitions
    where view_set = ${viewSet} and rollup_path is not null
      ${after === null ? sql`` : sql`and partition_id > ${after.partitionId}::uuid`}
    order by partition_id limit ${pageRollups}`;
}

async function checkCounts(table: TableCheck, rollup: CheckedRollup): Promise<void> {
  const engine = table.engineOf(rollup.audience);
  // Another version's may have other columns.
  if (!isReadableRollup(rollup.viewSet, rollup.path)) {
    return;
  }
  try {
    const local = await bringObjects(table, [rollup]);
    try {
      const [file] = local.files;
      const [counted] = file === undefined ? [] : await engine.rows(rolledRowsSql(rollup.viewSet, file.file));
      const rows = Number(counted?.[0] ?? 0);
      if (rows !== rollup.rowCount) {
        const detail = `a roll-up of ${rows} rows instead of ${rollup.rowCount}`;
        await dropRollup(table, rollup, "wrong_rows", detail);
      } else if (
        rollup.checksum !== null &&
        file !== undefined &&
        (await checksumOfObject(table, file.file)) !== rollup.checksum
      ) {
        await dropRollup(table, rollup, "wrong_checksum", otherBytes);
      }
    } finally {
      local.release();
    }
  } catch (error) {
    if (table.cancelled() || isOutage(error)) {
      throw error;
    }
    const mend = table.repair && !isRefused(error);
    await dropRollup(table, rollup, "unreadable", "the roll-up cannot be read", mend);
  }
}

/** Reports a roll-up that cannot be used; with `repair` it leaves the catalogue, if it is still there. */
async function dropRollup(
  table: TableCheck,
  rollup: CheckedRollup,
  kind: LakeProblemKind,
  detail: string,
  repair = table.repair,
): Promise<void> {
  const { sql, report } = table;
  const { partitionId, path } = rollup;
  const standing = repair
    ? await sql`update lakehouse_partitions set rollup_path = null, rollup_bytes = null, rollup_checksum = null
        where partition_id = ${partitionId} and rollup_path = ${path}`
    : await sql`select from lakehouse_partitions where partition_id = ${partitionId} and rollup_path = ${path}`;
  if (standing.count > 0) {
    report.add({ ...wordsOf(rollup), kind, mended: repair, detail });
  }
}
