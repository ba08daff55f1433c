import { resolve } from "node:path";
import { pathToFileURL } from "node:url";

/** Where objects are: `SVC_OBJECT_STORE_URI`, or else the folder `lake` of the data directory. */
export function objectStoreUriOf(config: { readonly objectStoreUri: string | null; readonly dataDir: string }): string {
  return config.objectStoreUri ?? pathToFileURL(resolve(config.dataDir, "lake")).href;
}
