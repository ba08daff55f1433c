/** Making a finished file an object. */
import { chmodSync, renameSync, statSync } from "node:fs";
import { dirname } from "node:path";

import { checksumOfFile } from "./checksum.js";
import { fileMode, makeDurableDirectory, syncPath } from "./file-store.js";
import type { ObjectStore, Written } from "./object-store.js";

/** Makes a finished file an object of the store, durably. */
export async function settleObject(store: ObjectStore, path: string, temporary: string): Promise<Written> {
  const file = store.localPath(path);
  if (file === null) {
    if (store.remote === null) {
      throw new TypeError("an object is neither a file nor behind a network");
    }
    return store.remote.putFile(path, temporary);
  }
  const written = { fileBytes: statSync(temporary).size, checksum: await checksumOfFile(temporary) };
  makeDurableDirectory(dirname(file), file.slice(0, -path.length - 1) || "/");
  chmodSync(temporary, fileMode);
  syncPath(temporary);
  renameSync(temporary, file);
  syncPath(dirname(file));
  return written;
}
