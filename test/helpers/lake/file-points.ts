/** Points within the writing and removing of files, for processes that kill themselves there. */
import fs from "node:fs";
import { syncBuiltinESMExports } from "node:module";

/** What is about to be done: to a file's bytes, its name, what the disk has of it, of its directory, and to all of it. */
export type FilePoint = "write" | "rename" | "datasync" | "sync" | "remove";

/**
 * Has the calls by which objects are written and removed tell where they are, before they do what they are called for.
 * Of the whole process and for good.
 */
export function watchFiles(at: (point: FilePoint) => void): void {
  const before =
    <A extends unknown[], R>(point: FilePoint, call: (...args: A) => R) =>
    (...args: A): R => {
      at(point);
      return call(...args);
    };
  Object.assign(fs, {
    writevSync: before("write", fs.writevSync),
    renameSync: before("rename", fs.renameSync),
    fdatasyncSync: before("datasync", fs.fdatasyncSync),
    fsyncSync: before("sync", fs.fsyncSync),
    fdatasync: before("datasync", fs.fdatasync),
    fsync: before("sync", fs.fsync),
  });
  fs.promises.rm = before("remove", fs.promises.rm);
  syncBuiltinESMExports();
}
