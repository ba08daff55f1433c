/**
 * Takes no compressed messages. The library inflates a message to as much as it may have at most, and nothing that counts
 * what calls have sent sees it: a megabyte in 60 handshakes, of nobody known, took 2 GB.
 */
import type { Server } from "@grpc/grpc-js";
import type {
  IncomingHttpHeaders,
  OutgoingHttpHeaders,
  ServerHttp2Stream,
  ServerStreamResponseOptions,
} from "node:http2";

import { http2ServersOf } from "./http2-servers.js";

/**
 * From now on a compressed message is answered with UNIMPLEMENTED, and clients are told that there is no compression
 * (gRPC's `compression.md`). Call it when the server is bound.
 * @throws ServiceError INTERNAL when the library has changed, rather than serve without
 */
export function refuseCompression(server: Server): void {
  for (const http2 of http2ServersOf(server)) {
    // In front of the library's own listener, which reads the same object.
    http2.prependListener("stream", (stream: ServerHttp2Stream, headers: IncomingHttpHeaders) => {
      const encoding = headers["grpc-encoding"];
      if (encoding !== undefined && encoding !== "identity") {
        // No encoding that the library knows: it says that it does not, with these words.
        headers["grpc-encoding"] = `${String(encoding)}: send messages uncompressed`;
      }
      const respond = stream.respond.bind(stream);
      stream.respond = (fields?: OutgoingHttpHeaders, o?: ServerStreamResponseOptions) => {
        respond({ ...fields, "grpc-accept-encoding": "identity" }, o);
      };
    });
  }
}
