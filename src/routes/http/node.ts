/**
 * The driver over `node:http`, whose parser (llhttp) is strict: what it lets through is framed without doubt.
 * Two to four times the CPU of uWebSockets.js for a small request, next to none for a large one.
 */
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";

import { freeBuffer } from "../../runtime/free-buffer.js";
import { addressTaken, guard } from "./guard.js";
import { RequestHead } from "./request-head.js";
import {
  answerTimeoutMs,
  type HttpListener,
  type HttpListenOptions,
  type HttpReply,
  type HttpRequest,
  keepAliveSeconds,
  maxHeadBytes,
} from "./seam.js";
import { http2Refusal } from "./http2-refusal.js";

/** Longest time for the head of a request. */
const headTimeoutMs = 10_000;

/** Requests of one connection that may wait for their answers. The parser hands over all of a packet's, some thousands. */
const mostUnanswered = 16;

/** Longest time for the rest of a body whose request is answered. */
const restTimeoutMs = 30_000;

/**
 * Listens with `node:http`.
 * @throws ServiceError UNAVAILABLE when the address cannot be bound.
 */
export async function listenNode(o: HttpListenOptions): Promise<HttpListener> {
  const head = new RequestHead("node");
  const server = createServer({
    maxHeaderSize: maxHeadBytes,
    keepAliveTimeout: keepAliveSeconds * 1000,
    headersTimeout: headTimeoutMs,
    // How long a body may take is the handler's business until it answers, then that of `Connection`.
    requestTimeout: 0,
    connectionsCheckingInterval: 1000,
    noDelay: true,
  });
  // Bounded by their size; fields beyond a number would be dropped without a word.
  server.maxHeadersCount = 0;
  server.maxConnections = o.maxConnections;
  // The typings lack it.
  (server as Server & { httpAllowHalfOpen: boolean }).httpAllowHalfOpen = o.answersHalfClosed === true;
  const connections = new WeakMap<Socket, Connection>();
  const connectionOf = (socket: Socket): Connection => {
    let connection = connections.get(socket);
    if (connection === undefined) {
      connection = new Connection(socket);
      connections.set(socket, connection);
    }
    return connection;
  };
  const answer = (message: IncomingMessage, response: ServerResponse, expects = false): void => {
    const connection = connectionOf(message.socket);
    if (connection.failed || message.socket.destroyed) {
      return;
    }
    if (connection.unanswered >= mostUnanswered) {
      message.socket.destroy();
      return;
    }
    const problem = versionProblem(message);
    if (problem !== null) {
      connection.fail(problem);
      return;
    }
    const request = new NodeRequest(message);
    const reply = new NodeReply(message, response, expects);
    connection.opened(reply, response);
    guard(reply, request, o.routes.get(request.getUrl()) ?? o.fallback, head, o);
    reply.handled();
  };
  server.on("request", answer);
  server.on("checkContinue", (message: IncomingMessage, response: ServerResponse) => {
    answer(message, response, true);
  });
  server.on("checkExpectation", (_message: IncomingMessage, response: ServerResponse) => {
    response.writeHead(417, { Connection: "close" }).end();
  });
  // Nothing has come or gone for that long, or for `keepAliveTimeout` behind an answer. Whom an answer is due to waits on.
  server.setTimeout(answerTimeoutMs, (socket: Socket) => {
    if (socket.writableLength > 0 || connectionOf(socket).unanswered === 0) {
      socket.destroy();
    }
  });
  // Neither tunnels nor other protocols: CONNECT has a form of its own, so it is answered here.
  server.on("connect", (_message: IncomingMessage, socket: Socket) => {
    refuse(socket, "405 Method Not Allowed");
  });
  server.on("clientError", (error: NodeJS.ErrnoException, socket: Socket) => {
    if (error.code === "HPE_PAUSED_H2_UPGRADE" && o.onHttp2 !== undefined && !connections.has(socket)) {
      refuseHttp2(socket, o.onHttp2(socket.remoteAddress ?? ""));
      return;
    }
    connectionOf(socket).fail(statusOfParserError(error));
  });
  await listen(server, o);
  let closing: Promise<unknown> | null = null;
  const stopListening = (): void => {
    closing ??= new Promise((resolve) => {
      server.close(resolve);
    });
  };
  return {
    name: "http-listener",
    driver: "node",
    address: { host: o.host, port: (server.address() as AddressInfo).port },
    stopListening,
    async stop() {
      stopListening();
      server.closeAllConnections();
      await closing;
    },
  };
}

async function listen(server: Server, o: HttpListenOptions): Promise<void> {
  server.listen({ host: o.host, port: o.port });
  try {
    await once(server, "listening");
  } catch (cause) {
    throw addressTaken(o, cause);
  }
}

