/**
 * arrow.flight.protocol.FlightService over grpc-js (Flight.proto). Messages pass as bytes; what they
 * mean is in `src/wire/flight-*`. Prepared statements are self-contained: the handle is a signed text, so
 * there is nothing to keep or to close. Their parameters, metadata commands and other actions are not
 * there yet: their places are `statementOf`, `doAction` and the methods that answer UNIMPLEMENTED.
 */
import {
  type handleBidiStreamingCall,
  type handleServerStreamingCall,
  type handleUnaryCall,
  Metadata,
  type sendUnaryData,
  type ServerDuplexStream,
  type ServerUnaryCall,
  type ServerWritableStream,
  type ServiceDefinition,
  type UntypedServiceImplementation,
} from "@grpc/grpc-js";

import type { Authenticator } from "../../auth/authenticator.js";
import type { Principal } from "../../auth/principal.js";
import type { QueryRange } from "../../query/plan.js";
import type { QueryCaller, QueryService } from "../../query/query-service.js";
import { openTicket, sealTicket } from "../../query/ticket.js";
import { parseTimeNs } from "../../query/time-text.js";
import type { Clock } from "../../runtime/clock.js";
import { ServiceError, toServiceError } from "../../runtime/errors.js";
import type { Logger } from "../../runtime/log.js";
import { durationBucketsSeconds, type Metrics } from "../../runtime/metrics.js";
import type { SpanSink } from "../../runtime/spans.js";
import { encapsulateMessage, encodeSchemaMessage } from "../../wire/flight-arrow.js";
import {
  decodeAction,
  decodeAny,
  decodeCommandStatementQuery,
  decodeFlightDescriptor,
  decodeHandshakeRequest,
  decodeTicket,
  decodeStatementHandle,
  encodeFlightInfo,
  encodeHandshakeResponse,
  encodePreparedStatementResult,
  encodeSchemaResult,
  encodeStatementTicket,
  flightSqlNames,
} from "../../wire/flight-protobuf.js";
import { authenticateCall, authenticateHandshake } from "./credentials.js";
import { abortReason, statusOf, unimplemented } from "./status.js";

/** What the service is made of. */
export interface FlightServiceOptions {
  readonly authenticator: Authenticator;
  readonly queries: QueryService;
  /** Signs tickets; servers that share it serve each other's. */
  readonly ticketSecret: Uint8Array;
  /** Life of a ticket in milliseconds. */
  readonly ticketLifeMs: number;
  /** Longest time of one call in milliseconds (`SVC_QUERY_TIMEOUT_SECONDS`). */
  readonly timeoutMs: number;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** Told about every query. */
  readonly span?: SpanSink;
}

/** Life of a prepared statement's handle. */
const statementLifeMs = 24 * 3600_000;

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

/** The handlers of {@link flightServiceDefinition}. */
export function createFlightService(o: FlightServiceOptions): UntypedServiceImplementation {
  const calls = o.metrics.counter("flight_calls_total", "Flight calls by outcome", [
    "method",
    "outcome",
  ]);
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
    if (method !== "DoGet" || o.span === undefined) return;
    const endMs = o.clock.nowMs();
    // The code only: a message may quote the caller's text, and spans have other readers.
    const failed = error?.code ?? null;
    o.span({ name: "query", startMs: endMs - elapsedMs, endMs, attributes: {}, error: failed });
  };

  /** Runs the body of a call within its limits and counts it; whatever it throws comes back as an error. */
  const measured = async <T>(
    method: string,
    call: LimitedCall,
    body: (signal: AbortSignal) => Promise<T>,
  ): Promise<{ readonly value: T } | { readonly failure: ServiceError }> => {
    const startMs = o.clock.monotonicMs();
    const limits = limitCall(call, o);
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

  const unary = (
    method: string,
    answer: (call: Call, request: Buffer) => Promise<Buffer>,
  ): Unary => {
    const respond = async (
      call: ServerUnaryCall<Buffer, Buffer>,
      callback: sendUnaryData<Buffer>,
    ): Promise<void> => {
      const { metadata } = call;
      const outcome = await measured(method, call, (signal) =>
        answer({ metadata, signal }, call.request),
      );
      if ("value" in outcome) callback(null, outcome.value);
      else callback(statusOf(outcome.failure, o.logger));
    };
    return (call, callback) => void respond(call, callback);
  };

  const streaming = (
    method: string,
    send: (call: ServerWritableStream<Buffer, Buffer>, signal: AbortSignal) => Promise<void>,
  ): Streaming => {
    const respond = async (call: ServerWritableStream<Buffer, Buffer>): Promise<void> => {
      const outcome = await measured(method, call, (signal) => send(call, signal));
      if ("value" in outcome) call.end();
      else call.emit("error", statusOf(outcome.failure, o.logger));
    };
    return (call) => void respond(call);
  };

  const absent = (method: string) => ({
    unary: unary(method, async ({ metadata }) => {
      await authenticateCall(o.authenticator, metadata);
      throw unimplemented(method);
    }),
    streaming: (
      call: ServerWritableStream<Buffer, Buffer> | ServerDuplexStream<Buffer, Buffer>,
    ): void => {
      authenticateCall(o.authenticator, call.metadata)
        .then(() => {
          throw unimplemented(method);
        })
        .catch((error: unknown) => {
          call.emit("error", statusOf(error, o.logger));
        });
    },
  });

  return {
    Handshake: handshake(o),
    GetFlightInfo: unary("GetFlightInfo", (call, request) => getFlightInfo(o, call, request)),
    GetSchema: unary("GetSchema", async (call, request) => {
      const caller = await authenticateCall(o.authenticator, call.metadata);
      const sql = statementOf(o, caller.principal, request);
      return encodeSchemaResult(await schemaOf(o, caller, sql, call.signal));
    }),
    DoGet: streaming("DoGet", (call, signal) =>
      sendResult(o, call, signal, (bytes) => {
        bytesSent.inc(bytes);
      }),
    ),
    PollFlightInfo: absent("PollFlightInfo").unary,
    ListFlights: absent("ListFlights").streaming,
    DoPut: absent("DoPut").streaming,
    DoExchange: absent("DoExchange").streaming,
    DoAction: streaming("DoAction", async (call, signal) => {
      for (const result of await act(o, call, signal)) call.write(result);
    }),
    ListActions: absent("ListActions").streaming,
  };
}

