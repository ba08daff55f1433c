/** Which bucket, and where: everything that a thread needs to know of an S3 store, in one URI. */
import { ServiceError } from "../../runtime/errors.js";

/** An S3 store. Who asks, and in which region, is for the SDK to find out. */
export interface S3Address {
  readonly bucket: string;
  /** What keys begin with: empty, or with a slash at its end. */
  readonly prefix: string;
  /** Address of a store that is not Amazon's; null: Amazon's. */
  readonly endpoint: string | null;
}

/**
 * Adds the address of the store's server (`SVC_S3_ENDPOINT`) to its URI, for {@link parseS3Uri}.
 * `s3://lake/a` becomes `s3://lake/a?endpoint=http%3A%2F%2Fstore%3A9000`.
 */
export function withEndpoint(uri: string, endpoint: string | null): string {
  return endpoint === null ? uri : `${uri}?${new URLSearchParams({ endpoint }).toString()}`;
}

/**
 * Takes `s3://bucket/prefix?endpoint=...` apart.
 * @throws ServiceError NOT_CONFIGURED
 */
export function parseS3Uri(uri: string): S3Address {
  const { hostname: bucket, pathname, searchParams, username, password, port, hash } = new URL(uri);
  const prefix = pathname.replaceAll(/^\/+|\/+$/gu, "");
  const strange = [...searchParams.keys()].some((name) => name !== "endpoint") || `${port}${hash}` !== "";
  if (bucket === "" || strange || !/^(?:[A-Za-z0-9._=-]+(?:\/(?!\/))?)*$/u.test(prefix)) {
    throw new ServiceError("NOT_CONFIGURED", "SVC_OBJECT_STORE_URI must be like s3://bucket or s3://bucket/prefix.");
  }
  if (`${username}${password}` !== "") {
    throw new ServiceError(
      "NOT_CONFIGURED",
      "SVC_OBJECT_STORE_URI must not hold credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.",
    );
  }
  return { bucket, prefix: prefix === "" ? "" : `${prefix}/`, endpoint: searchParams.get("endpoint") };
}
