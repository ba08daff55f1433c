/** Making a finished file an object. */
import { chmodSync, renameSync, statSync } from "node:fs";
import { dirname } from "node:path";

import { fileMode, makeDurableDirectory, syncPath } from "./file-store.js";
import type { ObjectStore } from "./object-store.js";

/** Makes a finished file an object of the store, durably, and says how large it is. */
export async function settleObject(store: ObjectStore, path: string, temporary: string): Promise<number> {
  const file = store.localPath(path);
  if (file === null) {
    if (store.remote === null) {
      throw new TypeError("an object is neither a file nor behind a network");
    }
    return store.remote.putFile(path, temporary);
  }
  makeDurableDirectory(dirname(file), file.slice(0, -path.length - 1) || "/");
  chmodSync(temporary, fileMode);
  syncPath(temporary);
  renameSync(temporary, file);
  syncPath(dirname(file));
  return statSync(file).size;
}
