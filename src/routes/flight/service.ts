/**
 * arrow.flight.protocol.FlightService over grpc-js (Flight.proto): the calls as gRPC sees them, each
 * within its limits, counted, and failing with a status. Messages pass as bytes; what they mean is in
 * `src/wire/flight`, what they do in the files beside this one. Tickets and handles of prepared
 * statements are self-contained, so any server of a group takes over from any other.
 */
import {
  type handleBidiStreamingCall,
  type handleServerStreamingCall,
  type handleUnaryCall,
  Metadata,
  type sendUnaryData,
  type ServerDuplexStream,
  ServerInterceptingCall,
  type ServerInterceptor,
  type ServerUnaryCall,
  type ServerWritableStream,
  type ServiceDefinition,
  type UntypedServiceImplementation,
} from "@grpc/grpc-js";

import type { Clock } from "../../runtime/clock.js";
import { onAbort } from "../../runtime/aborts.js";
import { abortReason, ServiceError, toServiceError } from "../../runtime/errors.js";
import { durationBucketsSeconds } from "../../runtime/metrics.js";
import { decodeHandshakeRequest, encodeHandshakeResponse } from "../../wire/flight/flight-protobuf.js";
import { doAction, listActions } from "./actions.js";
import { BoundStatements } from "./bound-statements.js";
import type { Call, FlightContext, FlightServiceOptions } from "./context.js";
import { authenticateCall, authenticateHandshake } from "./credentials.js";
import { getFlightInfo, getSchema, listFlights, pollFlightInfo, sendResult } from "./flights.js";
import { doPut } from "./put.js";
import { MessageBuffers } from "./message-buffers.js";
import { RunningResults } from "./running.js";
import { grpcStatusOf, unimplemented } from "./status.js";

const methods = {
  Handshake: { requestStream: true, responseStream: true },
  ListFlights: { requestStream: false, responseStream: true },
  GetFlightInfo: { requestStream: false, responseStream: false },
  PollFlightInfo: { requestStream: false, responseStream: false },
  GetSchema: { requestStream: false, responseStream: false },
  DoGet: { requestStream: false, responseStream: true },
  DoPut: { requestStream: true, responseStream: true },
  DoExchange: { requestStream: true, responseStream: true },
  DoAction: { requestStream: false, responseStream: true },
  ListActions: { requestStream: false, responseStream: true },
} as const;

const sameBytes = (bytes: Buffer): Buffer => bytes;

/** The service's methods; requests and responses are encoded messages. */
export const flightServiceDefinition: ServiceDefinition = Object.fromEntries(
  Object.entries(methods).map(([name, kind]) => [
    name,
    {
      ...kind,
      path: `/arrow.flight.protocol.FlightService/${name}`,
      requestSerialize: sameBytes,
      requestDeserialize: sameBytes,
      responseSerialize: sameBytes,
      responseDeserialize: sameBytes,
    },
  ]),
);

type Unary = handleUnaryCall<Buffer, Buffer>;
type Streaming = handleServerStreamingCall<Buffer, Buffer>;
type Bidirectional = handleBidiStreamingCall<Buffer, Buffer>;

/** The path of the only call that may come without a credential in its metadata. */
export const handshakePath = "/arrow.flight.protocol.FlightService/Handshake";

/** What a server of gRPC is made of. */
export interface FlightService {
  /** The handlers of {@link flightServiceDefinition}. */
  readonly methods: UntypedServiceImplementation;
  /** Refuses unknown callers before a message of theirs is read: the library holds each message until it is whole. */
  readonly admission: ServerInterceptor;
  /** Ends all calls, because the server stops. */
  readonly endCalls: () => void;
}