type LimitedCall = ServerUnaryCall<Buffer, Buffer> | ServerWritableStream<Buffer, Buffer>;

/** What a handler knows about its call. */
interface Call {
  readonly metadata: Metadata;
  /** Aborted when the client cancels or vanishes, or the time is over. */
  readonly signal: AbortSignal;
}

function handshake(o: FlightServiceOptions): Bidirectional {
  return (call) => {
    let answered = false;
    const answer = async (payload: Uint8Array): Promise<void> => {
      const caller = await authenticateHandshake(o.authenticator, call.metadata, payload);
      const metadata = new Metadata();
      metadata.set("authorization", `Bearer ${caller.token}`);
      call.sendMetadata(metadata);
      // Some clients read the token from the header, others from the payload.
      call.write(encodeHandshakeResponse(Buffer.from(caller.token, "utf8")));
      call.end();
    };
    const respond = (payload: Uint8Array): void => {
      if (answered) return;
      answered = true;
      answer(payload).catch((error: unknown) => {
        call.emit("error", statusOf(error, o.logger));
      });
    };
    call.on("data", (request: Buffer) => {
      try {
        respond(decodeHandshakeRequest(request));
      } catch (error) {
        answered = true;
        call.emit("error", statusOf(error, o.logger));
      }
    });
    call.on("end", () => {
      respond(new Uint8Array(0));
    });
  };
}

async function getFlightInfo(
  o: FlightServiceOptions,
  call: Call,
  descriptor: Buffer,
): Promise<Buffer> {
  const caller = await authenticateCall(o.authenticator, call.metadata);
  const { principal } = caller;
  const sql = statementOf(o, principal, descriptor);
  const content = { sql, range: rangeOf(call.metadata) };
  const schema = await schemaOf(o, caller, sql, call.signal);
  const expiresMs = o.clock.nowMs() + o.ticketLifeMs;
  const handle = sealTicket(o.ticketSecret, principal, "ticket", content, expiresMs);
  return encodeFlightInfo({ schema, descriptor, ticket: encodeStatementTicket(handle), expiresMs });
}

async function schemaOf(
  o: FlightServiceOptions,
  caller: QueryCaller,
  sql: string,
  signal: AbortSignal,
): Promise<Uint8Array> {
  return encapsulateMessage(encodeSchemaMessage(await o.queries.describe(caller, sql, signal)));
}

async function sendResult(
  o: FlightServiceOptions,
  call: ServerWritableStream<Buffer, Buffer>,
  signal: AbortSignal,
  onSent: (bytes: number) => void,
): Promise<void> {
  const caller = await authenticateCall(o.authenticator, call.metadata);
  const { principal } = caller;
  const ticket = decodeAny(decodeTicket(call.request));
  if (ticket.name !== flightSqlNames.ticketStatementQuery) throw notFlightSql(ticket.name);
  const handle = decodeStatementHandle(ticket.value);
  const content = openTicket(o.ticketSecret, principal, "ticket", handle, o.clock.nowMs());
  const stream = await o.queries.run(caller, content, signal);
  // One message is being written while the next is fetched: a reader that stalls stops the query.
  let writing: Promise<void> = Promise.resolve();
  for await (const message of stream) {
    await writing;
    writing = write(call, message, signal);
    writing.catch(() => undefined); // awaited above or below; not to be reported as unhandled meanwhile
    onSent(message.length);
  }
  await writing;
}

