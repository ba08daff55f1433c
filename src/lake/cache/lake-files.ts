/** The objects that a query reads as files that an engine opens. */
import type { Partition } from "../catalogue.js";
import type { ObjectStore } from "../store/object-store.js";
import { ServiceError } from "../../runtime/errors.js";

/** An object that a query reads. */
export interface NeededObject extends Pick<
  Partition,
  "path" | "fileBytes" | "checksum" | "level" | "minTimeNs" | "maxTimeNs"
> {
  /** Rows of the file; null of a roll-up, since the catalogue does not say. */
  readonly rowCount: number | null;
  /** Rows at these times are wanted, both ends included, nanoseconds since 1970 UTC; others may be missing. */
  readonly wanted: { readonly minTimeNs: bigint | undefined; readonly maxTimeNs: bigint | undefined };
}

/** Files that stay until they are released. */
export interface HeldFiles {
  /** Absolute; null when the object has no row that is wanted. */
  fileOf(object: NeededObject): string | null;
  /** Once the query is over. @param suspect the query failed, perhaps because of a file */
  release(suspect: boolean): void;
}

/** Where the lake is, for engines. */
export interface LakeFiles {
  /** The directory, absolute, of the files of all objects below a directory of the store. */
  directory(path: string): string;
  /**
   * Makes files of objects.
   * @throws ServiceError UNAVAILABLE when the store cannot be read; PAYLOAD_TOO_LARGE when they are too many for this
   *   machine; CANCELLED, or what `signal` was aborted with
   */
  hold(objects: readonly NeededObject[], signal: AbortSignal): Promise<HeldFiles>;
}

/** Objects that are files already. */
export function localFiles(store: ObjectStore): LakeFiles {
  const localPath = (path: string): string => {
    const file = store.localPath(path);
    if (file === null) {
      throw new ServiceError("INTERNAL", "an object is not a file of this machine");
    }
    return file;
  };
  const held: HeldFiles = { fileOf: ({ path }) => localPath(path), release: () => undefined };
  return { directory: localPath, hold: () => Promise.resolve(held) };
}
