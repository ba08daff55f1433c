/** How many rows a query wants, as far as the catalogue tells. */
import type { NeededObject } from "../lake/cache/lake-files.js";
import type { Partition } from "../lake/catalogue.js";

/** What has to be known of an object. */
type CountedObject = Pick<Partition, "rowCount" | "minTimeNs" | "maxTimeNs"> & Pick<NeededObject, "wanted">;

/** Rows of an object may all be of a part of its time, so that of all rows at least this part is expected. */
const leastPart = 1 / 16;

/** Rows of objects in the wanted times, as if each object had its rows evenly. */
export function rowsInTime(objects: readonly CountedObject[]): number {
  return objects.reduce((sum, object) => sum + object.rowCount * wantedPart(object), 0);
}

/** The same, as far as it can be relied on. */
export function rowsWanted(objects: readonly CountedObject[]): number {
  const all = objects.reduce((sum, { rowCount }) => sum + rowCount, 0);
  return Math.max(rowsInTime(objects), all * leastPart);
}

function wantedPart({ minTimeNs: min, maxTimeNs: max, wanted }: CountedObject): number {
  if (min === null || max === null) {
    return 1;
  }
  const { minTimeNs: begin = min, maxTimeNs: end = max } = wanted;
  if (begin <= min && max <= end) {
    return 1;
  }
  const first = begin > min ? begin : min;
  const last = end < max ? end : max;
  return last < first ? 0 : Number(last - first + 1n) / Number(max - min + 1n);
}
