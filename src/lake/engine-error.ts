/** Failures of DuckDB's, where it works for the lake: about SQL, files and limits of ours, so its words are not for callers. */
import { isConnectionError } from "../db/sql.js";
import { ServiceError } from "../runtime/errors.js";

export function isOutOfMemory(error: unknown): boolean {
  return error instanceof Error && /^Out of Memory Error:/iu.test(error.message);
}

/**
 * What the caller is told: CANCELLED, PAYLOAD_TOO_LARGE with `tooLarge`, or INTERNAL. Errors of ours and of the database
 * stay as they are.
 */
export function engineError(error: unknown, cancelled: boolean, tooLarge: string): unknown {
  if (error instanceof ServiceError || isConnectionError(error)) {
    return error;
  }
  if (cancelled) {
    return new ServiceError("CANCELLED", undefined, { cause: error });
  }
  return isOutOfMemory(error)
    ? new ServiceError("PAYLOAD_TOO_LARGE", tooLarge, { cause: error })
    : new ServiceError("INTERNAL", undefined, { cause: error });
}
