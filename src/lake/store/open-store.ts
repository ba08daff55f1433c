/**
 * Object stores by their URIs. `file:` is file-store.ts; another scheme is another function that returns ObjectStore.
 */
import { ServiceError } from "../../runtime/errors.js";
import { openFileStore } from "./file-store.js";
import type { ObjectStore } from "./object-store.js";

/**
 * Opens the store that a URI names, creating its directory if needed.
 *
 * @throws {ServiceError} NOT_CONFIGURED for a URI of another scheme; UNAVAILABLE when the directory cannot be created.
 */
export async function openObjectStore(uri: string): Promise<ObjectStore> {
  if (uri.startsWith("file:")) {
    return openFileStore(uri);
  }
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
