/**
 * OTLP/gRPC on one listener: `Export` of the logs, metrics and trace services.
 *
 * A message is the body of an OTLP/HTTP request in another envelope, so one front judges, counts and answers both: the
 * credential, the room in the arena, the batch, the result. This folder opens the envelope: a call is a request of the
 * HTTP seam (`call.ts`), and the answer to it becomes a message or a status (`trailers.ts`).
 *
 * The gRPC library serves connections: settings, keepalive, TLS, calls of other services, the farewell when the server
 * stops. The three methods' streams are taken before it collects their messages: it would hold each as a whole, of
 * anybody, outside of the arena, copy it twice, and inflate it on this thread; and it refuses zstd. So their bytes go
 * from HTTP/2's frames to the arena, and are inflated by the encode threads like those of a body.
 */
import { once } from "node:events";
import type { Http2Session, IncomingHttpHeaders, ServerHttp2Stream } from "node:http2";
import { type AddressInfo, createServer, type Socket } from "node:net";

import { logVerbosity, Server, ServerCredentials, setLogVerbosity } from "@grpc/grpc-js";

import { atMost } from "../../../runtime/at-most.js";
import { createYoungCollector } from "../../../runtime/collector.js";
import { ServiceError } from "../../../runtime/errors.js";
import type { Component } from "../../../runtime/lifecycle.js";
import type { Logger } from "../../../runtime/log/log.js";
import type { OtlpSignal } from "../../../wire/otlp/rpc-status.js";
import { closeConnectionsSafely } from "../../grpc/closing-connections.js";
import { refuseDoubledAuthorization } from "../../grpc/doubled-fields.js";
import { onFailedHandshake } from "../../grpc/failed-handshakes.js";
import { http2ServersOf } from "../../grpc/http2-servers.js";
import { guard } from "../../http/guard.js";
import { RequestHead } from "../../http/request-head.js";
import { type HttpHandler, remoteAddress } from "../../http/seam.js";
import type { OtlpFront } from "../front.js";
import { type GrpcCall, type GrpcCallHost, takeCall } from "./call.js";
import { answerHttp1, type FirstBytes, onFirstBytes } from "./first-bytes.js";

/** The methods that are served. */
export const grpcRoutes: readonly (readonly [string, OtlpSignal])[] = [
  ["/opentelemetry.proto.collector.logs.v1.LogsService/Export", 1],
  ["/opentelemetry.proto.collector.metrics.v1.MetricsService/Export", 2],
  ["/opentelemetry.proto.collector.trace.v1.TraceService/Export", 3],
];

/** Options of {@link listenOtlpGrpc}. */
interface OtlpGrpcListenerOptions {
  readonly host: string;
  /** 0 picks a free one. */
  readonly port: number;
  /** Null: no TLS. */
  readonly tls: ServerCredentials | null;
  readonly maxConnections: number;
  /** How long a connection is kept without a call under way. */
  readonly idleMs: number;
  /** Longest time from the head of a call to the end of its message (`SVC_OTLP_BODY_TIMEOUT_SECONDS`). */
  readonly bodyTimeoutMs: number;
  /** Has {@link grpcRoutes}. */
  readonly front: OtlpFront;
  /** Where OTLP/HTTP is taken, for those who speak it here; a clause. */
  readonly httpHint: string;
  readonly logger: Logger;
}

/** Listens until it is stopped. */
export interface OtlpGrpcListener extends Component {
  readonly address: { readonly host: string; readonly port: number };
  /** Takes no more connections and calls, and resolves when every call is answered. */
  drain(): Promise<void>;
  /** Closes every connection; {@link drain} comes first unless answers do not matter. */
  stop(): Promise<void>;
}

/** Calls of one connection at a time; more are refused, and clients know it. */
export const maxStreams = 64;
/**
 * How much a client may send ahead of a call, in bytes. HTTP/2's 64 KiB would have a sender wait several times for each
 * batch; but what an unknown caller has sent ahead lies in memory until its credential is looked up.
 */
