/** The gRPC server that carries the Flight service. */
import { constants, type IncomingHttpHeaders, type ServerHttp2Stream } from "node:http2";

import { logVerbosity, Server, ServerCredentials, setLogVerbosity, status } from "@grpc/grpc-js";

import { atMost } from "../../runtime/at-most.js";
import { ServiceError } from "../../runtime/errors.js";
import type { Component } from "../../runtime/lifecycle.js";
import type { Logger } from "../../runtime/log/log.js";
import { createRareWarning } from "../../runtime/log/rare-warnings.js";
import { closeConnectionsSafely } from "../grpc/closing-connections.js";
import { refuseCompression } from "../grpc/compression.js";
import { refuseDoubledAuthorization } from "../grpc/doubled-fields.js";
import { onFailedHandshake } from "../grpc/failed-handshakes.js";
import { http2ServersOf } from "../grpc/http2-servers.js";
import { takeLongDeadlines } from "../grpc/long-deadlines.js";
import { countFrame } from "../grpc/small-frames.js";
import { type FlightService, flightServiceDefinition, handshakePath } from "./service.js";

/** Where to listen and how. */
export interface FlightServerOptions {
  readonly host: string;
  /** 0 picks a free one. */
  readonly port: number;
  /** Null: no TLS. */
  readonly tls: ServerCredentials | null;
  readonly maxConnections: number;
  readonly service: FlightService;
  /** How long `stop` waits for calls under way before it ends them, in milliseconds. */
  readonly drainMs: () => number;
  /** Default: a minute. */
  readonly messageMs?: number;
  readonly logger: Logger;
}

/** A running server. */
export interface FlightServer extends Component {
  readonly address: { readonly host: string; readonly port: number };
}

/** Time in milliseconds for the status of calls that were ended, and to end one that has its answer. */
const farewellMs = 1000;

/**
 * Largest message from a client: one that cancels a flight of the longest text holds that twice, and once encoded. The
 * thread that reads a message does nothing else meanwhile.
 */
const maxReceiveBytes = 16 * 1024 * 1024;

/**
 * Calls of one connection at a time; clients let others wait. Each costs the main thread some 0.3 ms before it is
 * answered, and Node.js begins all that a client has sent before it looks at anybody else.
 */
const maxStreams = 100;

/** Most bytes of a handshake, which are held before anybody is known: a name and a token. */
const maxHandshakeBytes = 64 * 1024;

/** Longest time until the one message of a call is whole. */
const defaultMessageMs = 60_000;

/** Most bytes that all calls together have sent without an answer. */
const maxHeldBytes = 8 * maxReceiveBytes;

/**
 * Starts to listen.
 * @throws ServiceError UNAVAILABLE when the address cannot be bound
 */
export async function startFlightServer(o: FlightServerOptions): Promise<FlightServer> {
  // The library's own log prints header fields that it cannot take, credentials among them.
  setLogVerbosity(logVerbosity.NONE);
  const server = new Server({
    "grpc.max_receive_message_length": maxReceiveBytes,
    "grpc.max_send_message_length": -1,
    "grpc.max_concurrent_streams": maxStreams,
    // A client that vanished without closing its connection is noticed by its silence.
    "grpc.keepalive_time_ms": 30_000,
    "grpc.keepalive_timeout_ms": 10_000,
    interceptors: [o.service.admission],
  });
  server.addService(flightServiceDefinition, o.service.methods);
  const shownHost = o.host.includes(":") ? `[${o.host}]` : o.host;
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync(`${shownHost}:${o.port}`, o.tls ?? ServerCredentials.createInsecure(), (error, bound) => {
      if (error === null) {
        resolve(bound);
      } else {
        reject(
          new ServiceError(
            "UNAVAILABLE",
            `cannot listen on ${shownHost}:${o.port} for gRPC: the address is in use or not of this machine; set SVC_ANALYTICS_LISTEN to another`,
            { cause: error },
          ),
        );
      }
    });
  });
  try {
    closeConnectionsSafely(server);
    refuseDoubledAuthorization(server);
    takeLongDeadlines(server);
    refuseCompression(server);
    boundRequests(server);
    endAnswered(server);
    const warn = createRareWarning(o.logger);
    endUnfinished(server, o.messageMs ?? defaultMessageMs, (from) => {
      warn("unfinished", { from }, `a call from ${from} was ended: its message did not come in time`);
    });
    onFailedHandshake(server, (code, why, from) => {
      warn(code, { from, code }, `refused a client from ${from}: ${why}`);
    });
    for (const http2 of http2ServersOf(server)) {
      http2.maxConnections = o.maxConnections;
    }
  } catch (error) {
    server.forceShutdown();
    throw error;
  }
  return {
    name: "flight-server",
    address: { host: o.host, port },
    stop: async () => {
      const drained = new Promise<void>((resolve) => {
        server.tryShutdown(() => {
          resolve();
        });
      });
      if ((await atMost(drained, o.drainMs())) === null) {
        o.service.endCalls();
        await atMost(drained, farewellMs);
      }
      server.forceShutdown();
    },
  };
}

