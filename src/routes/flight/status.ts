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
    `${what} is not supported; ListActions and GetSqlInfo tell what this server answers.`,
  );
}

/** The status of whatever would write. */
export function readOnly(): ServiceError {
  return new ServiceError(
    "UNIMPLEMENTED",
    "This server is read-only: updates, ingestion and transactions are not supported. Telemetry comes in over OTLP.",
  );
}

/** The status of a command that is not understood: of the standard, or of nothing. */
export function notFlightSql(name: string): ServiceError {
  return name.startsWith("arrow.flight.")
    ? unimplemented(name.slice(0, 200))
    : new ServiceError("BAD_REQUEST", "The command is not one of Flight SQL.");
}

/** The reason of an aborted call when it is one of ours, else CANCELLED. */
export function abortReason(signal: AbortSignal): ServiceError {
  const reason: unknown = signal.reason;
  return reason instanceof ServiceError
    ? reason
    : new ServiceError("CANCELLED", errorCatalogue.CANCELLED.publicMessage);
}
