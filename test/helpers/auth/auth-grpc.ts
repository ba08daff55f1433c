/** One Flight call by hand over HTTP/2, with header fields that no client library would send. */
import { connect, type OutgoingHttpHeaders } from "node:http2";

import { encodeAny, flightSqlNames } from "../../../src/wire/flight/flight-protobuf.js";
import { message, text, varintField } from "../otlp/otlp-bodies.js";

/** gRPC status codes that authentication leads to. */
export const grpcOk = 0;
export const grpcUnavailable = 14;
export const grpcUnauthenticated = 16;

/** What a call ended with. */
interface GrpcAnswer {
  /** `grpc-status`, or null when the stream ended without one. */
  readonly status: number | null;
  readonly message: string;
  readonly retryAfter: string | null;
}

/** `GetFlightInfo` of a query, which describes it and opens nothing. */
export async function flightInfo(port: number, fields: OutgoingHttpHeaders, sql = "SELECT 1"): Promise<GrpcAnswer> {
  const command = encodeAny(flightSqlNames.statementQuery, text(1, sql));
  const request = Buffer.concat([varintField(1, 2), message(2, [Buffer.from(command)])]);
  const prefix = Buffer.alloc(5);
  prefix.writeUInt32BE(request.length, 1);
  const session = connect(`http://127.0.0.1:${port}`);
  try {
    return await new Promise<GrpcAnswer>((resolve) => {
      const seen: Record<string, unknown> = {};
      const end = (): void => {
        const field = (name: string): string | null => (typeof seen[name] === "string" ? seen[name] : null);
        const status = field("grpc-status");
        resolve({
          status: status === null ? null : Number(status),
          message: decodeURIComponent(field("grpc-message") ?? ""),
          retryAfter: field("retry-after"),
        });
      };
      session.on("error", end);
      const stream = session.request({
        ":method": "POST",
        ":path": "/arrow.flight.protocol.FlightService/GetFlightInfo",
        "content-type": "application/grpc",
        te: "trailers",
        ...fields,
      });
      stream.on("response", (headers) => Object.assign(seen, headers));
      stream.on("trailers", (headers) => Object.assign(seen, headers));
      stream.on("error", end);
      stream.on("close", end);
      stream.resume();
      stream.end(Buffer.concat([prefix, request]));
    });
  } finally {
    session.destroy();
  }
}