/** Null, or the status that refuses what `node:http` takes and RFC 9112 does not. */
function versionProblem({ httpVersion, rawHeaders }: IncomingMessage): string | null {
  if (httpVersion === "1.1") {
    return null;
  }
  if (httpVersion !== "1.0") {
    return "505 HTTP Version Not Supported";
  }
  // Who speaks 1.0 knows no chunks, so somebody on the way has seen another end (RFC 9112 section 6.1).
  const coded = rawHeaders.some((name, i) => i % 2 === 0 && /^transfer-encoding$/i.test(name));
  return coded ? "400 Bad Request" : null;
}

/** Null: the connection is gone, nobody is told. */
function statusOfParserError({ code = "" }: NodeJS.ErrnoException): string | null {
  switch (code) {
    case "ECONNRESET":
    case "EPIPE":
      return null;
    case "HPE_HEADER_OVERFLOW":
      return "431 Request Header Fields Too Large";
    case "ERR_HTTP_REQUEST_TIMEOUT":
      return "408 Request Timeout";
    case "HPE_CHUNK_EXTENSIONS_OVERFLOW":
      return "413 Content Too Large";
    default:
      return "400 Bad Request";
  }
}

/**
 * What a connection owes its client, for the moment at which the parser gives up on it: requests that
 * came in whole are answered first, and the error is the answer to the one that is broken.
 */
class Connection {
  readonly #socket: Socket;
  readonly #open = new Set<NodeReply>();
  #last: NodeReply | null = null;
  #error: string | null = null;
  #rest: NodeJS.Timeout | undefined;

  constructor(socket: Socket) {
    this.#socket = socket;
    socket.once("close", () => {
      clearTimeout(this.#rest);
    });
  }

  /** Its last answer is decided: nothing that follows is a request. */
  get failed(): boolean {
    return this.#error !== null;
  }

  /** Requests whose answers have not left. */
  get unanswered(): number {
    return this.#open.size;
  }

  opened(reply: NodeReply, response: ServerResponse): void {
    clearTimeout(this.#rest);
    this.#open.add(reply);
    this.#last = reply;
    response.once("close", () => {
      this.#open.delete(reply);
      if (this.#error !== null) {
        this.fail(this.#error);
      } else if (!reply.whole && !this.#socket.destroyed) {
        this.#boundRest(reply);
      }
    });
  }

  /** Nobody reads the rest of that body, and a few such connections would be all that a server keeps. */
  #boundRest(reply: NodeReply): void {
    this.#rest = setTimeout(() => {
      if (!reply.whole) {
        this.#socket.destroy();
      }
    }, restTimeoutMs);
  }

  fail(status: string | null): void {
    if (status === null || !this.#socket.writable) {
      this.#socket.destroy();
      return;
    }
    this.#error = status;
    const broken = [...this.#open].find((reply) => reply.unfinished);
    if (broken !== undefined) {
      broken.break(status);
    }
    // An error after the answer would be taken for the answer to another request.
    else if (this.#last?.whole === false) {
      this.#socket.destroy();
    } else if (this.#open.size === 0) {
      refuse(this.#socket, status);
    }
  }
}

/** How long a client that was refused may take to read that. */
const lingerMs = 1000;

/** Ends a connection with an error. Destroyed at once, bytes that nobody read would keep the client from reading it. */
function refuse(socket: Socket, status: string): void {
  endLingering(socket, plainError(status));
}

/** As `refuse`, for a client that has begun to speak HTTP/2: with a sentence in frames that it understands. */
function refuseHttp2(socket: Socket, sentence: string): void {
  endLingering(socket, http2Refusal(sentence));
}

function endLingering(socket: Socket, answer: string | Uint8Array): void {
  socket.end(answer);
  socket.resume();
  setTimeout(() => socket.destroy(), lingerMs).unref();
}

function plainError(status: string): string {
  return `HTTP/1.1 ${status}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`;
}

class NodeRequest implements HttpRequest {
  readonly #message: IncomingMessage;
  readonly #path: string;
  readonly #query: string;

  constructor(message: IncomingMessage) {
    this.#message = message;
    const target = originForm(message.url ?? "/");
    const mark = target.indexOf("?");
    this.#path = mark === -1 ? target : target.slice(0, mark);
    this.#query = mark === -1 ? "" : target.slice(mark + 1);
  }

  forEach(visit: (name: string, value: string) => void): void {
    const { rawHeaders } = this.#message;
    for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
      visit((rawHeaders[i] ?? "").toLowerCase(), rawHeaders[i + 1] ?? "");
    }
  }

  getHeader(name: string): string {
    const { rawHeaders } = this.#message;
    for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
      if (rawHeaders[i]?.toLowerCase() === name) {
        return rawHeaders[i + 1] ?? "";
      }
    }
    return "";
  }

