/** What the store holds, as a check sees it. */
import { ServiceError } from "../../runtime/errors.js";
import type { ObjectStore } from "../store/object-store.js";
import type { TableName } from "../tables/tables.js";

/** An object of the store. */
export interface Listed {
  readonly bytes: number;
  readonly modifiedMs: number;
}

/** The objects of a table by path. */
export async function listTable(store: ObjectStore, viewSet: TableName): Promise<Map<string, Listed>> {
  const stored = new Map<string, Listed>();
  for await (const { path, bytes, modifiedMs } of store.list(viewSet)) {
    stored.set(path, { bytes, modifiedMs });
  }
  return stored;
}

/** Looks for an object that a list did not have. */
export async function findObject(
  store: ObjectStore,
  { path, fileBytes }: { readonly path: string; readonly fileBytes: number },
): Promise<Listed | null> {
  for await (const found of store.list(path.slice(0, path.lastIndexOf("/")))) {
    if (found.path === path) {
      return found;
    }
  }
  // A list may lag behind; what can be read is there.
  try {
    const first = { start: 0, length: 1 };
    const { signal } = new AbortController();
    await store.remote?.read(path, first, () => Promise.resolve(), signal);
    return store.remote === null ? null : { bytes: fileBytes, modifiedMs: 0 };
  } catch (error) {
    if (error instanceof ServiceError && error.code === "NOT_FOUND") {
      return null;
    }
    throw error;
  }
}