/**
 * Ends handshakes that send too much, and when all calls together did, the one that has sent most of the caller who has
 * sent most: else one with many small calls would end the large ones of others. The library limits one message of one
 * call, and holds each until it is whole.
 */
function boundRequests(server: Server): void {
  /** By the credential that calls came with; unknown ones are refused before anything is held. */
  const callers = new Map<string, Held>();
  let total = 0;
  const forget = (credential: string, stream: ServerHttp2Stream): void => {
    const own = callers.get(credential);
    const bytes = own?.calls.get(stream);
    if (own === undefined || bytes === undefined) {
      return;
    }
    total -= bytes;
    own.bytes -= bytes;
    own.calls.delete(stream);
    if (own.calls.size === 0) {
      callers.delete(credential);
    }
  };
  const endLargest = (): void => {
    const [credential, { calls }] = [...callers].reduce((a, b) => (b[1].bytes > a[1].bytes ? b : a));
    const [most] = [...calls].reduce((a, b) => (b[1] > a[1] ? b : a));
    most.close(constants.NGHTTP2_ENHANCE_YOUR_CALM);
    // It closes later, and no other has to go for what it held.
    forget(credential, most);
  };
  for (const http2 of http2ServersOf(server)) {
    http2.prependListener("stream", (stream: ServerHttp2Stream, headers: IncomingHttpHeaders) => {
      const isHandshake = headers[constants.HTTP2_HEADER_PATH] === handshakePath;
      const credential = headers.authorization ?? "";
      stream.on("data", ({ length }: Buffer) => {
        // What comes behind an answer, or behind its end, is dropped.
        if (stream.headersSent || stream.closed) {
          return;
        }
        const own = callers.get(credential) ?? { bytes: 0, calls: new Map<ServerHttp2Stream, number>() };
        const before = own.calls.get(stream);
        if (before !== undefined) {
          countFrame(stream, length);
        }
        const bytes = (before ?? 0) + length;
        own.calls.set(stream, bytes);
        own.bytes += length;
        callers.set(credential, own);
        total += length;
        if (isHandshake && bytes > maxHandshakeBytes) {
          stream.close(constants.NGHTTP2_ENHANCE_YOUR_CALM);
        } else if (total > maxHeldBytes) {
          endLargest();
        }
      });
      stream.once("close", () => {
        forget(credential, stream);
      });
    });
  }
}

/**
 * Ends calls that have their answer while the client goes on sending, or never ends: they would stay for as long as the
 * client likes. It is given a moment, in which most end by themselves.
 */
function endAnswered(server: Server): void {
  for (const http2 of http2ServersOf(server)) {
    http2.prependListener("stream", (stream: ServerHttp2Stream) => {
      stream.once("finish", () => {
        const timer = setTimeout(() => {
          stream.close(constants.NGHTTP2_NO_ERROR);
        }, farewellMs);
        timer.unref();
        stream.once("close", () => {
          clearTimeout(timer);
        });
      });
    });
  }
}

/** Calls that take one message; those of more have a time of their own. */
const oneMessage: ReadonlySet<string> = new Set(
  Object.values(flightServiceDefinition).flatMap(({ path, requestStream }) => (requestStream ? [] : [path])),
);

/** Ends calls whose message is not whole in time, which would hold a place and what they have sent as long as they like. */
function endUnfinished(server: Server, ms: number, onEnded: (from: string) => void): void {
  const answer = {
    [constants.HTTP2_HEADER_STATUS]: 200,
    "content-type": "application/grpc+proto",
    "grpc-status": status.DEADLINE_EXCEEDED,
    "grpc-message": `The message did not come within ${ms / 1000} seconds.`,
  };
  for (const http2 of http2ServersOf(server)) {
    http2.prependListener("stream", (stream: ServerHttp2Stream, headers: IncomingHttpHeaders) => {
      if (!oneMessage.has(String(headers[constants.HTTP2_HEADER_PATH]))) {
        return;
      }
      const timer = setTimeout(() => {
        // One that was refused has its answer, and may go on sending behind it.
        if (!stream.headersSent) {
          stream.respond(answer, { endStream: true });
          onEnded(stream.session?.socket.remoteAddress ?? "");
        }
        stream.close(constants.NGHTTP2_NO_ERROR);
      }, ms);
      timer.unref();
      const whole = (): void => {
        clearTimeout(timer);
      };
      stream.once("end", whole);
      stream.once("close", whole);
    });
  }
}

/** What a caller has sent in calls that have no answer. */
interface Held {
  bytes: number;
  /** Bytes of each. */
  readonly calls: Map<ServerHttp2Stream, number>;
}
