/** Objects that are gone or damaged, as against a store that nobody can read at present, or a machine that lacks something. */
import { ServiceError } from "../runtime/errors.js";
import { DamagedObject, type ObjectStore } from "./store/object-store.js";

/** Objects that a message names. */
const maxNamed = 5;

/** Objects that are gone, or are not what was stored. Trying again does not help; the others can do without them. */
export class BadObjects extends ServiceError {
  readonly paths: readonly string[];

  /** @param options.afterwards a sentence that says what comes after that */
  constructor(paths: readonly string[], options?: { readonly cause?: unknown; readonly afterwards?: string }) {
    const [what, them] = paths.length === 1 ? ["An object is", "it"] : [`${paths.length} objects are`, "them"];
    const more = paths.length - maxNamed;
    const named = `${paths.slice(0, maxNamed).join(", ")}${more > 0 ? `, and ${more} more` : ""}`;
    const path = paths.length === 1 ? paths[0] : "<path>";
    super(
      "INTERNAL",
      `${what} missing or damaged: ${named}. Restore ${them} from a backup, or run telemetry lake check --deep --repair to go on without ${them}. It leaves one whose bytes have changed: copy its file, then run SELECT * FROM retire_partition_by_file('${path}') as an administrator who may read its audience; all its rows go, and its file an hour later.${options?.afterwards === undefined ? "" : ` ${options.afterwards}`}`,
      options,
    );
    this.paths = paths;
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
  if (error instanceof RefusedFile) {
    return false;
  }
  if (error instanceof ServiceError) {
    return error.code !== "NOT_FOUND" && !(error instanceof DamagedObject) && !(error instanceof BadObjects);
  }
  // Errors of the operating system name a call: they are about files that objects are brought to.
  return error instanceof Error && ("syscall" in error || ownTrouble.test(error.message));
}

/** What DuckDB says, with the system's words after it, of a file that it cannot find, open or read. */
const refusal =
  /(?:Cannot open|Could not read from|Failed to get (?:file size|stats) for) file "|No files found that match/u;

/**
 * Whether the system keeps a file from being read: rights, a mount that is gone, a disk. It says nothing about what is in
 * the file, so a repair leaves that alone.
 */
export function isRefused(error: unknown): boolean {
  return error instanceof RefusedFile || (error instanceof Error && refusal.test(error.message));
}

/** The system's own words for that, where this process reads an object's file itself. */
class RefusedFile extends Error {}

/** What the system says of an object's file: of the store's own, that it refuses it. */
export function asRefused({ remote }: Pick<ObjectStore, "remote">, error: unknown): unknown {
  return remote === null && error instanceof Error && "code" in error && refusalCodes.has(String(error.code))
    ? new RefusedFile(error.message, { cause: error })
    : error;
}

/** The codes of the system for a file that is gone, or that rights, a mount or a disk keep from being read. */
export const refusalCodes: ReadonlySet<string> = new Set(["ENOENT", "EACCES", "EIO", "ESTALE"]);
