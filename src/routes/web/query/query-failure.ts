/** How a query that failed is worded: a code of the catalogue, and the analytics server's own sentence. */
import { status } from "@grpc/grpc-js";

import { FlightSqlError } from "telemetry-service-client/flight/flight-sql-error";
import { abortReason, type ErrorCode, ServiceError, toServiceError } from "../../../runtime/errors.js";

const codes: Readonly<Partial<Record<status, ErrorCode>>> = {
  [status.CANCELLED]: "CANCELLED",
  [status.INVALID_ARGUMENT]: "BAD_REQUEST",
  [status.DEADLINE_EXCEEDED]: "DEADLINE_EXCEEDED",
  [status.NOT_FOUND]: "NOT_FOUND",
  [status.ALREADY_EXISTS]: "CONFLICT",
  [status.PERMISSION_DENIED]: "FORBIDDEN",
  // Memory, rows or bytes: the result is too large.
  [status.RESOURCE_EXHAUSTED]: "PAYLOAD_TOO_LARGE",
  [status.FAILED_PRECONDITION]: "NOT_CONFIGURED",
  [status.ABORTED]: "CONFLICT",
  [status.OUT_OF_RANGE]: "BAD_REQUEST",
  [status.UNIMPLEMENTED]: "UNIMPLEMENTED",
  [status.UNAVAILABLE]: "UNAVAILABLE",
  [status.UNAUTHENTICATED]: "UNAUTHENTICATED",
};

/**
 * @param error whatever was thrown; @param source name of the data source: its address is for administrators alone
 * @param signal of the query, whose reason explains an abort
 */
export function failureOf(error: unknown, source: string, signal: AbortSignal): ServiceError {
  if (signal.aborted) {
    return abortReason(signal);
  }
  if (!(error instanceof FlightSqlError)) {
    return toServiceError(error);
  }
  if (error.unreachable) {
    return new ServiceError("UNAVAILABLE", `the data source ${source} cannot be reached now; try again`, {
      cause: error,
    });
  }
  const code = codes[error.status] ?? "INTERNAL";
  // Nobody here has cancelled it.
  if (code === "CANCELLED") {
    return new ServiceError("UNAVAILABLE", `the data source ${source} broke the query off; try again`, {
      cause: error,
    });
  }
  return code === "INTERNAL"
    ? new ServiceError(code, undefined, { cause: error, shown: error.message })
    : new ServiceError(code, error.message, { cause: error });
}
