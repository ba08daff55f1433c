/** Errors as gRPC statuses. */
import { randomUUID } from "node:crypto";

import { Metadata, type StatusObject } from "@grpc/grpc-js";

import { ServiceError, toServiceError } from "../../runtime/errors.js";
import type { Logger } from "../../runtime/log/log.js";
import { flightSqlNames } from "../../wire/flight/flight-protobuf.js";

/**
 * Longest text of a status in bytes, percent-encoded as it travels in a header: clients refuse a response whose
 * headers take more than 8 or 16 KiB, and then see neither code nor text.
 */
const maxDetailsBytes = 4000;

/**
 * The status of an error: code and public sentence. What only the operator can mend is logged, and what nobody foresaw under
 * an id that the caller is told.
 */
export function grpcStatusOf(error: unknown, logger: Logger): StatusObject {
  const failure = toServiceError(error);
  let details = failure.publicMessage;
  if (failure.code === "INTERNAL") {
    const requestId = randomUUID();
    logger.error({ err: failure, requestId }, "a query failed");
    details = `${details}; request id ${requestId}`;
  } else if (failure.code === "NOT_CONFIGURED") {
    logger.error({ err: failure }, "a query failed");
  }
  const metadata = new Metadata();
  if (failure.retryAfterSeconds !== undefined) {
    metadata.set("retry-after", String(failure.retryAfterSeconds));
  }
  return {
    // oxlint-disable-next-line typescript/no-unsafe-enum-assignment -- the catalogue holds gRPC's numbers
    code: failure.grpcStatus,
    details: headerText(details),
    metadata,
  };
}

/** The text, cut between two characters where it is too long, and without halves of surrogate pairs. */
function headerText(text: string): string {
  let bytes = 0;
  let kept = "";
  for (const character of text) {
    const whole = isSurrogate(character) ? "\uFFFD" : character;
    bytes += encodeURI(whole).length;
    if (bytes > maxDetailsBytes) {
      return `${kept}...`;
    }
    kept += whole;
  }
  return kept;
}

/** Half of a pair, which has no encoding; a whole pair is a character of two units. */
function isSurrogate(character: string): boolean {
  return character.length === 1 && character >= "\uD800" && character <= "\uDFFF";
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

/** The status of a command that is not taken here: of the standard, or of nothing. */
export function notFlightSql(name: string): ServiceError {
  const place = placeOf(name);
  if (place !== null) {
    const message = name.slice(name.lastIndexOf(".") + 1);
    return new ServiceError("BAD_REQUEST", `This call does not take a ${message}; ${place}`);
  }
  return name.startsWith("arrow.flight.")
    ? unimplemented(name.slice(0, 200))
    : new ServiceError("BAD_REQUEST", "The command is not one of Flight SQL.");
}

/** Where a message that this server understands belongs; null when it is not understood. */
function placeOf(name: string): string | null {
  switch (name) {
    case flightSqlNames.ticketStatementQuery:
      return "send it to DoGet, and send a CommandStatementQuery or a CommandPreparedStatementQuery to GetFlightInfo.";
    case flightSqlNames.createPreparedStatement:
    case flightSqlNames.closePreparedStatement:
    case flightSqlNames.cancelQuery:
      return "send it to DoAction.";
    case flightSqlNames.statementQuery:
    case flightSqlNames.preparedStatementQuery:
      return "send it to GetFlightInfo, and the ticket that comes back to DoGet.";
    default:
      return metadataNames.has(name) ? "send it to GetFlightInfo or DoGet." : null;
  }
}

const metadataNames: ReadonlySet<string> = new Set([
  flightSqlNames.getCatalogs,
  flightSqlNames.getDbSchemas,
  flightSqlNames.getTables,
  flightSqlNames.getTableTypes,
  flightSqlNames.getPrimaryKeys,
  flightSqlNames.getExportedKeys,
  flightSqlNames.getImportedKeys,
  flightSqlNames.getCrossReference,
  flightSqlNames.getSqlInfo,
  flightSqlNames.getXdbcTypeInfo,
]);
