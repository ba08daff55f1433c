/**
 * Where Parquet objects live. Paths are relative, with `/` between segments of `[A-Za-z0-9._=-]`.
 * open-store.ts opens the one that a URI names.
 */
import { ServiceError } from "../../runtime/errors.js";

/** Beside the tables: objects of probes, tiny and soon removed. */
export const probeDirectory = ".probe";
/** Beside the tables: maps that screens of the web application show. */
export const mapDirectory = "web/maps";

/** An object as `list` finds it. */
export interface StoredObject {
  readonly path: string;
  readonly bytes: number;
  /** Milliseconds since 1970. */
  readonly modifiedMs: number;
}

/** What was stored as an object: enough to tell later whether it is still that. */
export interface Written {
  readonly fileBytes: number;
  /** CRC-32 */
  readonly checksum: number;
}

/** Bytes `start` to `start + length - 1` of an object. */
export interface ByteRange {
  readonly start: number;
  readonly length: number;
}

/**
 * A place for immutable objects. Failures that may pass (no space, I/O errors, permissions, no network) are
 * `ServiceError` UNAVAILABLE; a path outside the store is BAD_REQUEST.
 */
export interface ObjectStore {
  readonly uri: string;
  /**
   * Stores a new object. When this resolves the object survives a power failure. When it rejects the store has nothing,
   * or, behind a network, an object that nobody knows of; `remove` takes that away. The memory of chunks may be used again
   * as soon as it has returned.
   * @param among whether others are stored at the same time; default false
   */
  put(path: string, chunks: readonly Uint8Array[], among?: boolean): Promise<void>;
  /**
   * The same for an object that comes in parts, which are not gathered in memory.
   * @returns its bytes. @throws what `parts` throws as well; no object is visible then
   */
  putParts(path: string, parts: AsyncIterable<Uint8Array>): Promise<number>;
  /** Removes an object; removing what is not there is no error. */
  remove(path: string): Promise<void>;
  /** Everything below a directory (the whole store for ""), unfinished temporary objects included. */
  list(prefix: string): AsyncIterable<StoredObject>;
  /** Bytes of an object. @throws ServiceError NOT_FOUND; what `signal` was aborted with */
  size(path: string, signal: AbortSignal): Promise<number>;
  /** Rejects when objects can not be written at present. */
  probe(): Promise<void>;
  /** Rejects when objects can not be read at present. It writes nothing, and needs no right to. */
  probeReads(): Promise<void>;
  /** The object as a file of this machine, for readers that open files; null when it is not one. */
  localPath(path: string): string | null;
  /** How to read objects that are not files of this machine, and to write large ones; null when they are. */
  readonly remote: RemoteObjects | null;
}

/** Objects behind a network. Several calls may run at once. Failures are those of {@link ObjectStore}. */
export interface RemoteObjects {
  /** Stores a file as a new object, as `put` does; large ones in parts. */
  putFile(path: string, file: string): Promise<Written>;
  /**
   * Reads an object, or a range of it, and hands its bytes over in order; what breaks off goes on where it stopped.
   * @param onBytes takes bytes and where they lie in the object; reading waits for it
   * @param size of the whole object, where the caller knows it
   * @throws ServiceError NOT_FOUND; DamagedObject when bytes are missing or differ from what was stored
   */
  read(path: string, range: ByteRange | null, onBytes: OnBytes, signal: AbortSignal, size?: number): Promise<void>;
  /**
   * Makes sure at the start that the store keeps what the service relies on: an object that exists is not replaced.
   * @throws ServiceError NOT_CONFIGURED when it does not, with what to do; UNAVAILABLE when it cannot be asked
   */
  verify(): Promise<void>;
}

/** See {@link RemoteObjects.read}. */
export type OnBytes = (bytes: Uint8Array, at: number) => Promise<void>;

/** An object that is not what was stored. To callers it is as if the store could not be read. */
export class DamagedObject extends ServiceError {
  constructor(message: string, options?: { readonly cause?: unknown }) {
    super("UNAVAILABLE", message, options);
  }
}

const maximumPathLength = 1024;

/** Not `.` and not `..`. */
const segment = String.raw`(?!\.{1,2}(?:/|$))[A-Za-z0-9._=-]+`;
const harmless = new RegExp(`^${segment}(?:/${segment})*$`);

/**
 * Lets a path pass whose every segment is made of harmless characters and none leads out or up.
 * @throws ServiceError BAD_REQUEST
 */
export function checkPath(path: string): void {
  if (path.length > maximumPathLength || !harmless.test(path)) {
    throw new ServiceError("BAD_REQUEST", "not a path of the object store");
  }
}
