/** How a call of each kind is answered: within its limits, counted, and with a status where it fails. */
import {
  type handleBidiStreamingCall,
  type handleServerStreamingCall,
  type handleUnaryCall,
  Metadata,
  type sendUnaryData,
  type ServerDuplexStream,
  type ServerUnaryCall,
  type ServerWritableStream,
} from "@grpc/grpc-js";

import { onAbort } from "../../runtime/aborts.js";
import type { Clock } from "../../runtime/clock.js";
import { abortReason, ServiceError, toServiceError } from "../../runtime/errors.js";
import { durationBucketsSeconds } from "../../runtime/metrics.js";
import type { Call, CallHead, FlightServiceOptions } from "./context.js";
import { grpcStatusOf } from "./status.js";

type Unary = handleUnaryCall<Buffer, Buffer>;
type Streaming = handleServerStreamingCall<Buffer, Buffer>;
type Bidirectional = handleBidiStreamingCall<Buffer, Buffer>;

export type Duplex = ServerDuplexStream<Buffer, Buffer>;

/** What every kind of call has. */
interface LimitedCall {
  readonly cancelled: boolean;
  on(event: "cancelled", listener: () => void): unknown;
  off(event: "cancelled", listener: () => void): unknown;
}

/** How long a call may take, and what it is told when it took longer. */
interface CallLimit {
  readonly ms: number;
  readonly message: string;
}

/** Counts a call that has ended. */
export type CountCall = (method: string, startMs: number, error?: ServiceError) => void;

/** Counts calls, and gives each query a span. */
export function createCallCounter(o: FlightServiceOptions): CountCall {
  const calls = o.metrics.counter("flight_calls_total", "Flight calls by outcome", ["method", "outcome"]);
  const seconds = o.metrics.histogram(
    "flight_call_seconds",
    "Time of a Flight call until its last message was written",
    durationBucketsSeconds,
    ["method"],
  );
  return (method, startMs, error) => {
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
}

/** Makes handlers of gRPC of what answers a call. @param stopping ends all calls. */
export function createHandlers(o: FlightServiceOptions, count: CountCall, stopping: AbortSignal) {
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
    const limits = limitCall(call, o.clock, limit, stopping);
    try {
      const value = await body(limits.signal);
      count(method, startMs);
      return { value };
    } catch (error) {
      const failure = failureOf(error, limits.signal);
      count(method, startMs, failure);
      return { failure };
    } finally {
      limits.release();
    }
  };

  const unary = (method: string, answer: (call: Call, request: Buffer) => Promise<Buffer>): Unary => {
    const respond = async (call: ServerUnaryCall<Buffer, Buffer>, callback: sendUnaryData<Buffer>): Promise<void> => {
      const outcome = await measured(method, call, (signal) => answer(headed(call, signal), call.request));
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
      for (const message of await answer({ ...headed(call, signal), setCookie }, call.request)) {
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

  return { unary, streaming, streamingMessages, bidirectional };
}

const headed = (call: CallHead, signal: AbortSignal): Call => ({
  metadata: call.metadata,
  getPeer: () => call.getPeer(),
  signal,
});

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
