/**
 * One gRPC call as a request and a reply of the HTTP seam.
 *
 * A call is handed over when the five bytes in front of its message are here, because they tell its length and whether
 * it is compressed; from then on its message is the body of a request. What its handler answers as OTLP/HTTP leaves as
 * a message or as a status.
 *
 * States: prefix -> message -> over. Nothing is written after it is over.
 */
import { constants, type IncomingHttpHeaders, type ServerHttp2Stream } from "node:http2";

import type { YoungCollector } from "../../../runtime/collector.js";
import { errorCatalogue } from "../../../runtime/errors.js";
import { encodeRpcStatus } from "../../../wire/otlp/rpc-status.js";
import { ownTelemetryHeader } from "../../../wire/otlp/own-telemetry.js";
import { countFrame } from "../../grpc/small-frames.js";
import type { HttpReply, HttpRequest } from "../../http/seam.js";
import { errorTrailers, responseFields } from "./trailers.js";

/** What a call needs of its listener. */
export interface GrpcCallHost {
  readonly collector: YoungCollector;
  /** Calls whose prefix is awaited; the host refuses those that stay for too long. */
  readonly beginning: Set<GrpcCall>;
  /** The length of the message is known, or `problem` says why it will not be. */
  begin(call: GrpcCall, problem: string | null): void;
  /** The message turned out not to be one, and its sender was told so; its handler is told that it was aborted. */
  broken(call: GrpcCall, problem: string): void;
}

const prefixBytes = 5;
const nothing = new Uint8Array(0);
/** How long a sender that was refused may take to stop. */
const lingerMs = 200;

/** Takes a stream over, within its event; the stream holds the call. */
export function takeCall(host: GrpcCallHost, stream: ServerHttp2Stream, fields: IncomingHttpHeaders): void {
  new GrpcCall(host, stream, fields).read();
}

/** See the head of this file. */
export class GrpcCall implements HttpRequest, HttpReply {
  readonly #host: GrpcCallHost;
  readonly #stream: ServerHttp2Stream;
  readonly #fields: IncomingHttpHeaders;
  /** `performance.now()` when the call began. */
  readonly sinceMs = performance.now();
  /** The first byte of the message's prefix: 1 when it is compressed. */
  #flag = 0;
  #state: "prefix" | "message" | "over" = "prefix";
  #prefixLength = 0;
  #length = 0;
  #received = 0;
  #ended = false;
  #status = 200;
  #retryAfterSeconds: number | undefined;
  #onData: (chunk: Uint8Array, isLast: boolean) => void = () => undefined;
  #onAborted: (status?: number) => void = () => undefined;

  constructor(host: GrpcCallHost, stream: ServerHttp2Stream, fields: IncomingHttpHeaders) {
    this.#host = host;
    this.#stream = stream;
    this.#fields = fields;
  }

  /** Begins to read. */
  read(): void {
    const stream = this.#stream;
    // An error is followed by `close`.
    stream.on("error", () => undefined);
    stream.once("close", () => {
      this.#abort();
    });
    let begun = false;
    stream.on("data", (chunk: Buffer) => {
      if (begun) {
        countFrame(stream, chunk.length);
      }
      begun = true;
      this.#data(chunk);
      this.#host.collector.made(chunk.length);
    });
    stream.once("end", () => {
      this.#end();
    });
    this.#host.beginning.add(this);
  }

