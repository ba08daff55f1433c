/**
 * The few protobuf messages that a Flight SQL client needs (Arrow `Flight.proto`, `FlightSql.proto`).
 * Unknown fields are skipped; the byte fields of what was read share memory with the message.
 */

const commandStatementQueryUrl =
  "type.googleapis.com/arrow.flight.protocol.sql.CommandStatementQuery";

const wireVarint = 0;
const wireFixed64 = 1;
const wireBytes = 2;
const wireFixed32 = 5;

/** One frame of `DoGet`: an Arrow IPC message in two parts. */
export interface FlightDataFrame {
  /** Flatbuffer `Message`; empty when the frame carries only metadata. */
  readonly header: Uint8Array;
  readonly body: Uint8Array;
}

/** Encodes the `FlightDescriptor` of a statement: its command is a `CommandStatementQuery`. */
export function encodeStatementDescriptor(sql: string): Buffer {
  const command = bytesField(1, Buffer.from(sql, "utf8"));
  const any = Buffer.concat([
    bytesField(1, Buffer.from(commandStatementQueryUrl)),
    bytesField(2, command),
  ]);
  const descriptorTypeCommand = Buffer.from([(1 << 3) | wireVarint, 2]);
  return Buffer.concat([descriptorTypeCommand, bytesField(2, any)]);
}

/** Encodes a `Ticket`. */
export function encodeTicket(ticket: Uint8Array): Buffer {
  return bytesField(1, ticket);
}

/** The tickets of a `FlightInfo`, one per endpoint, in order. */
export function decodeFlightInfoTickets(message: Uint8Array): Uint8Array[] {
  const tickets: Uint8Array[] = [];
  readFields(message, (infoField, endpoint) => {
    if (infoField !== 3) return;
    readFields(endpoint, (endpointField, ticket) => {
      if (endpointField !== 1) return;
      let bytes: Uint8Array = new Uint8Array(0);
      readFields(ticket, (ticketField, value) => {
        if (ticketField === 1) bytes = value;
      });
      tickets.push(bytes);
    });
  });
  return tickets;
}

/** Decodes a `FlightData`. */
export function decodeFlightData(message: Uint8Array): FlightDataFrame {
  let header: Uint8Array = new Uint8Array(0);
  let body: Uint8Array = new Uint8Array(0);
  readFields(message, (field, value) => {
    if (field === 2) header = value;
    else if (field === 1000) body = value;
  });
  return { header, body };
}

function bytesField(field: number, value: Uint8Array): Buffer {
  return Buffer.concat([varint((field << 3) | wireBytes), varint(value.length), value]);
}

function varint(value: number): Buffer {
  const out: number[] = [];
  let rest = value;
  while (rest >= 0x80) {
    out.push((rest % 0x80) | 0x80);
    rest = Math.floor(rest / 0x80);
  }
  out.push(rest);
  return Buffer.from(out);
}

/** Calls `visit` for every length-delimited field; throws RangeError for bytes that are no message. */
function readFields(bytes: Uint8Array, visit: (field: number, value: Uint8Array) => void): void {
  let at = 0;
  const readVarint = (): number => {
    let value = 0;
    let scale = 1;
    for (let n = 0; n < 10; n++) {
      const byte = bytes[at++];
      if (byte === undefined) throw new RangeError("truncated protobuf message");
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) return value;
      scale *= 0x80;
    }
    throw new RangeError("malformed protobuf varint");
  };
  while (at < bytes.length) {
    const tag = readVarint();
    const wireType = tag & 7;
    if (wireType === wireVarint) {
      readVarint();
    } else if (wireType === wireBytes) {
      const length = readVarint();
      if (length > bytes.length - at) throw new RangeError("truncated protobuf message");
      visit(Math.floor(tag / 8), bytes.subarray(at, at + length));
      at += length;
    } else if (wireType === wireFixed64 || wireType === wireFixed32) {
      at += wireType === wireFixed64 ? 8 : 4;
    } else {
      throw new RangeError("malformed protobuf message");
    }
  }
}
