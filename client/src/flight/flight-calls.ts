/** The gRPC calls of Arrow Flight, under the caller's credentials and signal. */
import * as grpc from "@grpc/grpc-js";

import { type AuthProvider, noToken } from "../auth/auth-provider.js";
import { type FlightSqlAddress, parseFlightSqlUri } from "./flight-address.js";
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
import { cancelled, clientClosed, noConnection, toFlightSqlError } from "./flight-sql-error.js";

/** As long as gRPC gives an attempt to connect at least ("gRPC Connection Backoff Protocol"). */
const defaultConnectTimeoutMs = 20_000;
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

/** How to connect. */
export interface FlightCallsOptions {
  readonly uri: string;
  /** By default no credential is sent but one in the headers of a call. */
  readonly auth?: AuthProvider;
  readonly rootCertificates?: Buffer;
  readonly clientName?: string;
  /** How long a call waits for a connection. Default 20 s. */
  readonly connectTimeoutMs?: number;
}

/** Opens a connection, which the first call makes. @throws TypeError for a malformed URI. */
export function openFlightCalls(o: FlightCallsOptions): FlightCalls {
  const address = parseFlightSqlUri(o.uri);
  const auth = o.auth ?? noToken;
  const credentials = address.tls
    ? grpc.credentials.createSsl(o.rootCertificates ?? null)
    : grpc.credentials.createInsecure();
  const client = new grpc.Client(address.target, credentials, {
    "grpc.max_receive_message_length": -1,
    "grpc.max_send_message_length": -1,
    "grpc.primary_user_agent": o.clientName ?? "telemetry-client",
    // A proxy for the world outside must not get to see loopback traffic.
    ...(address.loopback ? { "grpc.enable_http_proxy": 0 } : {}),
    "grpc.keepalive_time_ms": 30_000,
  });
  let closed = false;
  /** The library's client throws an error of its own once it is closed, or connects again. */
  const open = (): grpc.Client => {
    if (closed) {
      throw clientClosed();
    }
    return client;
  };

  /**
   * Ends when there is a connection, or none can be made, which the call then says. The library bounds no attempt: what
   * takes the connection and says nothing would be waited for for ever.
   */
  const connected = async (signal: AbortSignal): Promise<void> => {
    const { IDLE, CONNECTING } = grpc.connectivityState;
    const timeoutMs = o.connectTimeoutMs ?? defaultConnectTimeoutMs;
    const deadline = Date.now() + timeoutMs;
    for (;;) {
      const state = open().getChannel().getConnectivityState(true);
      if (state !== IDLE && state !== CONNECTING) {
        return;
      }
      await new Promise<void>((resolve, reject) => {
        const abort = (): void => reject(cancelled());
        if (signal.aborted) {
          abort();
          return;
        }
        signal.addEventListener("abort", abort, { once: true });
        open()
          .getChannel()
          .watchConnectivityState(state, deadline, (error) => {
            signal.removeEventListener("abort", abort);
            if (error === undefined) {
              resolve();
            } else {
              reject(noConnection(address, timeoutMs));
            }
          });
      });
    }
  };

  /**
   * Makes a call, and once more when the server refuses a token that its provider can replace: one that was revoked
   * before it expired.
   */
  const authorized = async <T>(context: CallContext, call: (metadata: grpc.Metadata) => Promise<T>): Promise<T> => {
    const authorization = await auth.authorization(context.signal);
    try {
      await connected(context.signal);
      return await call(metadataOf(context, authorization));
    } catch (thrown) {
      const error = toFlightSqlError(thrown, address);
      const refused = error.status === grpc.status.UNAUTHENTICATED && authorization !== null;
      const next = refused ? await auth.replace?.(authorization, context.signal) : null;
      if (next === null || next === undefined) {
        throw error;
      }
      return await call(metadataOf(context, next)).catch((again: unknown) => {
        throw toFlightSqlError(again, address);
      });
    }
  };
  const unary = (method: string, message: Buffer, metadata: grpc.Metadata, signal: AbortSignal): Promise<Uint8Array> =>
    new Promise((resolve, reject) => {
      if (signal.aborted) {
        reject(cancelled());
        return;
      }
      const call = open().makeUnaryRequest(
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

  return {
    info: (command, context) =>
      authorized(context, async (metadata) => ({
        tickets: decodeTickets(await unary("GetFlightInfo", encodeDescriptor(command), metadata, context.signal)),
        metadata,
      })),
    async *get({ tickets, metadata }, signal, onHeaders) {
      for (const [index, ticket] of tickets.entries()) {
        if (signal.aborted) {
          throw cancelled();
        }
        const call = open().makeServerStreamRequest(
          `${service}/DoGet`,
          same,
          decodeDataFrame,
          encodeTicket(ticket),
          metadata,
        );
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
    },
    action: (type, body, context) =>
      authorized(context, async (metadata) => {
        const message = encodeAction({ type, body });
        const call = open().makeServerStreamRequest(`${service}/DoAction`, same, decodeResult, message, metadata);
        return await allOf(messagesOf(call, address, context.signal));
      }),
    put: (command, frames, context) =>
      authorized(context, async (metadata) => {
        const call = open().makeBidiStreamRequest(`${service}/DoPut`, same, decodeResult, metadata);
        for (const [index, frame] of frames.entries()) {
          call.write(encodeData(index === 0 ? { ...frame, descriptor: encodeDescriptor(command) } : frame));
        }
        call.end();
        return await allOf(messagesOf(call, address, context.signal));
      }),
    close() {
      closed = true;
      client.close();
    },
  };
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
