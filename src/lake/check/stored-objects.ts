/** What the store holds, as a check sees it, and which failures say nothing about it. */
import { ServiceError } from "../../runtime/errors.js";
import { DamagedObject, type ObjectStore } from "../store/object-store.js";
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

/** What DuckDB says of its own memory and disk, and of the files that this machine lets it open; and the end of its process. */
const ownTrouble =
  /^(?:Out of Memory|INTERRUPT|FATAL) Error:|^the process that merges has ended|No space left on device|Too many open files|Could not write|Cannot allocate memory/iu;

/**
 * Whether a failure says nothing about an object: the store cannot be read at present, or this machine lacks the memory,
 * disk or files to read it. A repair must not take objects for broken that are whole.
 */
export function isOutage(error: unknown): boolean {
  if (error instanceof ServiceError) {
    return error.code !== "NOT_FOUND" && !(error instanceof DamagedObject);
  }
  // Errors of the operating system name a call: they are about files that objects are brought to.
  return error instanceof Error && ("syscall" in error || ownTrouble.test(error.message));
}
