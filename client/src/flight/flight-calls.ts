/** The gRPC calls of Arrow Flight, under the caller's credentials and signal. */
import * as grpc from "@grpc/grpc-js";

import { type AuthProvider, noToken } from "../auth/auth-provider.js";
import { unlessAborted } from "../shared/abort.js";
import type { FlightSqlAddress } from "./flight-address.js";
import { FlightConnection, type FlightConnectionOptions } from "./flight-connection.js";
import {
  type FlightDataFrame,
  decodeDataFrame,
  decodeResult,
  decodeTickets,
  encodeAction,
  encodeData,
  encodeDescriptor,
  encodeTicket,
} from "./flight-messages.js";
import { cancelled, toFlightSqlError } from "./flight-sql-error.js";

const service = "/arrow.flight.protocol.FlightService";

/** What a call is made with. */
export interface CallContext {
  readonly signal: AbortSignal;
  /** Headers beside the authorization. */
  readonly headers: Readonly<Record<string, string>>;
}

/** Tickets of a result, and the headers that they were given under. */
export interface FlightTickets {
  readonly tickets: readonly Uint8Array[];
  readonly metadata: grpc.Metadata;
}

/** A connection. Every call throws FlightSqlError. */
export interface FlightCalls {
  /** `GetFlightInfo` of a command. */
  info(command: Uint8Array, context: CallContext): Promise<FlightTickets>;
  /**
   * `DoGet` of all endpoints in their order, the first one's schema standing for all.
   * @param onHeaders told the headers of each answer
   */
  get(
    tickets: FlightTickets,
    signal: AbortSignal,
    onHeaders?: (headers: grpc.Metadata) => void,
  ): AsyncGenerator<FlightDataFrame>;
  /** `DoAction`: the bodies of its results. */
  action(type: string, body: Uint8Array, context: CallContext): Promise<Uint8Array[]>;
  /** `DoPut` under a command: the application's bytes of its results. */
  put(command: Uint8Array, frames: readonly FlightDataFrame[], context: CallContext): Promise<Uint8Array[]>;
  close(): void;
}

/** How to connect, and as whom. */
export interface FlightCallsOptions extends FlightConnectionOptions {
  /** By default no credential is sent but one in the headers of a call. */
  readonly auth?: AuthProvider;
}

/** Opens a connection, which the first call makes. @throws TypeError for a malformed URI. */
export function openFlightCalls(o: FlightCallsOptions): FlightCalls {
  const connection = new FlightConnection(o);
  const { address } = connection;
  const auth = o.auth ?? noToken;
  return {
    info: (command, context) =>
      authorized(connection, auth, context, async (client, metadata) => {
        const answer = await unary(client, "GetFlightInfo", encodeDescriptor(command), metadata, context.signal);
        return { tickets: decodeTickets(answer), metadata };
      }),
    async *get({ tickets, metadata }, signal, onHeaders) {
      // All of them are one: a client that is closed meanwhile still gives the rest.
      const { client, release } = connection.use(signal);
      try {
        for (const [index, ticket] of tickets.entries()) {
          if (signal.aborted) {
            throw cancelled();
          }
          const message = encodeTicket(ticket);
          const call = client.makeServerStreamRequest(`${service}/DoGet`, same, decodeDataFrame, message, metadata);
          if (onHeaders !== undefined) {
            call.on("metadata", onHeaders);
          }
          let seen = 0;
          for await (const frame of messagesOf(call, address, signal)) {
            const repeatedSchema = index > 0 && seen === 0;
            if (frame.header.length > 0) {
              seen += 1;
            }
            if (!repeatedSchema && frame.header.length > 0) {
              yield frame;
            }
          }
        }
      } finally {
        release();
      }
    },
    action: (type, body, context) =>
      authorized(connection, auth, context, async (client, metadata) => {
        const message = encodeAction({ type, body });
        const call = client.makeServerStreamRequest(`${service}/DoAction`, same, decodeResult, message, metadata);
        return await allOf(messagesOf(call, address, context.signal));
      }),
    put: (command, frames, context) =>
      authorized(connection, auth, context, async (client, metadata) => {
        const call = client.makeBidiStreamRequest(`${service}/DoPut`, same, decodeResult, metadata);
        for (const [index, frame] of frames.entries()) {
          call.write(encodeData(index === 0 ? { ...frame, descriptor: encodeDescriptor(command) } : frame));
        }
        call.end();
        return await allOf(messagesOf(call, address, context.signal));
      }),
    close: () => connection.close(),
  };
}

/**
 * Makes a call, and once more when the server refuses a token that its provider can replace: one that was revoked
 * before it expired.
 */
async function authorized<T>(
  connection: FlightConnection,
  auth: AuthProvider,
  context: CallContext,
  call: (client: grpc.Client, metadata: grpc.Metadata) => Promise<T>,
): Promise<T> {
  const { address } = connection;
  const { signal } = context;
  const callAs = async (credential: string | null): Promise<T> => {
    const { client, release } = connection.use(signal);
    try {
      return await call(client, metadataOf(context, credential));
    } finally {
      release();
    }
  };
  // A provider of credentials need not heed the signal.
  const authorization = await unlessAborted(auth.authorization(signal), signal, cancelled);
  try {
    await connection.attempted(signal);
    return await callAs(authorization);
  } catch (thrown) {
    const error = toFlightSqlError(thrown, address);
    const refused = error.status === grpc.status.UNAUTHENTICATED && authorization !== null;
    const another = refused ? auth.replace?.(authorization, signal) : undefined;
    const next = another === undefined ? null : await unlessAborted(another, signal, cancelled);
    if (next === null) {
      throw error;
    }
    return await callAs(next).catch((again: unknown) => {
      throw toFlightSqlError(again, address);
    });
  }
}

function unary(
  client: grpc.Client,
  method: string,
  message: Buffer,
  metadata: grpc.Metadata,
  signal: AbortSignal,
): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    if (signal.aborted) {
      reject(cancelled());
      return;
    }
    const call = client.makeUnaryRequest(
      `${service}/${method}`,
      same,
      same,
      message,
      metadata,
      (error, answer: Buffer | undefined) => {
        signal.removeEventListener("abort", cancel);
        if (error === null && answer !== undefined) {
          resolve(answer);
        } else {
          reject(error ?? new Error("the server sent no answer"));
        }
      },
    );
    const cancel = (): void => call.cancel();
    signal.addEventListener("abort", cancel, { once: true });
  });
}

function same(bytes: Buffer): Buffer {
  return bytes;
}

function metadataOf({ headers }: CallContext, authorization: string | null): grpc.Metadata {
  const metadata = new grpc.Metadata();
  for (const [name, value] of Object.entries(headers)) {
    metadata.set(name, value);
  }
  if (authorization !== null) {
    metadata.set("authorization", authorization);
  }
  return metadata;
}

/** The messages of a call, which ends with the signal, and when its reader has enough. */
async function* messagesOf<T>(
  call: AsyncIterable<T> & { cancel(): void },
  address: FlightSqlAddress,
  signal: AbortSignal,
): AsyncGenerator<T> {
  const cancel = (): void => call.cancel();
  signal.addEventListener("abort", cancel, { once: true });
  if (signal.aborted) {
    cancel();
  }
  try {
    yield* call;
  } catch (error) {
    throw toFlightSqlError(error, address);
  } finally {
    signal.removeEventListener("abort", cancel);
    // Reached early when the reader has enough: the server must not go on.
    call.cancel();
  }
}

async function allOf<T>(items: AsyncIterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of items) {
    all.push(item);
  }
  return all;
}
