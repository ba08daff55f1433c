/** A Flight SQL client for benches: it counts and drops messages, and decodes nothing. */
import { Client, type ClientReadableStream, credentials, Metadata } from "@grpc/grpc-js";

import { encodeAny, flightSqlNames } from "../../src/wire/flight/flight-protobuf.js";
import { bytesField, onlyBytes } from "../../src/wire/protobuf-fields.js";

/** The gRPC service. */
const flightService = "/arrow.flight.protocol.FlightService";
/** Messages pass as bytes. */
const sameBytes = (bytes: Buffer): Buffer => bytes;

/** What reading a result took. */
interface Reading {
  /** Until the first batch of rows. */
  readonly firstMs: number;
  readonly totalMs: number;
  readonly bytes: number;
}

/** A connection. */
export interface FlightReader {
  /** Asks for a flight and reads it. */
  read(sql: string): Promise<Reading>;
  /**
   * Asks for a flight and starts to read it.
   * @param headers of the request for the flight
   * @param late cancels whichever call is under way
   */
  open(
    sql: string,
    headers?: Readonly<Record<string, string>>,
    late?: AbortSignal,
  ): Promise<ClientReadableStream<Buffer>>;
  close(): void;
}

/** The Ticket message of a FlightInfo's endpoint. */
export function ticketOf(info: Buffer): Buffer {
  return Buffer.from(onlyBytes(onlyBytes(info, 3), 1));
}

/** Connects with a key of the analytics server. */
export function connectReader(address: string, key: string): FlightReader {
  const client = new Client(address, credentials.createInsecure(), {
    "grpc.max_receive_message_length": -1,
    "grpc.use_local_subchannel_pool": 1,
  });
  const metadata = new Metadata();
  metadata.set("authorization", `Bearer ${key}`);
  const open: FlightReader["open"] = async (sql, headers = {}, late) => {
    const asked = metadata.clone();
    for (const [name, value] of Object.entries(headers)) {
      asked.set(name, value);
    }
    const command = encodeAny(flightSqlNames.statementQuery, bytesField(1, Buffer.from(sql)));
    const descriptor = Buffer.concat([Buffer.from([8, 2]), bytesField(2, command)]);
    const info = await new Promise<Buffer>((resolve, reject) => {
      const call = client.makeUnaryRequest(
        `${flightService}/GetFlightInfo`,
        sameBytes,
        sameBytes,
        descriptor,
        asked,
        (error, response) => {
          if (error === null && response !== undefined) {
            resolve(response);
          } else {
            reject(error ?? new Error("no answer"));
          }
        },
      );
      late?.addEventListener("abort", () => {
        call.cancel();
      });
    });
    late?.throwIfAborted();
    const ticket = ticketOf(info);
    const stream = client.makeServerStreamRequest(`${flightService}/DoGet`, sameBytes, sameBytes, ticket, metadata);
    late?.addEventListener("abort", () => {
      stream.cancel();
    });
    return stream;
  };
  return {
    open,
    read: async (sql) => {
      const startMs = performance.now();
      return drain(await open(sql), startMs);
    },
    close: () => {
      client.close();
    },
  };
}

/** Reads a stream to its end. */
async function drain(stream: ClientReadableStream<Buffer>, startMs: number): Promise<Reading> {
  let firstMs = 0;
  let bytes = 0;
  let count = 0;
  // Listening costs less than iterating, and a bench should not measure itself.
  await new Promise<void>((resolve, reject) => {
    stream.on("data", (message: Buffer) => {
      if (count++ === 1) {
        firstMs = performance.now() - startMs;
      }
      bytes += message.length;
    });
    stream.on("end", resolve);
    stream.on("error", reject);
  });
  return { firstMs, totalMs: performance.now() - startMs, bytes };
}
