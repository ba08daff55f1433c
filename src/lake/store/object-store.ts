/**
 * Where Parquet objects live. Paths are relative, with `/` between segments of `[A-Za-z0-9._=-]`.
 * `file:` is implemented in file-store.ts; another scheme is another function that returns ObjectStore.
 */
import { ServiceError } from "../../runtime/errors.js";
import { openFileStore } from "./file-store.js";

/** An object as `list` finds it. */
export interface StoredObject {
  readonly path: string;
  readonly bytes: number;
  /** Milliseconds since 1970. */
  readonly modifiedMs: number;
}

/**
 * A place for immutable objects. Failures that may pass (no space, I/O errors, permissions) are
 * `ServiceError` UNAVAILABLE; a path outside the store is BAD_REQUEST.
 */
export interface ObjectStore {
  readonly uri: string;
  /** Stores a new object. When this resolves the object survives a power failure; when it rejects, no object is visible. */
  put(path: string, chunks: readonly Uint8Array[]): Promise<void>;
  /** Removes an object; removing what is not there is no error. */
  remove(path: string): Promise<void>;
  /** Everything below a directory (the whole store for ""), unfinished temporary objects included. */
  list(prefix: string): AsyncIterable<StoredObject>;
  /** Rejects when objects can not be written at present. */
  probe(): Promise<void>;
  /** The object as a file of this machine, for readers that open files; null when it is not one. */
  localPath(path: string): string | null;
}

/**
 * Opens the store that a URI names, creating its directory if needed.
 *
 * @throws {ServiceError} NOT_CONFIGURED for a URI of another scheme; UNAVAILABLE when the directory
 *   cannot be created.
 */
export async function openObjectStore(uri: string): Promise<ObjectStore> {
  if (uri.startsWith("file:")) return openFileStore(uri);
  if (uri.startsWith("s3:")) {
    throw new ServiceError(
      "NOT_CONFIGURED",
      "s3:// object stores are not supported by this version; set SVC_OBJECT_STORE_URI to a file:///path.",
    );
  }
  throw new ServiceError(
    "NOT_CONFIGURED",
    "SVC_OBJECT_STORE_URI must be a URI such as file:///var/lib/telemetry/lake.",
  );
}
