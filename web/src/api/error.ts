/** A request that failed, in words for people. */
export class ApiError extends Error {
  /** Of the HTTP answer; 0 when none came, 200 when a stream failed after it had begun. */
  readonly status: number;
  /** For example `FORBIDDEN`; `OFFLINE` when no answer came. */
  readonly code: string;
  readonly requestId: string | null;
  readonly retryAfterSeconds: number | null;

  constructor(o: {
    readonly status: number;
    readonly code: string;
    readonly message: string;
    readonly requestId: string | null;
    readonly retryAfterSeconds?: number | null;
  }) {
    super(o.message);
    this.name = "ApiError";
    this.status = o.status;
    this.code = o.code;
    this.requestId = o.requestId;
    this.retryAfterSeconds = o.retryAfterSeconds ?? null;
  }
}

/** What people can mend by themselves, as its sentence says. */
export class PlainError extends Error {
  override readonly name: string = "PlainError";
}

/** Of an answer that something else than the service gave. */
export const otherCode = "UNKNOWN";

/** Of code of the application that did not arrive. */
export const notLoadedCode = "NOT_LOADED";

/** Of a request that changes nothing, or may be made again, to which no answer came for long. */
export const lateCode = "LATE";

/** Of a request for a change to which no answer of the service came: it may have been made. */
export const inDoubtCode = "IN_DOUBT";

/** What to do about an error, in a sentence; null where its own message says it all. */
export function adviceFor(error: ApiError): string | null {
  switch (error.code) {
    case "OFFLINE":
      return "Check that the service runs and that this machine is connected, then try again.";
    case lateCode:
      return "It may be busy, or something before it, such as a proxy, keeps the answer back. Try again in a moment.";
    case inDoubtCode:
      return "It may have been done all the same, as no answer of the service came. Look before you try again.";
    case notLoadedCode:
      return "Check that the service runs and that this machine is connected. Trying again loads everything anew.";
    case "BROKEN":
      return "What arrived until then is shown. Run it again for the rest.";
    case "UNAVAILABLE":
      return "It may be starting or busy. Try again in a moment.";
    case "NOT_CONFIGURED":
      return "Somebody who runs the service has to configure this part first.";
    case "FORBIDDEN":
      return "Ask an administrator for access.";
    case "CLAIM_CONTENDED":
      return "Somebody else is claiming this audience at the same moment. Try again: if they were first, take another name or ask them for a grant.";
    case "AUTH_DISABLED":
      return "It runs without authentication, so nobody can be told apart. Start it with a login to use this part.";
    case "INTERNAL":
      return "This is a defect of the service. Its log has more under the request id.";
    case otherCode:
      return adviceForOther(error.status);
    default:
      return null;
  }
}

/** About an answer without the words of the service. */
function adviceForOther(status: number): string {
  const whose = "This answer is not the service's, but that of something before it, such as a proxy.";
  if (status === 413) {
    return `${whose} It takes no request as large as this one; whoever runs it can allow more.`;
  }
  if (status === 429) {
    return `${whose} Wait a moment, then try again.`;
  }
  return status >= 500 ? `${whose} The service may be starting or down: try again in a moment.` : whose;
}

/** What went wrong, in the words of whatever was thrown. */
export function wordsOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
