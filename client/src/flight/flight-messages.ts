/**
 * The few protobuf messages that a Flight SQL client needs (Arrow `Flight.proto`, `FlightSql.proto`).
 * Unknown fields are skipped; the byte fields of what was read share memory with the message.
 */
import { PbfReader, PbfWriter } from "pbf";

import { asBuffer } from "../shared/as-buffer.js";

const descriptorTypeCommand = 2;

/** One frame of `DoGet`: an Arrow IPC message in two parts. */
export interface FlightDataFrame {
  /** Flatbuffer `Message`; empty when the frame carries only metadata. */
  readonly header: Uint8Array;
  readonly body: Uint8Array;
}

/** What a server answers to `CreatePreparedStatement`. */
export interface PreparedStatementFields {
  readonly handle: Uint8Array;
  /** Encapsulated IPC schemas; empty where the server gives none. */
  readonly resultSchema: Uint8Array;
  readonly parameterSchema: Uint8Array;
}

/** A message of Flight SQL in its `Any`; fields without a value are left out. */
export function encodeSqlMessage(
  name: string,
  fields: Readonly<Record<number, string | Uint8Array | boolean | readonly string[] | readonly number[] | undefined>>,
): Uint8Array {
  const message = new PbfWriter();
  for (const [tag, value] of Object.entries(fields)) {
    writeField(message, Number(tag), value);
  }
  const any = new PbfWriter();
  any.writeStringField(1, `type.googleapis.com/arrow.flight.protocol.sql.${name}`);
  any.writeBytesField(2, message.finish());
  return any.finish();
}

function writeField(
  message: PbfWriter,
  tag: number,
  value: string | Uint8Array | boolean | readonly string[] | readonly number[] | undefined,
): void {
  if (typeof value === "string") {
    message.writeStringField(tag, value);
  } else if (typeof value === "boolean") {
    message.writeBooleanField(tag, value);
  } else if (value instanceof Uint8Array) {
    message.writeBytesField(tag, value);
  } else {
    for (const one of value ?? []) {
      if (typeof one === "number") {
        message.writeVarintField(tag, one);
      } else {
        message.writeStringField(tag, one);
      }
    }
  }
}

/** Encodes the `FlightDescriptor` of a command. */
export function encodeDescriptor(command: Uint8Array): Buffer {
  const out = new PbfWriter();
  out.writeVarintField(1, descriptorTypeCommand);
  out.writeBytesField(2, command);
  return asBuffer(out.finish());
}

/** Encodes a `Ticket`. */
export function encodeTicket(ticket: Uint8Array): Buffer {
  const out = new PbfWriter();
  out.writeBytesField(1, ticket);
  return asBuffer(out.finish());
}

/** Encodes an `Action`. */
export function encodeAction(action: { readonly type: string; readonly body: Uint8Array }): Buffer {
  const out = new PbfWriter();
  out.writeStringField(1, action.type);
  out.writeBytesField(2, action.body);
  return asBuffer(out.finish());
}

/** Encodes a `FlightData`; the first of a `DoPut` carries the descriptor. */
export function encodeData(frame: FlightDataFrame & { readonly descriptor?: Uint8Array }): Buffer {
  const out = new PbfWriter();
  if (frame.descriptor !== undefined) {
    out.writeBytesField(1, frame.descriptor);
  }
  out.writeBytesField(2, frame.header);
  out.writeBytesField(1000, frame.body);
  return asBuffer(out.finish());
}

/** The tickets of a `FlightInfo`, one per endpoint, in order. */
export function decodeTickets(message: Uint8Array): Uint8Array[] {
  return new PbfReader(message).readFields((tag, tickets: Uint8Array[], reader) => {
    if (tag === 3) {
      tickets.push(bytesOf(bytesOf(reader.readBytes(), 1), 1));
    }
  }, []);
}

/** Decodes a `FlightData`. */
export function decodeDataFrame(message: Uint8Array): FlightDataFrame {
  const frame = { header: none, body: none };
  return new PbfReader(message).readFields((tag, found, reader) => {
    if (tag === 2) {
      found.header = reader.readBytes();
    } else if (tag === 1000) {
      found.body = reader.readBytes();
    }
  }, frame);
}

/** The body of a `Result`, or the application's bytes of a `PutResult`. */
export function decodeResult(message: Uint8Array): Uint8Array {
  return bytesOf(message, 1);
}

/** The new handle of a `DoPutPreparedStatementResult`; empty where the old one goes on. */
export function decodeBoundHandle(message: Uint8Array): Uint8Array {
  return bytesOf(message, 1);
}

/** An `ActionCreatePreparedStatementResult` in its `Any`. */
export function decodePreparedStatement(any: Uint8Array): PreparedStatementFields {
  const message = bytesOf(any, 2);
  return {
    handle: bytesOf(message, 1),
    resultSchema: bytesOf(message, 2),
    parameterSchema: bytesOf(message, 3),
  };
}

/** The field of bytes with this number; empty when there is none. */
function bytesOf(message: Uint8Array, wanted: number): Uint8Array {
  const found = { bytes: none };
  return new PbfReader(message).readFields((tag, result, reader) => {
    if (tag === wanted) {
      result.bytes = reader.readBytes();
    }
  }, found).bytes;
}

const none: Uint8Array = new Uint8Array(0);
