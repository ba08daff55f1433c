/**
 * Object stores by their URIs. `file:` is file-store.ts, `s3:` is s3-store.ts; another scheme is another function that
 * returns ObjectStore.
 */
import { ServiceError } from "../../runtime/errors.js";
import { openFileStore } from "./file-store.js";
import type { ObjectStore } from "./object-store.js";
import { openS3Store } from "./s3-store.js";

/**
 * Opens the store that a URI names, creating its directory if needed. A store behind a network is not asked anything.
 *
 * @param o.make false for who only reads: a directory that is missing is not created, and may come later
 * @throws {ServiceError} NOT_CONFIGURED for a URI of another scheme; UNAVAILABLE when the directory cannot be created.
 */
export async function openObjectStore(uri: string, o: { readonly make?: boolean } = {}): Promise<ObjectStore> {
  if (uri.startsWith("file:")) {
    return openFileStore(uri, o.make ?? true);
  }
  if (uri.startsWith("s3:")) {
    return openS3Store(uri);
  }
  throw new ServiceError(
    "NOT_CONFIGURED",
    "SVC_OBJECT_STORE_URI must be a URI such as file:///var/lib/telemetry/lake or s3://bucket/prefix.",
  );
}

/**
 * Opens a store at the start of a server that reads it, with no right but that.
 * @throws {ServiceError} as {@link openObjectStore}; UNAVAILABLE when it cannot be read
 */
export async function openReadableStore(uri: string): Promise<ObjectStore> {
  const store = await openObjectStore(uri);
  await store.probeReads();
  return store;
}

/**
 * Opens a store at the start of a server that writes it, and makes sure that it does what the service relies on.
 * @throws {ServiceError} as {@link openObjectStore}, and as `verify` of a store behind a network.
 */
export async function openVerifiedStore(uri: string): Promise<ObjectStore> {
  const store = await openObjectStore(uri);
  await store.remote?.verify();
  return store;
}
