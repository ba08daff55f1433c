/** Failures of an S3 store as the service's own: nothing of a request (credentials, signatures) goes into a log. */
import { ServiceError, tlsFailureCode } from "../../runtime/errors.js";

/** What the SDK's errors carry. */
interface Failure {
  /** What the store calls it, or the code of a connection's error; its HTTP status where an answer does not say. */
  readonly name: string;
  readonly message: string;
  /** HTTP status; null when there was no answer. */
  readonly status: number | null;
  /** The store's id of the request, for its operators. */
  readonly requestId: string | null;
}

/** Longest text of a store that is kept. */
const maxMessage = 300;

function failureOf(error: unknown): Failure {
  if (!(error instanceof Error)) {
    return { name: "Error", message: "something was thrown", status: null, requestId: null };
  }
  const metadata: unknown = "$metadata" in error ? error.$metadata : null;
  const fact = (name: string): unknown =>
    typeof metadata === "object" && metadata !== null ? (metadata as Record<string, unknown>)[name] : null;
  const status = fact("httpStatusCode");
  const requestId = fact("requestId");
  const code = "code" in error && typeof error.code === "string" ? error.code : error.name;
  const name = error.name === "Error" ? code : error.name;
  return {
    // An answer to HEAD has no body that could say more.
    name: name === "Unknown" && typeof status === "number" ? String(status) : name,
    message: error.message.slice(0, maxMessage),
    status: typeof status === "number" ? status : null,
    requestId: typeof requestId === "string" ? requestId : null,
  };
}

/** HTTP status of the store's answer; null when the error is not one. */
export function statusOf(error: unknown): number | null {
  return failureOf(error).status;
}

/** What a store calls credentials that it does not know, or no longer. */
const unknownCredentials =
  /^(?:ExpiredToken|InvalidAccessKeyId|InvalidToken|SignatureDoesNotMatch|TokenRefreshRequired)$/u;

/** Whether a store does not know the credentials, or may not: an answer to HEAD does not say why it is a refusal. */
export function mayBeCredentials(error: unknown): boolean {
  const { name } = failureOf(error);
  return unknownCredentials.test(name) || /^40[013]$/u.test(name);
}

/** Whether a store says that it has no such object. A 404 may also be about the bucket, or come from what is in front. */
export function isNoSuchKey(error: unknown): boolean {
  const { name, status } = failureOf(error);
  return status === 404 && name === "NoSuchKey";
}

/** What a setting has to change for, by what stores answer. */
const remedies: readonly (readonly [pattern: RegExp, sentence: string])[] = [
  [/^(?:AccessDenied|Forbidden|403)$/u, "it denies access: give the credentials the rights that docs/deploy.md lists"],
  [/^NoSuchBucket$/u, "there is no such bucket: create it, or correct SVC_OBJECT_STORE_URI"],
  [
    unknownCredentials,
    "it does not know the credentials: check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN, or what gives them",
  ],
  [
    /^CredentialsProviderError$/u,
    "there are no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or check AWS_PROFILE, or the role",
  ],
  [/^RequestTimeTooSkewed$/u, "its clock and that of this machine differ: set this one, or the store's"],
  [/^InvalidBucketName$/u, "it takes no bucket of this name: correct SVC_OBJECT_STORE_URI"],
  [
    tlsFailureCode,
    "its certificate is not trusted, or it has no TLS: name the certificate's authority in NODE_EXTRA_CA_CERTS, or check SVC_S3_ENDPOINT",
  ],
  [/^E[A-Z_]{4,}$/u, "no connection comes about: check SVC_S3_ENDPOINT, or AWS_REGION, and the network"],
  // Also of a connection that breaks: so the SDK calls it.
  [/^(?:TimeoutError|AbortError)$/u, "no answer comes: check SVC_S3_ENDPOINT, the network, and the store's own log"],
  [/^(?:PermanentRedirect|AuthorizationHeaderMalformed|301)$/u, "the bucket is in another region: set AWS_REGION"],
];

/**
 * The failure of an action, without the request's own words.
 * @param action completes "the object store cannot": `be written`
 */
export function storeError(action: string, error: unknown): ServiceError {
  if (error instanceof ServiceError) {
    return error;
  }
  const { name, message, status, requestId } = failureOf(error);
  const remedy = remedies.find(([pattern]) => pattern.test(name))?.[1];
  const answered =
    status === null || !plainName.test(name)
      ? ""
      : `: it answers ${name === String(status) ? `HTTP ${status}` : `${name} (HTTP ${status})`}`;
  const why = remedy === undefined ? answered : `: ${remedy} (${name})`;
  const facts = [status === null ? null : `HTTP ${status}`, requestId === null ? null : `request ${requestId}`];
  const told = facts.filter((fact) => fact !== null).join(", ");
  return new ServiceError("UNAVAILABLE", `the object store cannot ${action}${why}`, {
    cause: new Error(`${name}: ${message}${told === "" ? "" : ` (${told})`}`),
  });
}

/** An answer that is not the store's, or was changed on its way. @param action as in {@link storeError} */
export function foreignAnswer(action: string): ServiceError {
  return new ServiceError(
    "UNAVAILABLE",
    `the object store cannot ${action}: an answer is not what was asked for; check that SVC_S3_ENDPOINT is the store's address, and that nothing between changes answers`,
  );
}

/** What stores call failures; anything else may be the request's own words. */
const plainName = /^(?:[A-Za-z]{3,60}|\d{3})$/u;
