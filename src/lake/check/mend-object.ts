/** What a check makes of objects with pages that this writer once broke: it tells of them, and a repair mends them. */
import { isOutage, isRefused } from "../bad-objects.js";
import { type MendedObject, mendedBytes, putMended, replaceObject } from "../rewrite/mend-object.js";
import type { MergeEngine } from "../merge/merge-engine.js";
import { publish } from "../merge/merge-publish.js";
import { withLockedTable } from "../rewrite/with-table.js";
import type { TableCheck } from "./check-lake.js";
import type { CheckedPartition } from "./lake-report.js";

/** What such an object is, in words. */
const brokenPages = "an earlier version wrote pages that nobody can read";

/** What can be done, or was, about an object that cannot be read. */
interface Mending {
  readonly words: string;
  /** What stands for the object now; null when nothing was changed. */
  readonly object: MendedObject | null;
}

/**
 * Gives a partition whose object nobody can read another one in its place, with `repair`.
 * @param namedIn where it is
 * @returns null when its object has another fault
 * @throws ServiceError UNAVAILABLE, CANCELLED; the database's errors
 */
export async function mendObject(
  table: TableCheck,
  engine: MergeEngine,
  partition: CheckedPartition,
  namedIn: "lakehouse_partitions" | "lost_partitions",
): Promise<Mending | null> {
  const { viewSet, repair, cancelled } = table;
  let bytes: Uint8Array | null;
  try {
    bytes = await mendedBytes(table, partition);
  } catch (error) {
    if (cancelled() || isOutage(error)) {
      throw error;
    }
    return isRefused(error) ? { words: "the system does not let it be read", object: null } : null;
  }
  if (bytes === null) {
    return null;
  }
  const object = repair
    ? await putMended(table, engine, partition, bytes, (mended, assertInTime) =>
        withLockedTable(table, viewSet, (connection) => {
          assertInTime();
          return publish(connection, { viewSet }, () => replaceObject(connection, namedIn, partition, mended));
        }),
      )
    : "stays";
  if (object === null) {
    return null;
  }
  return object === "stays"
    ? { words: `${brokenPages}; a repair gets all rows back`, object: null }
    : { words: `${brokenPages}; all rows are in ${object.path} now`, object };
}
