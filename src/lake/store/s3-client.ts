/**
 * The SDK for S3, loaded when an `s3:` store is opened and not before. It signs, finds credentials and region as all
 * its users know (`AWS_*`, profiles, roles of the machine), and repeats failed requests after pauses with jitter, while
 * a budget lasts that a store which is down soon exhausts. Credentials that the store no longer knows are looked for again:
 * a file, or a role, may have others by now.
 */
import type * as Sdk from "@aws-sdk/client-s3";

import { atMost } from "../../runtime/at-most.js";
import { ServiceError } from "../../runtime/errors.js";
import type { S3Address } from "./s3-address.js";
import { mayBeCredentials } from "./s3-errors.js";

/** Milliseconds. */
export interface S3Timing {
  readonly connectMs: number;
  /** Until the head of an answer, and the longest silence within one. */
  readonly answerMs: number;
  /** All attempts of storing one object or one part. */
  readonly putMs: number;
  /** All attempts of a removal, or of another small request. */
  readonly smallMs: number;
  /** A probe. */
  readonly probeMs: number;
}

/** A put, and what it has to take back, end before ingestion counts as stuck (30 s). */
export const defaultTiming: S3Timing = {
  connectMs: 3000,
  answerMs: 10_000,
  putMs: 15_000,
  smallMs: 5000,
  probeMs: 4000,
};

/** An open store: the SDK's module, a client, and where objects are. */
export interface S3Access extends S3Address {
  readonly sdk: typeof Sdk;
  readonly client: Sdk.S3Client;
  readonly timing: S3Timing;
}

/** Credentials that are wrong for good are not looked for with every request. */
const lookAgainMs = 5000;
const longestLookMs = 3000;
const maxAttempts = 5;
const maxSockets = 64;

/**
 * Loads the SDK and makes a client. It connects to nothing.
 * @throws ServiceError NOT_CONFIGURED when the region is not known
 */
export async function openS3Client(address: S3Address, timing: S3Timing): Promise<S3Access> {
  const sdk = await import("@aws-sdk/client-s3");
  const { endpoint } = address;
  const agent = { keepAlive: true, maxSockets };
  const create = (region: string | null): Sdk.S3Client => {
    const settings = {
      ...(region === null ? {} : { region }),
      ...(endpoint === null ? {} : { endpoint, forcePathStyle: true }),
      // Of files with credentials, which may change. The SDK's providers take it, but its types do not name it.
      ignoreCache: true,
      maxAttempts,
      retryMode: "standard",
      requestHandler: {
        connectionTimeout: timing.connectMs,
        requestTimeout: timing.answerMs,
        throwOnRequestTimeout: true,
        socketTimeout: timing.answerMs,
        httpAgent: agent,
        httpsAgent: agent,
      },
    };
    const made = new sdk.S3Client(settings);
    renewCredentials(made);
    return made;
  };
  const client = create(null);
  try {
    await client.config.region();
    return { ...address, sdk, client, timing };
  } catch (error) {
    client.destroy();
    if (endpoint === null) {
      throw new ServiceError("NOT_CONFIGURED", "AWS_REGION must name the region of the bucket.", { cause: error });
    }
    // Other stores take any region, or this one.
    return { ...address, sdk, client: create("us-east-1"), timing };
  }
}

/** Looks for credentials again when the store does not know those at hand, and repeats the request once. */
function renewCredentials({ middlewareStack, config }: Sdk.S3Client): void {
  let renewal = Promise.resolve();
  let begunMs = Number.NEGATIVE_INFINITY;
  middlewareStack.add(
    (next) => async (request) => {
      const sentMs = performance.now();
      try {
        return await next(request);
      } catch (error) {
        if (!mayBeCredentials(error)) {
          throw error;
        }
        if (performance.now() - begunMs > lookAgainMs) {
          begunMs = performance.now();
          // Who gives them may be slow, or fail: those at hand stay, and requests have their deadlines.
          renewal = atMost(config.credentials({ forceRefresh: true }), longestLookMs).then(
            () => undefined,
            () => undefined,
          );
        }
        if (begunMs < sentMs) {
          // It was sent with what was found last.
          throw error;
        }
        await renewal;
        return next(request);
      }
    },
    { step: "initialize", name: "renewCredentials" },
  );
}

/** CRC-32 as S3 writes it: base64 of four bytes, the highest first. */
export function checksumText(crc: number): string {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(crc);
  return bytes.toString("base64");
}
