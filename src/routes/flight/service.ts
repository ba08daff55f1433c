/**
 * arrow.flight.protocol.FlightService over grpc-js (Flight.proto): its methods, and who may call them. Messages pass as
 * bytes; what they mean is in `src/wire/flight`, what they do in the files beside this one. Tickets and handles of prepared
 * statements are self-contained, so any server of a group takes over from any other.
 */
import { setMaxListeners } from "node:events";

import {
  Metadata,
  ServerInterceptingCall,
  type ServerInterceptor,
  type ServiceDefinition,
  type UntypedServiceImplementation,
} from "@grpc/grpc-js";

import { onAbort } from "../../runtime/aborts.js";
import { ServiceError, toServiceError } from "../../runtime/errors.js";
import { decodeHandshakeRequest, encodeHandshakeResponse } from "../../wire/flight/flight-protobuf.js";
import { doAction, listActions } from "./actions.js";
import { BoundStatements } from "./bound-statements.js";
import { type CountCall, createCallCounter, createHandlers, type Duplex } from "./calls.js";
import type { FlightContext, FlightServiceOptions } from "./context.js";
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
  const count = createCallCounter(o);
  const bytesSent = o.metrics.counter("flight_result_bytes_total", "Bytes of results sent");
  const stopping = new AbortController();
  // Every call listens to it.
  setMaxListeners(0, stopping.signal);
  const { unary, streaming, streamingMessages, bidirectional } = createHandlers(o, count, stopping.signal);
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
      await authenticateCall(o.authenticator, call);
      throw unimplemented("DoExchange");
    }),
    DoAction: streamingMessages("DoAction", (call, request) => doAction(context, call, request)),
    ListActions: streamingMessages("ListActions", (call) => listActions(context, call)),
  };
  const endCalls = (): void => {
    stopping.abort(new ServiceError("UNAVAILABLE", "The server is stopping; run the query again."));
  };
  return { methods: methodsOfService, admission: createAdmission(o, count), endCalls };
}

/** Refuses unknown callers. */
function createAdmission(o: FlightServiceOptions, count: CountCall): ServerInterceptor {
  const admit = async (
    path: string,
    call: Pick<ServerInterceptingCall, "sendStatus" | "getPeer">,
    metadata: Metadata,
  ) => {
    const startMs = o.clock.monotonicMs();
    try {
      // A handshake may say in its message who it comes from.
      if (path !== handshakePath || metadata.get("authorization").length > 0) {
        await authenticateCall(o.authenticator, { metadata, getPeer: () => call.getPeer() });
      }
      return true;
    } catch (error) {
      const failure = toServiceError(error);
      count(path.slice(path.lastIndexOf("/") + 1), startMs, failure);
      call.sendStatus(grpcStatusOf(failure, o.logger));
      return false;
    }
  };
  return ({ path }, call) => {
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
}

/** Longest time of a handshake in milliseconds: who it comes from is not known yet. */
const handshakeMs = 10_000;

/** Handshake: sends the token as a header. @returns the encoded HandshakeResponse, which holds it, too */
async function handshake({ authenticator }: FlightServiceOptions, call: Duplex, signal: AbortSignal): Promise<Buffer> {
  // Who says it in the metadata may wait for the answer before it sends anything, as Go's library does.
  const said = call.metadata.get("authorization").length > 0;
  const payload = said ? new Uint8Array(0) : await firstPayload(call, signal);
  call.resume();
  const { token } = await authenticateHandshake(authenticator, call, payload);
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
