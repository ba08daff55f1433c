/** How a call to a Flight SQL server fails. */
import { status } from "@grpc/grpc-js";

import type { FlightSqlAddress } from "./flight-address.js";

/** A call that failed; `message` is the server's sentence, or one about the connection. */
export class FlightSqlError extends Error {
  override readonly name = "FlightSqlError";
  /** gRPC status code. */
  readonly status: status;
  /** Its name, for example `UNAUTHENTICATED`. */
  readonly code: string;
  /** What the caller can do about it; null where the message says it all. */
  readonly advice: string | null;
  /** There was no connection, or it broke: the message is the client's, not a server's. */
  readonly unreachable: boolean;

  constructor(
    code: status,
    message: string,
    {
      advice = null,
      unreachable = false,
      ...options
    }: ErrorOptions & { readonly advice?: string | null; readonly unreachable?: boolean } = {},
  ) {
    super(message, options);
    this.unreachable = unreachable;
    this.status = code;
    this.code = status[code] ?? "UNKNOWN";
    this.advice = advice ?? usualAdvice[code] ?? null;
  }
}

const usualAdvice: Readonly<Partial<Record<status, string>>> = {
  [status.UNAUTHENTICATED]: "check the key, or log in again",
  [status.UNAVAILABLE]: "check the address, and try again in a moment",
  [status.RESOURCE_EXHAUSTED]: "narrow the query to fewer columns or a shorter time range",
};

/** The caller gave up. */
export function cancelled(): FlightSqlError {
  return new FlightSqlError(status.CANCELLED, "the query was cancelled");
}

/** The caller closed the client before. */
export function clientClosed(): FlightSqlError {
  return new FlightSqlError(status.CANCELLED, "the client was closed");
}

/** Something takes connections there, and does not answer as a server of gRPC does before its first call. */
export function noConnection({ target, tls }: FlightSqlAddress, waitedMs: number): FlightSqlError {
  return new FlightSqlError(
    status.UNAVAILABLE,
    `the analytics server at ${target} did not answer within ${waitedMs / 1000} s`,
    {
      unreachable: true,
      advice: `check the port; is it ${tls ? "grpc" : "grpc+tls"}://? Otherwise try again in a moment`,
    },
  );
}

/** Whatever a call threw, as a FlightSqlError. */
export function toFlightSqlError(error: unknown, address: FlightSqlAddress): FlightSqlError {
  if (error instanceof FlightSqlError) {
    return error;
  }
  if (!isGrpcError(error)) {
    const message = error instanceof Error ? error.message : "the query failed";
    return new FlightSqlError(status.UNKNOWN, message, { cause: error });
  }
  const { code, details } = error;
  if (code === status.UNAVAILABLE && connectionFailure.test(details)) {
    const distrust = distrusted.exec(details)?.groups?.["reason"];
    if (distrust !== undefined) {
      const message = `the certificate of ${address.target} is not trusted: ${distrust}`;
      // The gRPC library then trusts that file alone.
      const only = process.env["GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"];
      const advice = only
        ? `check the host name, or put the certificates to trust into ${only}: GRPC_DEFAULT_SSL_ROOTS_FILE_PATH names it, so NODE_EXTRA_CA_CERTS is not asked`
        : "check the host name, or name the certificates to trust in NODE_EXTRA_CA_CERTS";
      return new FlightSqlError(code, message, { cause: error, unreachable: true, advice });
    }
    const other = `${address.tls ? "grpc" : "grpc+tls"}://`;
    const [message, advice] = otherProtocol.test(details)
      ? [
          `something answers at ${address.target}, but not with ${address.tls ? "TLS" : "gRPC"}`,
          `check the port; is it ${other}?`,
        ]
      : endedAtOnce.test(details)
        ? [
            `something at ${address.target} ends the connection before it speaks gRPC`,
            `check the port; is it ${other}? Otherwise try again in a moment`,
          ]
        : [`the analytics server at ${address.target} cannot be reached`, null];
    return new FlightSqlError(code, message, { cause: error, unreachable: true, advice });
  }
  if (code === status.UNAVAILABLE && brokenConnection.test(details)) {
    const message = `the connection to the analytics server at ${address.target} broke: ${details}`;
    return new FlightSqlError(code, message, { cause: error, unreachable: true, advice: "try again in a moment" });
  }
  const tooLong = code === status.RESOURCE_EXHAUSTED ? tooLongRequest.exec(details)?.groups : undefined;
  if (tooLong !== undefined) {
    const { bytes, most } = tooLong;
    const message = `the statement is too long: ${bytes} bytes with its parameters, and the server takes ${most}`;
    return new FlightSqlError(code, message, { cause: error, advice: "shorten it, or ask in several queries" });
  }
  return new FlightSqlError(code, details === "" ? error.message : details, { cause: error });
}

/** The details that grpc-js gives when it has no connection, as against a server's own UNAVAILABLE, about its store, say. */
const connectionFailure = /^(?:No connection established|Name resolution failed)/;

/** Among them, those of OpenSSL and of Node's HTTP/2 about bytes that are none of theirs. */
const otherProtocol = /wrong version number|packet length too long|Protocol error/;

/** Among them, that of grpc-js for a connection that was made and ended without an error, as TLS ends what is none. */
const endedAtOnce = /Last error: Failed to connect/;

/** Among them, those of Node about a certificate: it says why in words. */
const distrusted = /Last error: (?:Error)?(?: \[\w+\])?(?:: )?(?<reason>[^:]*\bcertificate\b.*?)\.? Resolution note:/su;

/** Those that grpc-js gives when it had one, which ended under a call. */
const brokenConnection = /^(?:Connection dropped$|(?:read|write) E[A-Z]+$)/;

/** That of a server of grpc-js for a request. Answers are as long as they are. */
const tooLongRequest = /^Received message larger than max \((?<bytes>\d+) vs (?<most>\d+)\)/;

/** Whether it is how grpc-js says that a call failed: with the status of the server, or one of its own. */
export function isGrpcError(error: unknown): error is Error & { readonly code: status; readonly details: string } {
  return (
    error instanceof Error &&
    "code" in error &&
    typeof error.code === "number" &&
    "details" in error &&
    typeof error.details === "string"
  );
}
