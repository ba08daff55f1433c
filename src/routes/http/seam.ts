/**
 * The seam between what answers requests and what speaks HTTP/1.1: all that a server uses of a request
 * and of its response. uWebSockets.js' own objects implement it as they are, so that driver adds no
 * layer; the driver over `node:http` has classes of the same shape.
 *
 * Rules that both keep: a request is valid during the handler's call only; a response is not touched
 * after it was ended or aborted; `onAborted` is set before the handler returns without having answered.
 */
import type { Component } from "../../runtime/lifecycle.js";
import type { Logger } from "../../runtime/log/log.js";
import type { RequestHead } from "./request-head.js";

/** Which implementation speaks HTTP. */
export type HttpDriver = "uws" | "node";

/** A request's head, valid during the handler's call only. */
export interface HttpRequest {
  /** Calls `visit` for every field in order, names in lower case, repeated fields one by one. */
  forEach(visit: (name: string, value: string) => void): void;
  /** The first field of that name (lower case), the empty string without one. */
  getHeader(name: string): string;
  /** The method as it was sent. */
  getCaseSensitiveMethod(): string;
  /** The path, without the query. */
  getUrl(): string;
  /** What follows the question mark; undefined or empty without one. */
  getQuery(): string | undefined;
}

/** A response that is due. */
export interface HttpReply {
  /**
   * The client has left, or was told `status` because what it sent is broken; the response must not be touched any
   * more.
   */
  onAborted(handler: (status?: number) => void): unknown;
  /** Parts of the body; the memory is valid during the call only. The last one may be empty. */
  onData(handler: (chunk: ArrayBuffer | Uint8Array, isLast: boolean) => void): unknown;
  /** Called when `write`, which returned false, may go on. */
  onWritable(handler: () => boolean): unknown;
  /** Leaves the rest of the body in the socket until `resume`. */
  pause(): void;
  resume(): void;
  /** Runs `write` so that what it writes leaves in one piece. */
  cork(write: () => void): unknown;
  /** For example `200 OK`; the first thing that is written, if at all. */
  writeStatus(status: string): unknown;
  writeHeader(name: string, value: string): unknown;
  /** A part of a body without `Content-Length`; false: wait for `onWritable` before the next one. */
  write(chunk: string | Uint8Array): boolean;
  /** Ends the response, with `Content-Length` unless something was written. @param close the connection, too. */
  end(body?: string | Uint8Array, close?: boolean): unknown;
  /**
   * A part of a body of `totalBytes` in all, which becomes its `Content-Length`. First: all of the part was taken;
   * otherwise what lies behind {@link getWriteOffset} is to be given again, once `onWritable` was called. Second: the
   * response has ended. A part is not copied: its memory must stay as it is until the response has ended.
   */
  tryEnd(part: Uint8Array, totalBytes: number): [boolean, boolean];
  /** Bytes of a body that {@link tryEnd} has taken. */
  getWriteOffset(): number;
  /** Ends the response without a body and without a `Content-Length` of its own. */
  endWithoutBody(): unknown;
  /** The client's address as ASCII. */
  getRemoteAddressAsText(): ArrayBuffer;
  /** Cuts the connection. */
  close(): unknown;
}

/** What answers the requests to a path. */
export interface HttpHandler {
  /** Answers now, or later after `onAborted`. The head is overwritten by the next request. */
  handle(reply: HttpReply, request: HttpRequest, head: RequestHead): void;
  /**
   * Answers a request whose framing leaves room for doubt ({@link RequestHead.framingProblem}), at once, and ends the
   * connection.
   */
  malformed(reply: HttpReply, request: HttpRequest, head: RequestHead): void;
}

/** What every listener is told. */
export interface HttpPlace {
  readonly host: string;
  /** 0 picks a free port. */
  readonly port: number;
  /** Open connections at most; further ones are closed. */
  readonly maxConnections: number;
  readonly logger: Logger;
}

/** Options of a listener. */
export interface HttpListenOptions extends HttpPlace {
  /** Whether other threads listen on the same port; the kernel spreads connections over them then. `uws` only. */
  readonly shared?: boolean;
  /** Whether a client that has closed its side is answered still; otherwise it has left. `node` only. */
  readonly answersHalfClosed?: boolean;
  readonly routes: ReadonlyMap<string, HttpHandler>;
  /** Answers every other path. */
  readonly fallback: HttpHandler;
  /** Told of a client that speaks HTTP/2, by its address; returns the sentence that it is told. `node` only. */
  readonly onHttp2?: (from: string) => string;
  /** What is served and the option that names the address, for the error when it is taken. */
  readonly purpose: string;
  readonly option: string;
  /** The empty string is a value of that option. */
  readonly dispensable?: boolean;
}

/** Listens until it is stopped. */
export interface HttpListener extends Component {
  readonly driver: HttpDriver;
  readonly address: { readonly host: string; readonly port: number };
  /** Takes no more connections; those that are open go on. */
  stopListening(): void;
  /** Closes every connection. */
  stop(): Promise<void>;
}

/** Room for the head of one request in bytes, under both drivers; what is larger gets 431. */
export const maxHeadBytes = 64 * 1024;

/** How long a connection without a request is kept, in seconds; longer than the pools of common proxies keep it. */
export const keepAliveSeconds = 75;

/**
 * Longest time for which a client may take nothing of an answer that comes in parts. One that was given whole has ten
 * seconds under `uws` and up to twice this under `node`, which looks for bytes that have left at intervals of it.
 */
export const answerTimeoutMs = 30_000;

/**
 * uWebSockets.js cuts a connection whose body brings less than 16 KiB a second for ten seconds, or whose client takes
 * nothing for so long; pausing and resuming restarts its timer, so that only our own limits count.
 */
export function restartReadTimer(reply: HttpReply): void {
  reply.pause();
  reply.resume();
}

/** How often to call {@link restartReadTimer}: well below those ten seconds. */
export const keepReadingEveryMs = 4000;

/** The bytes of a part of a body. */
export function bytesOf(chunk: ArrayBuffer | Uint8Array): Uint8Array {
  return chunk instanceof Uint8Array ? chunk : new Uint8Array(chunk);
}

/** The client's address. */
export function remoteAddress(reply: HttpReply): string {
  return Buffer.from(reply.getRemoteAddressAsText()).toString("latin1");
}
