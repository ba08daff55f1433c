/**
 * The protobuf messages of Arrow Flight and Flight SQL that the server reads and writes (Flight.proto,
 * FlightSql.proto). Unknown fields are skipped; bytes that were read share memory with the message.
 * Messages are small, but for FlightData, whose body is written in place.
 */
import { ServiceError } from "../runtime/errors.js";

/** What a descriptor asks for (Flight.proto FlightDescriptor). */
export interface FlightDescriptor {
  /** 0 unknown, 1 path, 2 command. */
  readonly type: number;
  readonly command: Uint8Array;
  readonly path: readonly string[];
}

/** A message of any kind with its name (google.protobuf.Any). */
export interface AnyMessage {
  /** Name without the prefix before the last slash, for example `arrow.flight.protocol.sql.CommandStatementQuery`. */
  readonly name: string;
  readonly value: Uint8Array;
}

/** FlightSql.proto CommandStatementQuery. */
export interface CommandStatementQuery {
  readonly query: string;
  /** Empty when the statement belongs to no transaction. */
  readonly transactionId: Uint8Array;
}

/** What encodeFlightInfo writes: one endpoint on the same server. */
export interface FlightInfoFields {
  /** Encapsulated schema message. */
  readonly schema: Uint8Array;
  /** The encoded descriptor that was asked for. */
  readonly descriptor: Uint8Array;
  readonly ticket: Uint8Array;
  /** When the ticket expires, milliseconds since 1970. */
  readonly expiresMs: number;
}

const sqlPackage = "arrow.flight.protocol.sql.";

/** Names of the Flight SQL messages that are understood. */
export const flightSqlNames = {
  statementQuery: `${sqlPackage}CommandStatementQuery`,
  ticketStatementQuery: `${sqlPackage}TicketStatementQuery`,
  preparedStatementQuery: `${sqlPackage}CommandPreparedStatementQuery`,
  createPreparedStatement: `${sqlPackage}ActionCreatePreparedStatementRequest`,
  closePreparedStatement: `${sqlPackage}ActionClosePreparedStatementRequest`,
  createPreparedStatementResult: `${sqlPackage}ActionCreatePreparedStatementResult`,
} as const;

const wireVarint = 0;
const wireFixed64 = 1;
const wireBytes = 2;
const wireFixed32 = 5;

const none: Uint8Array = new Uint8Array(0);

/** @throws ServiceError BAD_REQUEST */
export function decodeFlightDescriptor(message: Uint8Array): FlightDescriptor {
  let type = 0;
  let command = none;
  const path: string[] = [];
  eachField(message, (field, bytes, number) => {
    if (field === 1) type = number;
    else if (field === 2) command = bytes;
    else if (field === 3) path.push(text(bytes));
  });
  return { type, command, path };
}

/** The bytes of a Ticket. @throws ServiceError BAD_REQUEST */
export function decodeTicket(message: Uint8Array): Uint8Array {
  return onlyBytes(message, 1);
}

/** @throws ServiceError BAD_REQUEST */
export function decodeAny(message: Uint8Array): AnyMessage {
  let url = "";
  let value = none;
  eachField(message, (field, bytes) => {
    if (field === 1) url = text(bytes);
    else if (field === 2) value = bytes;
  });
  return { name: url.slice(url.lastIndexOf("/") + 1), value };
}

/** CommandStatementQuery, and ActionCreatePreparedStatementRequest, which has the same fields. @throws ServiceError BAD_REQUEST */
export function decodeCommandStatementQuery(message: Uint8Array): CommandStatementQuery {
  let query = "";
  let transactionId = none;
  eachField(message, (field, bytes) => {
    if (field === 1) query = text(bytes);
    else if (field === 2) transactionId = bytes;
  });
  return { query, transactionId };
}

/** The handle of a TicketStatementQuery or a CommandPreparedStatementQuery. @throws ServiceError BAD_REQUEST */
export function decodeStatementHandle(message: Uint8Array): Uint8Array {
  return onlyBytes(message, 1);
}

/** The payload of a HandshakeRequest. @throws ServiceError BAD_REQUEST */
export function decodeHandshakeRequest(message: Uint8Array): Uint8Array {
  return onlyBytes(message, 2);
}

/** BasicAuth, which some clients put into the payload of a handshake. @throws ServiceError BAD_REQUEST */
export function decodeBasicAuth(message: Uint8Array): { username: string; password: string } {
  let username = "";
  let password = "";
  eachField(message, (field, bytes) => {
    if (field === 2) username = text(bytes);
    else if (field === 3) password = text(bytes);
  });
  return { username, password };
}

/** Type and body of an Action. @throws ServiceError BAD_REQUEST */
export function decodeAction(message: Uint8Array): { type: string; body: Uint8Array } {
  let type = "";
  let body = none;
  eachField(message, (field, bytes) => {
    if (field === 1) type = text(bytes);
    else if (field === 2) body = bytes;
  });
  return { type, body };
}

/** The Result of an action that creates a prepared statement: its handle and (encapsulated) schemas. */
export function encodePreparedStatementResult(
  handle: Uint8Array,
  datasetSchema: Uint8Array,
  parameterSchema: Uint8Array,
): Buffer {
  const result = Buffer.concat([
    bytesField(1, handle),
    bytesField(2, datasetSchema),
    bytesField(3, parameterSchema),
  ]);
  return bytesField(1, encodeAny(flightSqlNames.createPreparedStatementResult, result));
}

