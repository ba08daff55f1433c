/** Which objects a query need not open, because their roll-ups say the same. */
import type { HeldFiles, NeededObject } from "../lake/cache/lake-files.js";
import type { Partition } from "../lake/catalogue.js";
import { isReadableRollup } from "../lake/rollup/rollup.js";
import type { TableName } from "../lake/tables/tables.js";
import type { FileGroup } from "./sql/file-source.js";
import type { RolledObjects } from "./sql/file-view.js";

/** The roll-up of an object, if it may stand for its rows; else null. */
export function rollupOf(
  table: TableName,
  partition: Partition,
  wanted: NeededObject["wanted"],
  objects: RolledObjects,
): NeededObject | null {
  const { rollupPath, rollupBytes, rollupChecksum, minTimeNs, maxTimeNs } = partition;
  if (rollupPath === null || rollupBytes === null || minTimeNs === null || maxTimeNs === null) {
    return null;
  }
  const { minTimeNs: first = minTimeNs, maxTimeNs: last = maxTimeNs } = wanted;
  const isWhole = minTimeNs >= first && maxTimeNs <= last;
  return isReadableRollup(table, rollupPath) && (isWhole || objects === "any")
    ? { ...partition, path: rollupPath, fileBytes: rollupBytes, checksum: rollupChecksum, rowCount: null, wanted }
    : null;
}

/** The files of roll-ups by audience: all that are read have one schema. */
export function rollupGroups(
  objects: readonly { readonly audience: string | null; readonly rollup: NeededObject | null }[],
  unstampedAudience: string,
  fileOf: HeldFiles["fileOf"],
): FileGroup[] {
  const groups = new Map<string, string[]>();
  for (const { rollup, audience: stamped } of objects) {
    const audience = stamped ?? unstampedAudience;
    const file = rollup === null ? null : fileOf(rollup);
    if (file === null) {
      continue;
    }
    const paths = groups.get(audience);
    if (paths === undefined) {
      groups.set(audience, [file]);
    } else {
      paths.push(file);
    }
  }
  return [...groups].map(([audience, paths]) => ({ audience, paths }));
}