const callWindowBytes = 256 << 10;
/** The same of a connection, whose window does not bound memory: Node.js opens it again before anybody reads. */
const connectionWindowBytes = 1 << 20;
/** Larger parts cost less; few clients make use of it. */
const frameBytes = 256 << 10;
/** How long the five bytes in front of a message may take, like the head of an HTTP request. */
const prefixTimeoutMs = 10_000;
/** How long a client may take for the farewell of a connection without calls. */
const farewellMs = 1000;

/**
 * Starts to listen.
 * @throws ServiceError UNAVAILABLE when the address cannot be bound
 */
export async function listenOtlpGrpc(o: OtlpGrpcListenerOptions): Promise<OtlpGrpcListener> {
  // The library's own log prints header fields that it cannot take, credentials among them.
  setLogVerbosity(logVerbosity.NONE);
  const server = new Server({
    "grpc.enable_channelz": 0,
    "grpc.max_concurrent_streams": maxStreams,
    // Senders keep a channel for as long as they live. One that vanished is noticed by its silence.
    "grpc.keepalive_time_ms": 30_000,
    "grpc.keepalive_timeout_ms": 10_000,
  });
  const injector = server.createConnectionInjector(o.tls ?? ServerCredentials.createInsecure());
  const wrong = (socket: Socket, what: FirstBytes): void => {
    refuseConnection(o, socket, what);
  };
  const taker = takeStreams(server, o);
  for (const http2 of http2ServersOf(server)) {
    // A client with TLS that does not offer HTTP/2.
    http2.on("unknownProtocol", (socket: Socket) => {
      wrong(socket, "HTTP/1");
    });
  }
  onFailedHandshake(server, (_code, why, from) => {
    o.front.refusedOutside(400, why, "", from);
  });
  const sockets = new Set<Socket>();
  const listener = createServer({ noDelay: true }, (socket) => {
    sockets.add(socket);
    socket.once("close", () => sockets.delete(socket));
    onFirstBytes(socket, o.tls !== null, (first) => {
      if (first === "expected") {
        injector.injectConnection(socket);
      } else {
        wrong(socket, first);
      }
    });
  });
  listener.maxConnections = o.maxConnections;
  listener.listen({ host: o.host, port: o.port });
  try {
    await once(listener, "listening");
  } catch (cause) {
    taker.stop();
    server.forceShutdown();
    throw new ServiceError(
      "UNAVAILABLE",
      `cannot listen on ${o.host}:${o.port} for OTLP/gRPC: the address is in use or not of this machine; set SVC_OTLP_GRPC_LISTEN to another, or to the empty string to do without`,
      { cause },
    );
  }
  let farewell: Promise<void> | null = null;
  return {
    name: "otlp-grpc-listener",
    address: { host: o.host, port: (listener.address() as AddressInfo).port },
    async drain() {
      listener.close();
      // Tells every client to send no more here.
      farewell ??= new Promise((resolve) => {
        server.tryShutdown(() => {
          resolve();
        });
      });
      await o.front.drain();
      await atMost(farewell, farewellMs);
    },
    stop() {
      taker.stop();
      listener.close();
      server.forceShutdown();
      for (const socket of sockets) {
        socket.destroy();
      }
      return Promise.resolve();
    },
  };
}

const protobufType = /^application\/grpc(?:\+proto)?(?:;|$)/i;

type StreamListener = (
  stream: ServerHttp2Stream,
  fields: IncomingHttpHeaders,
  flags: number,
  rawFields: readonly string[],
) => void;

