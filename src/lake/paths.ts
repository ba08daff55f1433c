/** Where objects lie in the store. The layout is documented in docs/schema.md. */
import { createHash } from "node:crypto";
import type { TableName } from "./tables.js";

/** Longest audience that fits a directory name (255 bytes on common file systems) with its prefix. */
const maximumPlainAudience = 200;

/**
 * The directory of an audience. Legal audiences hold neither `=` nor anything but `[A-Za-z0-9_-]`, so
 * neither `unstamped` nor the hashed form of a very long audience can be mistaken for another's.
 */
function audienceDirectory(audience: string | null): string {
  if (audience === null) return "unstamped";
  if (audience.length <= maximumPlainAudience) return `audience=${audience}`;
  return `audience-sha256=${createHash("sha256").update(audience).digest("hex")}`;
}

/**
 * Path of a level 0 object, relative to the store's root:
 * `log_entries/audience=public/2026-11-21/<partition id>.l0.parquet`. The date is that of
 * `insertTimeMs` (milliseconds since 1970) in UTC.
 */
export function objectPath(
  table: TableName,
  audience: string | null,
  insertTimeMs: number,
  partitionId: string,
): string {
  const date = new Date(insertTimeMs).toISOString().slice(0, 10);
  return `${table}/${audienceDirectory(audience)}/${date}/${partitionId}.l0.parquet`;
}
