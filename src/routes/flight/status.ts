/** Errors as gRPC statuses. */
import { Metadata, type StatusObject } from "@grpc/grpc-js";

import { errorCatalogue, ServiceError, toServiceError } from "../../runtime/errors.js";
import type { Logger } from "../../runtime/log.js";

/** Longest text of a status: it travels in a header. */
const maxDetails = 4000;

/** The status of an error: code and public sentence. What nobody foresaw is logged. */
export function statusOf(error: unknown, logger: Logger): StatusObject {
  const failure = toServiceError(error);
  if (failure.code === "INTERNAL") logger.error({ err: failure }, "a query failed");
  const metadata = new Metadata();
  if (failure.retryAfterSeconds !== undefined) {
    metadata.set("retry-after", String(failure.retryAfterSeconds));
  }
  const details = failure.publicMessage;
  return {
    // oxlint-disable-next-line typescript/no-unsafe-enum-assignment -- the catalogue holds gRPC's numbers
    code: failure.grpcStatus,
    details: details.length > maxDetails ? `${details.slice(0, maxDetails)}...` : details,
    metadata,
  };
}

/** The status of a method or command that is not there. */
export function unimplemented(what: string): ServiceError {
  return new ServiceError(
    "UNIMPLEMENTED",
    `${what} is not supported; this server answers Handshake, and GetFlightInfo, GetSchema and DoGet for CommandStatementQuery and prepared statements without parameters.`,
  );
}

/** The reason of an aborted call when it is one of ours, else CANCELLED. */
export function abortReason(signal: AbortSignal): ServiceError {
  const reason: unknown = signal.reason;
  return reason instanceof ServiceError
    ? reason
    : new ServiceError("CANCELLED", errorCatalogue.CANCELLED.publicMessage);
}
