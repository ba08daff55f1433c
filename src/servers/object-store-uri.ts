import { resolve } from "node:path";
import { pathToFileURL } from "node:url";

import { withEndpoint } from "../lake/store/s3-address.js";

/**
 * Where objects are: `SVC_OBJECT_STORE_URI`, or else the folder `lake` of the data directory. The URI of an S3 store
 * carries `SVC_S3_ENDPOINT`, so that threads need nothing else.
 */
export function objectStoreUriOf(config: {
  readonly objectStoreUri: string | null;
  readonly s3Endpoint: string | null;
  readonly dataDir: string;
}): string {
  const { objectStoreUri, s3Endpoint, dataDir } = config;
  if (objectStoreUri === null) {
    return pathToFileURL(resolve(dataDir, "lake")).href;
  }
  return /^s3:/iu.test(objectStoreUri) ? withEndpoint(objectStoreUri, s3Endpoint) : objectStoreUri;
}