/** Creates the service. */
export function createFlightService(o: FlightServiceOptions): FlightService {
  const context: FlightContext = {
    ...o,
    running: new RunningResults(o.clock, o.ticketLifeMs),
    bound: new BoundStatements(),
    buffers: new MessageBuffers(),
  };
  const calls = o.metrics.counter("flight_calls_total", "Flight calls by outcome", ["method", "outcome"]);
  const seconds = o.metrics.histogram(
    "flight_call_seconds",
    "Time of a Flight call until its last message was written",
    durationBucketsSeconds,
    ["method"],
  );
  const bytesSent = o.metrics.counter("flight_result_bytes_total", "Bytes of results sent");
  const finish = (method: string, startMs: number, error?: ServiceError): void => {
    calls.inc({ method, outcome: error === undefined ? "OK" : error.code });
    const elapsedMs = o.clock.monotonicMs() - startMs;
    seconds.observe({ method }, elapsedMs / 1000);
    if (method !== "DoGet" || o.span === undefined) {
      return;
    }
    const endMs = o.clock.nowMs();
    // Whoever leaves has not seen it fail. The code only: a message may quote the caller's text, and spans have other
    // readers.
    const failed = error === undefined || error.code === "CANCELLED" ? null : error.code;
    o.span({ name: "query", startMs: endMs - elapsedMs, endMs, attributes: {}, error: failed });
  };

  const stopping = new AbortController();
  const queryLimit: CallLimit = {
    ms: o.timeoutMs,
    message: `The query took longer than the ${o.timeoutMs / 1000} seconds that it may take.`,
  };

  /** Runs the body of a call within its limits and counts it; whatever it throws comes back as an error. */
  const measured = async <T>(
    method: string,
    call: LimitedCall,
    body: (signal: AbortSignal) => Promise<T>,
    limit: CallLimit = queryLimit,
  ): Promise<{ readonly value: T } | { readonly failure: ServiceError }> => {
    const startMs = o.clock.monotonicMs();
    const limits = limitCall(call, o.clock, limit, stopping.signal);
    try {
      const value = await body(limits.signal);
      finish(method, startMs);
      return { value };
    } catch (error) {
      const failure = failureOf(error, limits.signal);
      finish(method, startMs, failure);
      return { failure };
    } finally {
      limits.release();
    }
  };

  const unary = (method: string, answer: (call: Call, request: Buffer) => Promise<Buffer>): Unary => {
    const respond = async (call: ServerUnaryCall<Buffer, Buffer>, callback: sendUnaryData<Buffer>): Promise<void> => {
      const { metadata } = call;
      const outcome = await measured(method, call, (signal) => answer({ metadata, signal }, call.request));
      if ("value" in outcome) {
        callback(null, outcome.value);
      } else {
        callback(grpcStatusOf(outcome.failure, o.logger));
      }
    };
    return (call, callback) => void respond(call, callback);
  };

  /** Ends a call with what its body returns, or with a status. */
  const ended = async <T>(
    method: string,
    call: LimitedCall & { emit(event: "error", status: unknown): unknown },
    body: (signal: AbortSignal) => Promise<T>,
    end: (value: T) => void,
    limit?: CallLimit,
  ): Promise<void> => {
    const outcome = await measured(method, call, body, limit);
    if ("value" in outcome) {
      end(outcome.value);
    } else {
      call.emit("error", grpcStatusOf(outcome.failure, o.logger));
    }
  };

  const streaming =
    (
      method: string,
      send: (call: ServerWritableStream<Buffer, Buffer>, signal: AbortSignal) => Promise<void>,
    ): Streaming =>
    (call) =>
      void ended(
        method,
        call,
        (signal) => send(call, signal),
        () => call.end(),
      );

  const streamingMessages = (
    method: string,
    answer: (call: Call & { setCookie(cookie: string): void }, request: Buffer) => Promise<readonly Buffer[]>,
  ): Streaming =>
    streaming(method, async (call, signal) => {
      const setCookie = (cookie: string): void => {
        const headers = new Metadata();
        headers.set("set-cookie", cookie);
        call.sendMetadata(headers);
      };
      for (const message of await answer({ metadata: call.metadata, signal, setCookie }, call.request)) {
        call.write(message);
      }
    });

  const bidirectional =
    (
      method: string,
      answer: (call: Duplex, signal: AbortSignal) => Promise<Buffer>,
      limit?: CallLimit,
    ): Bidirectional =>
    (call) =>
      void ended(
        method,
        call,
        (signal) => answer(call, signal),
        (value) => {
          call.write(value);
          call.end();
        },
        limit,
      );

  const admit = async (path: string, call: Pick<ServerInterceptingCall, "sendStatus">, metadata: Metadata) => {
    const startMs = o.clock.monotonicMs();
    try {
      // A handshake may say in its message who it comes from.
      if (path !== handshakePath || metadata.get("authorization").length > 0) {
        await authenticateCall(o.authenticator, metadata);
      }
      return true;
    } catch (error) {
      const failure = toServiceError(error);
      finish(path.slice(path.lastIndexOf("/") + 1), startMs, failure);
      call.sendStatus(grpcStatusOf(failure, o.logger));
      return false;
    }
  };
  const admission: ServerInterceptor = ({ path }, call) => {
    const onReceiveMetadata = async (metadata: Metadata, next: (metadata: Metadata) => void): Promise<void> => {
      if (await admit(path, call, metadata)) {
        next(metadata);
      }
    };
    return new ServerInterceptingCall(call, {
      start: (next) => {
        next({ onReceiveMetadata: (metadata, pass) => void onReceiveMetadata(metadata, pass) });
      },
    });
  };

  const methodsOfService: UntypedServiceImplementation = {
    Handshake: bidirectional("Handshake", (call, signal) => handshake(o, call, signal), {
      ms: handshakeMs,
      message: `The handshake did not come within ${handshakeMs / 1000} seconds.`,
    }),
    GetFlightInfo: unary("GetFlightInfo", (call, request) => getFlightInfo(context, call, request)),
    PollFlightInfo: unary("PollFlightInfo", (call, request) => pollFlightInfo(context, call, request)),
    GetSchema: unary("GetSchema", (call, request) => getSchema(context, call, request)),
    ListFlights: streamingMessages("ListFlights", (call, request) => listFlights(context, call, request)),
    DoGet: streaming("DoGet", (call, signal) =>
      sendResult(context, call, signal, (bytes) => {
        bytesSent.inc(bytes);
      }),
    ),
    DoPut: bidirectional("DoPut", (call, signal) => doPut(context, call, signal)),
    DoExchange: bidirectional("DoExchange", async (call) => {
      await authenticateCall(o.authenticator, call.metadata);
      throw unimplemented("DoExchange");
    }),
    DoAction: streamingMessages("DoAction", (call, request) => doAction(context, call, request)),
    ListActions: streamingMessages("ListActions", (call) => listActions(context, call)),
  };
  const endCalls = (): void => {
    stopping.abort(new ServiceError("UNAVAILABLE", "The server is stopping; run the query again."));
  };
  return { methods: methodsOfService, admission, endCalls };
}

