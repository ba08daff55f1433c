/**
 * Flight and Flight SQL as the standard has them: its .proto files, as a published client carries them,
 * read by protobufjs. What the server sends and takes is held against them.
 */
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";

import { type ChannelCredentials, Client, credentials, Metadata, type ServiceError } from "@grpc/grpc-js";
import { type Table, tableFromIPC } from "apache-arrow";
import protobuf from "protobufjs";

import { ipcOf } from "./flight-ipc.js";

const directory = path.dirname(createRequire(import.meta.url).resolve("@lancedb/arrow-flight-sql-client"));
/** FlightSql.proto, comments included. */
export const flightSqlProto = readFileSync(path.join(directory, "FlightSql.proto"), "utf8");
const flightProto = readFileSync(path.join(directory, "Flight.proto"), "utf8");

const timestamp = protobuf.common.get("google/protobuf/timestamp.proto");
const root = protobuf.Root.fromJSON(timestamp ?? { nested: {} });
for (const text of [flightProto, flightSqlProto]) {
  const plain = text
    .replace(/^import .*$/gmu, "")
    .replace(/^extend google[^}]*\}/mu, "")
    .replace(/^\s*option \(experimental\).*$/gmu, "");
  protobuf.parse(plain, root, { keepCase: true });
}
root.resolveAll();

type Fields = Record<string, unknown>;

/** Encodes a message of the standard: `encode("Ticket", { ticket })`. */
export function encode(type: string, fields: Fields): Buffer {
  const found = typeOf(type);
  return Buffer.from(found.encode(found.fromObject(fields)).finish());
}

/** Decodes a message of the standard. */
export function decode(type: string, bytes: Uint8Array): Fields {
  const found = typeOf(type);
  return found.toObject(found.decode(bytes), { longs: Number, enums: String, defaults: true });
}

/** The fields of a message: names, and whether they hold text, bytes or messages. */
export function fieldsOf(type: string): { readonly id: number; readonly type: string }[] {
  return typeOf(type).fieldsArray.map(({ id, type: kind }) => ({ id, type: kind }));
}

/** Values of an enum of Flight SQL. */
export function enumOf(name: string): Record<string, number> {
  return root.lookupEnum(`arrow.flight.protocol.sql.${name}`).values;
}

function typeOf(name: string): protobuf.Type {
  const flight = root.lookup("arrow.flight.protocol") as protobuf.Namespace;
  return flight.get(name) instanceof protobuf.Type
    ? flight.lookupType(name)
    : root.lookupType(`arrow.flight.protocol.sql.${name}`);
}

/** A message of Flight SQL in a google.protobuf.Any. */
export function any(type: string, fields: Fields = {}): Buffer {
  return anyOf(type, encode(type, fields));
}

/** Bytes in a google.protobuf.Any that says they are a message of Flight SQL. */
export function anyOf(type: string, value: Uint8Array): Buffer {
  const url = `type.googleapis.com/arrow.flight.protocol.sql.${type}`;
  return Buffer.concat([field(1, Buffer.from(url)), field(2, value)]);
}

/** The value of a google.protobuf.Any. */
export function valueOfAny(bytes: Uint8Array): Uint8Array {
  const reader = protobuf.Reader.create(bytes);
  let value: Uint8Array = new Uint8Array(0);
  while (reader.pos < reader.len) {
    const tag = reader.uint32();
    const content = reader.bytes();
    if (tag >>> 3 === 2) {
      value = content;
    }
  }
  return value;
}

/** A field of bytes. */
export function field(number: number, value: Uint8Array): Buffer {
  return Buffer.from(
    protobuf.Writer.create()
      .uint32(number * 8 + 2)
      .bytes(value)
      .finish(),
  );
}

/** A FlightDescriptor of a command. */
export function descriptor(command: Uint8Array): Buffer {
  return encode("FlightDescriptor", { type: "CMD", cmd: command });
}

const service = "/arrow.flight.protocol.FlightService";
const same = (bytes: Buffer): Buffer => bytes;

/** A client of bare calls. */
export interface FlightCalls {
  unary(method: string, request: Uint8Array): Promise<Buffer>;
  /** All messages of a streaming call. */
  stream(method: string, request: Uint8Array): Promise<Buffer[]>;
  /** All answers to a stream of messages. */
  duplex(method: string, requests: readonly Uint8Array[]): Promise<Buffer[]>;
  action(type: string, body: Uint8Array): Promise<Buffer[]>;
  /** The FlightInfo of a command. */
  info(command: Uint8Array): Promise<Fields>;
  /** The result of a command. */
  table(command: Uint8Array): Promise<Table>;
  /** The result of the tickets of a FlightInfo. */
  read(info: Fields): Promise<Table>;
  close(): void;
}

/** Connects; every call carries the key. */
export function flightCalls(
  port: number,
  key: string,
  channel: ChannelCredentials = credentials.createInsecure(),
  host = "127.0.0.1",
): FlightCalls {
  const client = new Client(`${host}:${port}`, channel, {
    "grpc.max_receive_message_length": -1,
    "grpc.max_send_message_length": -1,
  });
  const metadata = (): Metadata => {
    const meta = new Metadata();
    meta.set("authorization", `Bearer ${key}`);
    return meta;
  };
  const collect = async (stream: AsyncIterable<Buffer>): Promise<Buffer[]> => {
    const messages: Buffer[] = [];
    for await (const message of stream) {
      messages.push(message);
    }
    return messages;
  };
  const calls: FlightCalls = {
    unary: (method, request) =>
      new Promise((resolve, reject) => {
        client.makeUnaryRequest(
          `${service}/${method}`,
          same,
          same,
          Buffer.from(request),
          metadata(),
          (error: ServiceError | null, response?: Buffer) => {
            if (error === null) {
              resolve(response ?? Buffer.alloc(0));
            } else {
              reject(error);
            }
          },
        );
      }),
    stream: (method, request) =>
      collect(client.makeServerStreamRequest(`${service}/${method}`, same, same, Buffer.from(request), metadata())),
    duplex: (method, requests) => {
      const call = client.makeBidiStreamRequest(`${service}/${method}`, same, same, metadata());
      for (const request of requests) {
        call.write(Buffer.from(request));
      }
      call.end();
      return collect(call);
    },
    action: async (type, body) => {
      const results = await calls.stream("DoAction", encode("Action", { type, body }));
      return results.map((result) => Buffer.from(decode("Result", result)["body"] as Uint8Array));
    },
    info: async (command) => decode("FlightInfo", await calls.unary("GetFlightInfo", descriptor(command))),
    read: async (info) => {
      const [endpoint] = info["endpoint"] as Fields[];
      const ticket = encode("Ticket", endpoint?.["ticket"] as Fields);
      const messages = await calls.stream("DoGet", ticket);
      return tableFromIPC(messages.flatMap(ipcOf));
    },
    table: async (command) => calls.read(await calls.info(command)),
    close: () => {
      client.close();
    },
  };
  return calls;
}
