/** Paths of objects in the store. docs/schema.md documents the layout. */
import { createHash } from "node:crypto";
import type { TableName } from "../tables/tables.js";

/** Longest audience that fits a directory name (255 bytes on common file systems) with its prefix. */
const maximumPlainAudience = 200;

/**
 * The directory of an audience. Legal audiences hold neither `=` nor anything but `[A-Za-z0-9_-]`, so
 * neither `unstamped` nor the hashed form of a very long audience can be mistaken for another's.
 */
function audienceDirectory(audience: string | null): string {
  if (audience === null) {
    return "unstamped";
  }
  if (audience.length <= maximumPlainAudience) {
    return `audience=${audience}`;
  }
  return `audience-sha256=${createHash("sha256").update(audience).digest("hex")}`;
}

/** Directory of an audience's objects in a table, relative to the store's root. */
export function objectDirectory(table: string, audience: string | null): string {
  return `${table}/${audienceDirectory(audience)}`;
}

/**
 * Path of a merged object: like that of one of level 0, but the date is that of the rows' own time
 * (`timeMs`, milliseconds since 1970).
 */
export function mergedObjectPath(
  table: TableName,
  audience: string | null,
  level: 1 | 2 | 3,
  timeMs: number,
  partitionId: string,
): string {
  const date = new Date(timeMs).toISOString().slice(0, 10);
  return `${objectDirectory(table, audience)}/${date}/${partitionId}.l${level}.parquet`;
}

/**
 * Path of a level 0 object, relative to the store's root: `log_entries/audience=public/2026-11-21/<partition
 * id>.l0.parquet`. The date is that of `insertTimeMs` (milliseconds since 1970) in UTC.
 */
export function objectPath(
  table: TableName,
  audience: string | null,
  insertTimeMs: number,
  partitionId: string,
): string {
  const date = new Date(insertTimeMs).toISOString().slice(0, 10);
  return `${objectDirectory(table, audience)}/${date}/${partitionId}.l0.parquet`;
}
