/** Removing directories of days whose objects are all gone. */
import { readdir, rmdir, stat } from "node:fs/promises";
import { join } from "node:path";

import { errorCode, unavailable } from "./file-store.js";

/**
 * Removes directories of days from that of a table: empty ones in which nothing has come or gone since `beforeMs`.
 * Callers keep away from days that rows arrive on. Writers make a directory again that is gone.
 * @throws ServiceError UNAVAILABLE
 */
export async function removeEmptyDays(table: string, beforeMs: number): Promise<number> {
  let removed = 0;
  for (const audience of await subdirectories(table)) {
    for (const day of await subdirectories(audience)) {
      try {
        if ((await stat(day)).mtimeMs < beforeMs) {
          await rmdir(day);
          removed++;
        }
      } catch (error) {
        if (!["ENOTEMPTY", "EEXIST", "ENOENT"].includes(errorCode(error) ?? "")) {
          throw unavailable("remove an empty directory", error);
        }
      }
    }
  }
  return removed;
}

async function subdirectories(directory: string): Promise<string[]> {
  try {
    const entries = await readdir(directory, { withFileTypes: true });
    return entries.flatMap((entry) => (entry.isDirectory() ? [join(directory, entry.name)] : []));
  } catch (error) {
    if (errorCode(error) === "ENOENT") {
      return [];
    }
    throw unavailable("be listed", error);
  }
}
