/**
 * The protobuf messages of Arrow Flight and Flight SQL that the server reads and writes (Flight.proto,
 * FlightSql.proto). Unknown fields are skipped; bytes that were read share memory with the message.
 * Messages are small, but for FlightData, whose body is written in place.
 */
import {
  bytesField,
  eachField,
  none,
  onlyBytes,
  decodeText,
  varint,
  varintField,
  wireBytes,
} from "../protobuf-fields.js";

/** What a descriptor asks for (Flight.proto FlightDescriptor). */
interface FlightDescriptor {
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
interface CommandStatementQuery {
  readonly query: string;
  /** Empty when the statement belongs to no transaction. */
  readonly transactionId: Uint8Array;
}

/** What encodeFlightInfo writes: one endpoint on the same server. */
interface FlightInfoFields {
  /** Encapsulated schema message. */
  readonly schema: Uint8Array;
  /** The encoded descriptor that was asked for. */
  readonly descriptor: Uint8Array;
  readonly ticket: Uint8Array;
  /** When the ticket expires, milliseconds since 1970; null: never. */
  readonly expiresMs: number | null;
}

const sqlPackage = "arrow.flight.protocol.sql.";

/** Names of the Flight SQL messages that are understood (FlightSql.proto). */
export const flightSqlNames = {
  statementQuery: `${sqlPackage}CommandStatementQuery`,
  statementUpdate: `${sqlPackage}CommandStatementUpdate`,
  statementIngest: `${sqlPackage}CommandStatementIngest`,
  statementSubstraitPlan: `${sqlPackage}CommandStatementSubstraitPlan`,
  ticketStatementQuery: `${sqlPackage}TicketStatementQuery`,
  preparedStatementQuery: `${sqlPackage}CommandPreparedStatementQuery`,
  preparedStatementUpdate: `${sqlPackage}CommandPreparedStatementUpdate`,
  getCatalogs: `${sqlPackage}CommandGetCatalogs`,
  getDbSchemas: `${sqlPackage}CommandGetDbSchemas`,
  getTables: `${sqlPackage}CommandGetTables`,
  getTableTypes: `${sqlPackage}CommandGetTableTypes`,
  getPrimaryKeys: `${sqlPackage}CommandGetPrimaryKeys`,
  getExportedKeys: `${sqlPackage}CommandGetExportedKeys`,
  getImportedKeys: `${sqlPackage}CommandGetImportedKeys`,
  getCrossReference: `${sqlPackage}CommandGetCrossReference`,
  getSqlInfo: `${sqlPackage}CommandGetSqlInfo`,
  getXdbcTypeInfo: `${sqlPackage}CommandGetXdbcTypeInfo`,
  createPreparedStatement: `${sqlPackage}ActionCreatePreparedStatementRequest`,
  closePreparedStatement: `${sqlPackage}ActionClosePreparedStatementRequest`,
  createPreparedStatementResult: `${sqlPackage}ActionCreatePreparedStatementResult`,
  cancelQuery: `${sqlPackage}ActionCancelQueryRequest`,
  cancelQueryResult: `${sqlPackage}ActionCancelQueryResult`,
} as const;

/** Header of the answer to DoGet: how many objects of the lake a query reads. */
export const objectsHeader = "query-objects";

/** @throws ServiceError BAD_REQUEST */
export function decodeFlightDescriptor(message: Uint8Array): FlightDescriptor {
  let type = 0;
  let command = none;
  const path: string[] = [];
  eachField(
    message,
    (field, bytes) => {
      if (field === 2) {
        command = bytes;
      } else if (field === 3) {
        path.push(decodeText(bytes));
      }
    },
    (field, number) => {
      if (field === 1) {
        type = number;
      }
    },
  );
  return { type, command, path };
}

/** Encodes a FlightDescriptor of a path. */
export function encodePathDescriptor(path: readonly string[]): Buffer {
  return Buffer.concat([varintField(1, 1n), ...path.map((part) => bytesField(3, Buffer.from(part)))]);
}

/** The bytes of a Ticket. @throws ServiceError BAD_REQUEST */
export function decodeTicket(message: Uint8Array): Uint8Array {
  return onlyBytes(message, 1);
}

/** @throws ServiceError BAD_REQUEST */
export function decodeAny(message: Uint8Array): AnyMessage {
  const url = decodeText(onlyBytes(message, 1));
  return { name: url.slice(url.lastIndexOf("/") + 1), value: onlyBytes(message, 2) };
}

/** A command of a descriptor: a message of Flight SQL, or the text of a query. */
type DescriptorCommand = ({ readonly kind: "message" } & AnyMessage) | { readonly kind: "text"; readonly text: string };

/**
 * What a descriptor's command says. Flight leaves its meaning to the server; clients of plain Flight send SQL. An Any
 * has a name, and no SQL text has a word in that place.
 * @throws ServiceError BAD_REQUEST for what is neither
 */
export function decodeCommand(command: Uint8Array): DescriptorCommand {
  let failure: unknown = null;
  try {
    const message = decodeAny(command);
    if (/^\S+$/u.test(message.name)) {
      return { kind: "message", ...message };
    }
  } catch (error) {
    failure = error;
  }
  try {
    return { kind: "text", text: decodeText(command) };
  } catch (error) {
    throw failure ?? error;
  }
}

/**
 * CommandStatementQuery, and ActionCreatePreparedStatementRequest, which has the same fields.
 * @throws ServiceError BAD_REQUEST
 */
export function decodeCommandStatementQuery(message: Uint8Array): CommandStatementQuery {
  return { query: decodeText(onlyBytes(message, 1)), transactionId: onlyBytes(message, 2) };
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
  return { username: decodeText(onlyBytes(message, 2)), password: decodeText(onlyBytes(message, 3)) };
}

/** Type and body of an Action. @throws ServiceError BAD_REQUEST */
export function decodeAction(message: Uint8Array): { type: string; body: Uint8Array } {
  return { type: decodeText(onlyBytes(message, 1)), body: onlyBytes(message, 2) };
}

/** The Result of an action that creates a prepared statement: its handle and (encapsulated) schemas. */
export function encodePreparedStatementResult(
  handle: Uint8Array,
  datasetSchema: Uint8Array,
  parameterSchema: Uint8Array,
): Buffer {
  const result = Buffer.concat([bytesField(1, handle), bytesField(2, datasetSchema), bytesField(3, parameterSchema)]);
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
  return Buffer.concat([bytesField(1, Buffer.from(`type.googleapis.com/${name}`)), bytesField(2, value)]);
}

/** Encodes a FlightInfo with one endpoint, which has no location: fetch it where you are. */
export function encodeFlightInfo(info: FlightInfoFields): Buffer {
  return Buffer.concat([
    bytesField(1, info.schema),
    bytesField(2, info.descriptor),
    bytesField(3, encodeFlightEndpoint(info.ticket, info.expiresMs)),
    // How many records and bytes it has is not known.
    varintField(4, -1n),
    varintField(5, -1n),
  ]);
}

/** Encodes a FlightEndpoint. @param expiresMs when the ticket expires, milliseconds since 1970; null: never */
export function encodeFlightEndpoint(ticket: Uint8Array, expiresMs: number | null): Buffer {
  const parts = [bytesField(1, bytesField(1, ticket))];
  if (expiresMs !== null) {
    parts.push(bytesField(3, encodeTimestamp(expiresMs)));
  }
  return Buffer.concat(parts);
}

/** Encodes a google.protobuf.Timestamp. */
export function encodeTimestamp(unixMs: number): Buffer {
  const seconds = Math.floor(unixMs / 1000);
  const nanos = (unixMs % 1000) * 1_000_000;
  return Buffer.concat([varintField(1, BigInt(seconds)), varintField(2, BigInt(nanos))]);
}

/** Encodes a SchemaResult. */
export function encodeSchemaResult(schema: Uint8Array): Buffer {
  return bytesField(1, schema);
}

/** Everything of a FlightData message but its body: the header, and the body's tag and length when there is one. */
export function flightDataHead(header: Uint8Array, bodyBytes: number): Uint8Array {
  const parts = [varint(BigInt((2 << 3) | wireBytes)), varint(BigInt(header.length)), header];
  if (bodyBytes > 0) {
    parts.push(varint(BigInt((1000 << 3) | wireBytes)), varint(BigInt(bodyBytes)));
  }
  return Buffer.concat(parts);
}

/**
 * A FlightData message with a header, and the place in it where the body goes: its memory is aligned to 8 bytes,
 * and holds anything until it is written.
 */
export function flightDataFrame(
  header: Uint8Array,
  bodyBytes: number,
): { readonly message: Uint8Array<ArrayBuffer>; readonly body: Uint8Array<ArrayBuffer> } {
  const head = flightDataHead(header, bodyBytes);
  const unused = -head.length & 7;
  // Memory of its own, not zeroed: a large result would spend a tenth of its time on that.
  const { buffer } = Buffer.allocUnsafeSlow(unused + head.length + bodyBytes);
  const message = new Uint8Array(buffer, unused);
  message.set(head, 0);
  return { message, body: message.subarray(head.length) };
}