  forEach(visit: (name: string, value: string) => void): void {
    visit("authorization", this.getHeader("authorization"));
    visit("content-type", "application/x-protobuf");
    visit("content-length", String(this.#length));
    if (this.#flag === 1) {
      visit("content-encoding", this.getHeader("grpc-encoding"));
    }
    if (this.#fields[ownTelemetryHeader] !== undefined) {
      visit(ownTelemetryHeader, this.getHeader(ownTelemetryHeader));
    }
  }

  getHeader(name: string): string {
    const value = this.#fields[name];
    return typeof value === "string" ? value : "";
  }

  getCaseSensitiveMethod(): string {
    return this.getHeader(":method");
  }

  getUrl(): string {
    return this.getHeader(":path");
  }

  getQuery(): string {
    return "";
  }

  onAborted(handler: (status?: number) => void): void {
    this.#onAborted = handler;
  }

  onData(handler: (chunk: Uint8Array, isLast: boolean) => void): void {
    this.#onData = handler;
  }

  onWritable(): void {
    // A response is one message.
  }

  pause(): void {
    this.#stream.pause();
  }

  resume(): void {
    this.#stream.resume();
  }

  cork(write: () => void): void {
    write();
  }

  writeStatus(status: string): void {
    this.#status = Number(status.slice(0, 3));
  }

  writeHeader(name: string, value: string): void {
    if (name === "Retry-After") {
      this.#retryAfterSeconds = Number(value);
    }
  }

  write(): boolean {
    throw new Error("a response of OTLP is written in one piece");
  }

  /** A message is given in one piece, and its stream keeps what the client does not take. */
  tryEnd(body: Uint8Array): [boolean, boolean] {
    this.end(body);
    return [true, true];
  }

  getWriteOffset(): number {
    return 0;
  }

  end(body: string | Uint8Array = nothing): void {
    if (this.#state === "over") {
      return;
    }
    this.#state = "over";
    const bytes = typeof body === "string" ? Buffer.from(body) : body;
    if (this.#status === 200) {
      this.#answer(bytes);
    } else {
      this.#refuse(this.#status, bytes);
    }
  }

  endWithoutBody(): void {
    this.end();
  }

  getRemoteAddressAsText(): ArrayBuffer {
    return new TextEncoder().encode(this.#stream.session?.socket.remoteAddress ?? "").buffer;
  }

  close(): void {
    this.#state = "over";
    this.#stream.close(constants.NGHTTP2_INTERNAL_ERROR);
  }

  #data(chunk: Buffer): void {
    let at = 0;
    if (this.#state === "prefix") {
      while (this.#prefixLength < prefixBytes && at < chunk.length) {
        this.#prefixByte(chunk[at++] ?? 0);
      }
      if (this.#prefixLength < prefixBytes) {
        return;
      }
      this.#begin(this.#prefixProblem());
    }
    if (this.#state === "over" || at === chunk.length) {
      return;
    }
    this.#received += chunk.length - at;
    if (this.#received > this.#length) {
      this.#break("more than one message; Export takes one");
    } else {
      this.#onData(at === 0 ? chunk : chunk.subarray(at), false);
    }
  }

  #prefixByte(byte: number): void {
    if (this.#prefixLength++ === 0) {
      this.#flag = byte;
    } else {
      this.#length = this.#length * 256 + byte;
    }
  }

  #prefixProblem(): string | null {
    if (this.#flag > 1) {
      return "a message whose first byte is neither 0 nor 1";
    }
    const coding = this.getHeader("grpc-encoding");
    return this.#flag === 1 && (coding === "" || coding === "identity")
      ? "a compressed message without grpc-encoding"
      : null;
  }

  #begin(problem: string | null): void {
    if (this.#state !== "prefix") {
      return;
    }
    this.#state = "message";
    this.#host.beginning.delete(this);
    this.#host.begin(this, problem);
  }

  /** Refuses a call whose message has not begun; that is transient, like a body that comes in too slowly. */
  refuseLate(): void {
    if (this.#state === "prefix") {
      this.#over();
      this.#retryAfterSeconds = 1;
      const { http, grpc } = errorCatalogue.UNAVAILABLE;
      this.#refuse(http, encodeRpcStatus("protobuf", grpc, "the message did not begin in time; try again"));
    }
  }

  #end(): void {
    this.#ended = true;
    if (this.#state === "message" && this.#received === this.#length) {
      this.#onData(nothing, true);
    } else {
      // A client that leaves ends its stream as well, and some do that first: such a call is `close`d by then.
      setImmediate(() => {
        this.#endEarly();
      });
    }
  }

  #endEarly(): void {
    if (this.#state === "prefix") {
      this.#begin("no message");
    } else if (this.#state === "message") {
      this.#break(`a message of ${this.#received} bytes that announced ${this.#length}`);
    }
  }

  #break(problem: string): void {
    this.#state = "over";
    const { http, grpc } = errorCatalogue.BAD_REQUEST;
    this.#refuse(http, encodeRpcStatus("protobuf", grpc, problem));
    this.#host.broken(this, problem);
    this.#onAborted(http);
  }

  #abort(): void {
    if (this.#state !== "over") {
      this.#over();
      this.#onAborted();
    }
  }

  #over(): void {
    this.#state = "over";
    this.#host.beginning.delete(this);
  }

  #answer(message: Uint8Array): void {
    const stream = this.#stream;
    if (stream.destroyed || stream.closed) {
      return;
    }
    stream.respond(responseFields, { waitForTrailers: true });
    stream.once("wantTrailers", () => {
      stream.sendTrailers({ "grpc-status": "0" });
    });
    const framed = Buffer.alloc(prefixBytes + message.length);
    framed.writeUInt32BE(message.length, 1);
    framed.set(message, prefixBytes);
    stream.end(framed);
  }

  #refuse(status: number, body: Uint8Array): void {
    const stream = this.#stream;
    if (stream.destroyed || stream.closed) {
      return;
    }
    const trailers = errorTrailers(status, body, this.#retryAfterSeconds);
    stream.respond({ ...responseFields, ...trailers }, { endStream: true });
    // Node.js keeps a stream until what has arrived of it is read, however it ended.
    stream.resume();
    if (!this.#ended) {
      // Nobody wants the rest of the message; but closed at once, a stream may take its answer along.
      setTimeout(() => stream.close(constants.NGHTTP2_NO_ERROR), lingerMs).unref();
    }
  }
}
