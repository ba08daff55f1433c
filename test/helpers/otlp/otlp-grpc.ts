/** Calls of OTLP/gRPC by hand, over HTTP/2: what no gRPC library would send, and every field of what comes back. */
import { type ClientHttp2Session, type ClientHttp2Stream, connect, type IncomingHttpHeaders } from "node:http2";

import protobuf from "protobufjs";

/** The methods by signal. */
export const grpcPaths = {
  logs: "/opentelemetry.proto.collector.logs.v1.LogsService/Export",
  metrics: "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
  traces: "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
} as const;

/** What became of a call. */
interface GrpcAnswer {
  /** `grpc-status`; NaN when the call ended without one. */
  readonly code: number;
  /** `grpc-message`, decoded. */
  readonly text: string;
  /** Delay in seconds of RetryInfo in `grpc-status-details-bin`; null without. */
  readonly retrySeconds: number | null;
  /** The message with its prefix. */
  readonly body: Buffer;
  readonly headers: IncomingHttpHeaders;
}

const { root } = protobuf.parse(
  `syntax = "proto3";
   message Status { int32 code = 1; string message = 2; repeated Any details = 3; }
   message Any { string type_url = 1; bytes value = 2; }
   message RetryInfo { Duration retry_delay = 1; }
   message Duration { int64 seconds = 1; int32 nanos = 2; }`,
  { keepCase: true },
);

/** A message with its prefix. @param flag 1: compressed */
export function framed(message: Buffer, flag = 0): Buffer {
  const prefix = Buffer.alloc(5, flag);
  prefix.writeUInt32BE(message.length, 1);
  return Buffer.concat([prefix, message]);
}

/** A connection. */
export class GrpcConnection {
  readonly session: ClientHttp2Session;
  readonly #authorization: string;

  constructor(url: string, key: string) {
    this.session = connect(url);
    this.session.on("error", () => undefined);
    this.#authorization = `Bearer ${key}`;
  }

  /** Begins a call; `fields` over those of a gRPC client, null leaves one out. */
  begin(path: string, fields: Readonly<Record<string, string | string[] | null>> = {}): ClientHttp2Stream {
    const all = {
      ":method": "POST",
      ":path": path,
      te: "trailers",
      "content-type": "application/grpc",
      authorization: this.#authorization,
      ...fields,
    };
    return this.session.request(
      Object.fromEntries(Object.entries(all).filter(([, value]) => value !== null)) as Record<string, string>,
      { endStream: false },
    );
  }

  /** A whole call of one message, or of bytes that are none. */
  async call(
    path: string,
    bytes: Buffer,
    fields: Readonly<Record<string, string | string[] | null>> = {},
  ): Promise<GrpcAnswer> {
    const stream = this.begin(path, fields);
    stream.end(bytes);
    return await answerOf(stream);
  }

  close(): void {
    this.session.destroy();
  }
}

/** Resolves when a stream has ended. */
export function answerOf(stream: ClientHttp2Stream): Promise<GrpcAnswer> {
  return new Promise((resolve) => {
    const chunks: Buffer[] = [];
    let headers: IncomingHttpHeaders = {};
    let trailers: IncomingHttpHeaders = {};
    stream.on("response", (fields) => (headers = fields));
    stream.on("trailers", (fields: IncomingHttpHeaders) => (trailers = fields));
    stream.on("data", (chunk: Buffer) => chunks.push(chunk));
    stream.on("error", () => undefined);
    stream.once("close", () => {
      const last = { ...headers, ...trailers };
      resolve({
        code: Number(last["grpc-status"] ?? Number.NaN),
        text: decodeURIComponent(String(last["grpc-message"] ?? "")),
        retrySeconds: retryOf(last),
        body: Buffer.concat(chunks),
        headers,
      });
    });
  });
}

function retryOf(fields: IncomingHttpHeaders): number | null {
  const details = fields["grpc-status-details-bin"];
  if (details === undefined) {
    return null;
  }
  const status = root
    .lookupType("Status")
    .decode(Buffer.from(String(details), "base64"))
    .toJSON() as {
    code?: number;
    message?: string;
    details?: { type_url: string; value: string }[];
  };
  const [info] = status.details ?? [];
  if (status.code !== Number(fields["grpc-status"]) || info?.type_url !== "type.googleapis.com/google.rpc.RetryInfo") {
    throw new Error(`unexpected details: ${JSON.stringify(status)}`);
  }
  const retry = root.lookupType("RetryInfo").decode(Buffer.from(info.value, "base64")).toJSON() as {
    retry_delay?: { seconds?: string };
  };
  return Number(retry.retry_delay?.seconds ?? 0);
}

/** A zstd frame that holds `content` as it is (RFC 8878): for Node.js 20, which cannot compress with zstd. */
export function zstdOf(content: Buffer): Buffer {
  const largestBlock = 128 * 1024;
  const blocks: Buffer[] = [];
  for (let at = 0; at === 0 || at < content.length; at += largestBlock) {
    const block = content.subarray(at, at + largestBlock);
    const head = Buffer.alloc(3);
    head.writeUIntLE((block.length << 3) | (at + largestBlock >= content.length ? 1 : 0), 0, 3);
    blocks.push(head, block);
  }
  const size = Buffer.alloc(4);
  size.writeUInt32LE(content.length);
  return Buffer.concat([Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0xa0]), size, ...blocks]);
}