/** Encodes a HandshakeResponse. */
export function encodeHandshakeResponse(payload: Uint8Array): Buffer {
  return bytesField(2, payload);
}

/** A ticket (the bytes inside of Ticket) for a statement: Any of TicketStatementQuery. */
export function encodeStatementTicket(handle: Uint8Array): Buffer {
  return encodeAny(flightSqlNames.ticketStatementQuery, bytesField(1, handle));
}

/** Encodes an Any with the usual prefix. */
export function encodeAny(name: string, value: Uint8Array): Buffer {
  return Buffer.concat([
    bytesField(1, Buffer.from(`type.googleapis.com/${name}`)),
    bytesField(2, value),
  ]);
}

/** Encodes a FlightInfo with one endpoint, which has no location: fetch it where you are. */
export function encodeFlightInfo(info: FlightInfoFields): Buffer {
  const seconds = Math.floor(info.expiresMs / 1000);
  const nanos = (info.expiresMs % 1000) * 1_000_000;
  const timestamp = Buffer.concat([varintField(1, BigInt(seconds)), varintField(2, BigInt(nanos))]);
  const endpoint = Buffer.concat([
    bytesField(1, bytesField(1, info.ticket)),
    bytesField(3, timestamp),
  ]);
  return Buffer.concat([
    bytesField(1, info.schema),
    bytesField(2, info.descriptor),
    bytesField(3, endpoint),
    varintField(4, -1n),
    varintField(5, -1n),
  ]);
}

/** Encodes a SchemaResult. */
export function encodeSchemaResult(schema: Uint8Array): Buffer {
  return bytesField(1, schema);
}

/** A FlightData message with a header, and the place in it where the body goes. */
export function flightDataFrame(
  header: Uint8Array,
  bodyBytes: number,
): { readonly message: Uint8Array<ArrayBuffer>; readonly body: Uint8Array<ArrayBuffer> } {
  const headerStart = Buffer.concat([
    varint(BigInt((2 << 3) | wireBytes)),
    varint(BigInt(header.length)),
  ]);
  const bodyStart =
    bodyBytes === 0
      ? Buffer.alloc(0)
      : Buffer.concat([varint(BigInt((1000 << 3) | wireBytes)), varint(BigInt(bodyBytes))]);
  const bodyAt = headerStart.length + header.length + bodyStart.length;
  const message = new Uint8Array(bodyAt + bodyBytes);
  message.set(headerStart, 0);
  message.set(header, headerStart.length);
  message.set(bodyStart, headerStart.length + header.length);
  return { message, body: message.subarray(bodyAt) };
}

function onlyBytes(message: Uint8Array, wanted: number): Uint8Array {
  let found = none;
  eachField(message, (field, bytes) => {
    if (field === wanted) found = bytes;
  });
  return found;
}

const decoder = new TextDecoder("utf-8", { fatal: true });

function text(bytes: Uint8Array): string {
  try {
    return decoder.decode(bytes);
  } catch (error) {
    throw new ServiceError("BAD_REQUEST", "A text field is not valid UTF-8.", { cause: error });
  }
}

/** Calls `visit` for each field with its bytes (empty for numbers) and its number (0 for bytes). */
function eachField(
  message: Uint8Array,
  visit: (field: number, bytes: Uint8Array, number: number) => void,
): void {
  let at = 0;
  const readVarint = (): number => {
    let value = 0;
    let scale = 1;
    for (let i = 0; i < 10; i++) {
      const byte = message[at++];
      if (byte === undefined) throw malformed();
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) return value;
      scale *= 128;
    }
    throw malformed();
  };
  while (at < message.length) {
    const tag = readVarint();
    const field = Math.floor(tag / 8);
    switch (tag % 8) {
      case wireVarint:
        visit(field, none, readVarint());
        break;
      case wireBytes: {
        const length = readVarint();
        if (length > message.length - at) throw malformed();
        visit(field, message.subarray(at, at + length), 0);
        at += length;
        break;
      }
      case wireFixed64:
        at += 8;
        break;
      case wireFixed32:
        at += 4;
        break;
      default:
        throw malformed();
    }
    if (field === 0 || at > message.length) throw malformed();
  }
}

function malformed(): ServiceError {
  return new ServiceError("BAD_REQUEST", "The message is not valid protobuf.");
}

function bytesField(field: number, value: Uint8Array): Buffer {
  return Buffer.concat([
    varint(BigInt((field << 3) | wireBytes)),
    varint(BigInt(value.length)),
    value,
  ]);
}

function varintField(field: number, value: bigint): Buffer {
  return Buffer.concat([
    varint(BigInt((field << 3) | wireVarint)),
    varint(BigInt.asUintN(64, value)),
  ]);
}

function varint(value: bigint): Buffer {
  const out: number[] = [];
  let rest = value;
  while (rest >= 0x80n) {
    out.push(Number(rest & 0x7fn) | 0x80);
    rest >>= 7n;
  }
  out.push(Number(rest));
  return Buffer.from(out);
}