type Duplex = ServerDuplexStream<Buffer, Buffer>;

/** What every kind of call has. */
interface LimitedCall {
  readonly cancelled: boolean;
  on(event: "cancelled", listener: () => void): unknown;
  off(event: "cancelled", listener: () => void): unknown;
}

/** Longest time of a handshake in milliseconds: who it comes from is not known yet. */
const handshakeMs = 10_000;

/** Handshake: sends the token as a header. @returns the encoded HandshakeResponse, which holds it, too */
async function handshake({ authenticator }: FlightServiceOptions, call: Duplex, signal: AbortSignal): Promise<Buffer> {
  // Who says it in the metadata may wait for the answer before it sends anything, as Go's library does.
  const said = call.metadata.get("authorization").length > 0;
  const payload = said ? new Uint8Array(0) : await firstPayload(call, signal);
  call.resume();
  const { token } = await authenticateHandshake(authenticator, call.metadata, payload);
  const metadata = new Metadata();
  metadata.set("authorization", `Bearer ${token}`);
  call.sendMetadata(metadata);
  // Some clients read the token from the header, others from the payload.
  return encodeHandshakeResponse(Buffer.from(token, "utf8"));
}

/** The payload of the first message, empty when there is none. */
function firstPayload(call: Duplex, signal: AbortSignal): Promise<Uint8Array> {
  return new Promise((resolve, reject) => {
    onAbort(signal, reject);
    call.on("data", (request: Buffer) => {
      try {
        resolve(decodeHandshakeRequest(request));
      } catch (error) {
        reject(toServiceError(error));
      }
    });
    call.on("end", () => {
      resolve(new Uint8Array(0));
    });
  });
}

/** How long a call may take, and what it is told when it took longer. */
interface CallLimit {
  readonly ms: number;
  readonly message: string;
}

/** A signal that ends with the client's patience, with ours, or with the server. */
function limitCall(
  call: LimitedCall,
  clock: Clock,
  { ms, message }: CallLimit,
  stopping: AbortSignal,
): { readonly signal: AbortSignal; readonly release: () => void } {
  const controller = new AbortController();
  const onCancelled = (): void => {
    controller.abort(new ServiceError("CANCELLED"));
  };
  const timer = clock.schedule(() => {
    controller.abort(new ServiceError("DEADLINE_EXCEEDED", message));
  }, ms);
  const leave = onAbort(stopping, (reason) => {
    controller.abort(reason);
  });
  call.on("cancelled", onCancelled);
  if (call.cancelled) {
    onCancelled();
  }
  return {
    signal: controller.signal,
    release: () => {
      timer.cancel();
      leave();
      call.off("cancelled", onCancelled);
    },
  };
}

/** An aborted call fails for the reason of its abort, whatever fell over because of it. */
function failureOf(error: unknown, signal: AbortSignal): ServiceError {
  return signal.aborted ? abortReason(signal) : toServiceError(error);
}
