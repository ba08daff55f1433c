/**
 * Where Parquet objects live. Paths are relative, with `/` between segments of `[A-Za-z0-9._=-]`.
 * open-store.ts opens the one that a URI names.
 */
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
  /**
   * Stores a new object. When this resolves the object survives a power failure; when it rejects, no object is visible.
   */
  put(path: string, chunks: readonly Uint8Array[]): Promise<void>;
  /**
   * The same for an object that comes in parts, which are not gathered in memory.
   * @returns its bytes. @throws what `parts` throws as well; no object is visible then
   */
  putParts(path: string, parts: AsyncIterable<Uint8Array>): Promise<number>;
  /** Removes an object; removing what is not there is no error. */
  remove(path: string): Promise<void>;
  /** Everything below a directory (the whole store for ""), unfinished temporary objects included. */
  list(prefix: string): AsyncIterable<StoredObject>;
  /** Rejects when objects can not be written at present. */
  probe(): Promise<void>;
  /** The object as a file of this machine, for readers that open files; null when it is not one. */
  localPath(path: string): string | null;
}
