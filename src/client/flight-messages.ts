/**
 * The few protobuf messages that a Flight SQL client needs (Arrow `Flight.proto`, `FlightSql.proto`).
 * Unknown fields are skipped; the byte fields of what was read share memory with the message.
 */
import { encodeAny, flightSqlNames } from "../wire/flight/flight-protobuf.js";
import { bytesField, eachField, none, onlyBytes, varintField } from "../wire/protobuf-fields.js";

const descriptorTypeCommand = 2n;

/** One frame of `DoGet`: an Arrow IPC message in two parts. */
export interface FlightDataFrame {
  /** Flatbuffer `Message`; empty when the frame carries only metadata. */
  readonly header: Uint8Array;
  readonly body: Uint8Array;
}

/** Encodes the `FlightDescriptor` of a statement: its command is a `CommandStatementQuery`. */
export function encodeStatementDescriptor(sql: string): Buffer {
  const command = encodeAny(flightSqlNames.statementQuery, bytesField(1, sql));
  return Buffer.concat([varintField(1, descriptorTypeCommand), bytesField(2, command)]);
}

/** Encodes a `Ticket`. */
export function encodeTicket(ticket: Uint8Array): Buffer {
  return bytesField(1, ticket);
}

/** The tickets of a `FlightInfo`, one per endpoint, in order. @throws ServiceError BAD_REQUEST */
export function decodeFlightInfoTickets(message: Uint8Array): Uint8Array[] {
  const tickets: Uint8Array[] = [];
  eachField(message, (infoField, endpoint) => {
    if (infoField === 3) {
      tickets.push(onlyBytes(onlyBytes(endpoint, 1), 1));
    }
  });
  return tickets;
}

/** Decodes a `FlightData`. @throws ServiceError BAD_REQUEST */
export function decodeDataFrame(message: Uint8Array): FlightDataFrame {
  let header = none;
  let body = none;
  eachField(message, (field, value) => {
    if (field === 2) {
      header = value;
    } else if (field === 1000) {
      body = value;
    }
  });
  return { header, body };
}