/** Resolves when the transport has taken the message: its flow control is the reader's pace. */
function write(
  call: ServerWritableStream<Buffer, Buffer>,
  message: Uint8Array,
  signal: AbortSignal,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const abort = (): void => {
      reject(abortReason(signal));
    };
    if (signal.aborted) {
      abort();
      return;
    }
    signal.addEventListener("abort", abort, { once: true });
    const bytes = Buffer.from(message.buffer, message.byteOffset, message.byteLength);
    call.write(bytes, (error: Error | null | undefined) => {
      signal.removeEventListener("abort", abort);
      if (error === null || error === undefined) resolve();
      else reject(new ServiceError("CANCELLED", undefined, { cause: error }));
    });
  });
}

/** A signal that ends with the client's patience or with ours. */
function limitCall(
  call: LimitedCall,
  o: FlightServiceOptions,
): { readonly signal: AbortSignal; readonly release: () => void } {
  const controller = new AbortController();
  const onCancelled = (): void => {
    controller.abort(new ServiceError("CANCELLED"));
  };
  const timer = o.clock.schedule(() => {
    controller.abort(
      new ServiceError(
        "DEADLINE_EXCEEDED",
        `The query took longer than the ${o.timeoutMs / 1000} seconds that it may take.`,
      ),
    );
  }, o.timeoutMs);
  call.on("cancelled", onCancelled);
  if (call.cancelled) onCancelled();
  return {
    signal: controller.signal,
    release: () => {
      timer.cancel();
      call.off("cancelled", onCancelled);
    },
  };
}

/** An aborted call fails for the reason of its abort, whatever fell over because of it. */
function failureOf(error: unknown, signal: AbortSignal): ServiceError {
  return signal.aborted ? abortReason(signal) : toServiceError(error);
}

/** Runs an action and returns its results. */
async function act(
  o: FlightServiceOptions,
  call: ServerWritableStream<Buffer, Buffer>,
  signal: AbortSignal,
): Promise<Buffer[]> {
  const caller = await authenticateCall(o.authenticator, call.metadata);
  const { principal } = caller;
  const { type, body } = decodeAction(call.request);
  switch (type) {
    case "CreatePreparedStatement": {
      const request = decodeAny(body);
      if (request.name !== flightSqlNames.createPreparedStatement) throw notFlightSql(request.name);
      const { query: sql, transactionId } = decodeCommandStatementQuery(request.value);
      if (transactionId.length > 0) throw unimplemented("A transaction");
      const schema = await schemaOf(o, caller, sql, signal);
      const noParameters = encapsulateMessage(encodeSchemaMessage([]));
      const content = { sql, range: { beginNs: null, endNs: null } };
      const handle = sealTicket(
        o.ticketSecret,
        principal,
        "statement",
        content,
        o.clock.nowMs() + statementLifeMs,
      );
      return [encodePreparedStatementResult(handle, schema, noParameters)];
    }
    case "ClosePreparedStatement":
      return [];
    default:
      throw unimplemented(`The action ${type.slice(0, 80)}`);
  }
}

/** The SQL of a descriptor. @throws ServiceError BAD_REQUEST, UNIMPLEMENTED */
function statementOf(
  o: FlightServiceOptions,
  principal: Principal,
  descriptorBytes: Uint8Array,
): string {
  const descriptor = decodeFlightDescriptor(descriptorBytes);
  if (descriptor.command.length === 0) {
    throw new ServiceError(
      "BAD_REQUEST",
      "The descriptor holds no command; send a CommandStatementQuery.",
    );
  }
  const command = decodeAny(descriptor.command);
  switch (command.name) {
    case flightSqlNames.statementQuery: {
      const statement = decodeCommandStatementQuery(command.value);
      if (statement.transactionId.length > 0) throw unimplemented("A transaction");
      return statement.query;
    }
    case flightSqlNames.preparedStatementQuery: {
      const handle = decodeStatementHandle(command.value);
      return openTicket(o.ticketSecret, principal, "statement", handle, o.clock.nowMs()).sql;
    }
    default:
      throw notFlightSql(command.name);
  }
}

function notFlightSql(name: string): ServiceError {
  return name.startsWith("arrow.flight.")
    ? unimplemented(name)
    : new ServiceError("BAD_REQUEST", "The command is not one of Flight SQL.");
}

/** The time range in the metadata. @throws ServiceError BAD_REQUEST */
function rangeOf(metadata: Metadata): QueryRange {
  const read = (name: string): bigint | null => {
    const value = metadata.get(name)[0];
    return value === undefined ? null : parseTimeNs(name, String(value));
  };
  return { beginNs: read("query-range-begin"), endNs: read("query-range-end") };
}