/** Hands the streams of {@link grpcRoutes} to the front; the library answers all others. */
function takeStreams(server: Server, o: OtlpGrpcListenerOptions): CallTaker {
  const taker = callTaker(o);
  for (const http2 of http2ServersOf(server)) {
    const listeners = http2.listeners("stream") as StreamListener[];
    http2.removeAllListeners("stream");
    http2.updateSettings({
      maxConcurrentStreams: maxStreams,
      initialWindowSize: callWindowBytes,
      maxFrameSize: frameBytes,
    });
    http2.on("session", (session) => {
      session.setLocalWindowSize(connectionWindowBytes);
      endWhenIdle(session, o.idleMs);
    });
    http2.on("stream", (stream, fields, flags, ...rest) => {
      if (taker.take(stream, fields)) {
        return;
      }
      const from = stream.session?.socket.remoteAddress ?? "";
      o.front.refusedOutside(404, "no method of OTLP/gRPC", fields[":path"] ?? "", from);
      for (const listener of listeners) {
        listener(stream, fields, flags, ...(rest as unknown as [readonly string[]]));
      }
    });
  }
  closeConnectionsSafely(server);
  refuseDoubledAuthorization(server);
  return taker;
}

/**
 * Ends a connection that has had no call under way for so long, with a farewell. Not sooner: the library's next ping after
 * it fails, and cuts the connection. The library has such a limit, but does not see the calls that are taken from it.
 */
function endWhenIdle(session: Http2Session, idleMs: number): void {
  let calls = 0;
  const idle = setTimeout(() => {
    if (calls === 0) {
      session.close();
    }
  }, idleMs);
  idle.unref();
  const ended = (): void => {
    calls--;
    idle.refresh();
  };
  session.on("stream", (stream) => {
    calls++;
    stream.once("close", ended);
  });
  session.once("close", () => {
    clearTimeout(idle);
  });
}

interface CallTaker {
  /** Takes a stream over, or returns false. */
  take(stream: ServerHttp2Stream, fields: IncomingHttpHeaders): boolean;
  stop(): void;
}

function callTaker(o: OtlpGrpcListenerOptions): CallTaker {
  const collector = createYoungCollector();
  const head = new RequestHead("node");
  const beginning = new Set<GrpcCall>();
  const timeoutMs = Math.min(prefixTimeoutMs, o.bodyTimeoutMs);
  const sweep = setInterval(() => {
    const dueMs = performance.now() - timeoutMs;
    for (const call of beginning) {
      // In order of arrival.
      if (call.sinceMs > dueMs) {
        return;
      }
      call.refuseLate();
    }
  }, timeoutMs / 4);
  sweep.unref();
  const hostOf = (handler: HttpHandler): GrpcCallHost => ({
    collector,
    beginning,
    begin: (call, problem) => {
      if (problem === null) {
        guard(call, call, handler, head, o);
        return;
      }
      head.read(call);
      head.framingProblem = problem;
      handler.malformed(call, call, head);
    },
    broken: (call, problem) => {
      o.front.refusedOutside(400, problem, call.getUrl(), remoteAddress(call));
    },
  });
  const hosts = new Map([...o.front.routes].map(([path, handler]) => [path, hostOf(handler)]));
  const take: CallTaker["take"] = (stream, fields) => {
    const host = hosts.get(fields[":path"] ?? "");
    if (host === undefined || !protobufType.test(fields["content-type"] ?? "")) {
      return false;
    }
    takeCall(host, stream, fields);
    return true;
  };
  return {
    take,
    stop: () => {
      clearInterval(sweep);
    },
  };
}

/** Tells who speaks something else, and the operator. */
function refuseConnection(o: OtlpGrpcListenerOptions, socket: Socket, what: FirstBytes): void {
  const from = socket.remoteAddress ?? "";
  const secured = o.tls === null ? "" : " with TLS";
  o.front.refusedOutside(400, `${what} on the port of OTLP/gRPC${secured}`, "", from);
  if (what === "HTTP/1") {
    answerHttp1(socket, `This port takes OTLP/gRPC${secured}. ${o.httpHint}`);
  } else {
    socket.destroy();
  }
}