  getCaseSensitiveMethod(): string {
    return this.#message.method ?? "";
  }

  getUrl(): string {
    return this.#path;
  }

  getQuery(): string {
    return this.#query;
  }
}

/** A target in absolute form without its scheme and authority (RFC 9112 section 3.2.2). */
function originForm(target: string): string {
  if (target.startsWith("/")) {
    return target;
  }
  const rest = /^https?:\/\/[^/?#]*/i.exec(target);
  if (rest === null) {
    return target;
  }
  const path = target.slice(rest[0].length);
  return path.startsWith("/") ? path : `/${path}`;
}

const nothing = new Uint8Array(0);

class NodeReply implements HttpReply {
  readonly #message: IncomingMessage;
  readonly #response: ServerResponse;
  readonly #headers: string[] = [];
  #status = "200 OK";
  /** The client waits for `100 Continue`. */
  #expects: boolean;
  #reads = false;
  #paused = false;
  /** Bytes of a body of known length. */
  #taken = 0;

  constructor(message: IncomingMessage, response: ServerResponse, expects: boolean) {
    this.#message = message;
    this.#response = response;
    this.#expects = expects;
  }

  /** Whether its request came in whole. */
  get whole(): boolean {
    return this.#message.complete;
  }

  /** Whether its request is not whole and its answer has not begun. */
  get unfinished(): boolean {
    return !this.#message.complete && !this.#response.headersSent;
  }

  /** The handler has returned. */
  handled(): void {
    if (this.#reads && !this.#paused) {
      this.#continue();
    }
  }

  /** Answers a request whose body cannot be read on; the handler is told that it was aborted. */
  break(status: string): void {
    const { socket } = this.#message;
    socket.end(plainError(status), () => socket.destroy());
  }

  onAborted(handler: () => void): void {
    this.#response.once("close", () => {
      if (!this.#response.writableEnded) {
        handler();
      }
    });
  }

  onData(handler: (chunk: Uint8Array, isLast: boolean) => void): void {
    this.#reads = true;
    this.#message.on("data", (chunk: Buffer) => {
      handler(chunk, false);
      // Every part of a body is a buffer of its own.
      freeBuffer(chunk);
    });
    this.#message.once("end", () => {
      handler(nothing, true);
    });
    // Told by the end of the connection as well.
    this.#message.on("error", () => undefined);
  }

  onWritable(handler: () => boolean): void {
    this.#response.on("drain", handler);
  }

  pause(): void {
    this.#paused = true;
    this.#message.pause();
  }

  resume(): void {
    this.#paused = false;
    this.#continue();
    this.#message.resume();
  }

  cork(write: () => void): void {
    write();
  }

  writeStatus(status: string): void {
    this.#status = status;
  }

  writeHeader(name: string, value: string): void {
    this.#headers.push(name, value);
  }

  write(chunk: string | Uint8Array): boolean {
    this.#writeHead();
    return this.#response.write(chunk);
  }

  end(body: string | Uint8Array = "", close = false): void {
    if (!this.#response.headersSent) {
      const length = typeof body === "string" ? Buffer.byteLength(body) : body.byteLength;
      this.#headers.push("Content-Length", String(length));
      // A body that was never asked for may still come, or may not.
      if (close || this.#expects) {
        this.#headers.push("Connection", "close");
      }
    }
    this.#writeHead();
    this.#response.end(body);
  }

  tryEnd(part: Uint8Array, totalBytes: number): [boolean, boolean] {
    if (!this.#response.headersSent) {
      if (part.length === totalBytes) {
        this.#taken = totalBytes;
        this.end(part);
        return [true, true];
      }
      this.#headers.push("Content-Length", String(totalBytes));
      this.#writeHead();
    }
    const room = this.#response.write(part);
    this.#taken += part.length;
    const ended = this.#taken >= totalBytes;
    if (ended) {
      this.#response.end();
    }
    // All of it was taken; but the next part has to wait.
    return [room, ended];
  }

  getWriteOffset(): number {
    return this.#taken;
  }

  endWithoutBody(): void {
    this.#writeHead();
    this.#response.end();
  }

  getRemoteAddressAsText(): ArrayBuffer {
    return new TextEncoder().encode(this.#message.socket.remoteAddress ?? "").buffer;
  }

  close(): void {
    this.#message.socket.destroy();
  }

  #continue(): void {
    if (!this.#expects) {
      return;
    }
    this.#expects = false;
    this.#response.writeContinue();
  }

  #writeHead(): void {
    if (this.#response.headersSent) {
      return;
    }
    const space = this.#status.indexOf(" ");
    const code = Number(this.#status.slice(0, space));
    this.#response.writeHead(code, this.#status.slice(space + 1), this.#headers);
  }
}
