/**
 * Refuses requests with two `authorization` fields. Node's HTTP/2 keeps the first only; behind a proxy
 * that checks the last, this server would authenticate somebody else.
 */
import type { Server } from "@grpc/grpc-js";
import type { Http2Server, IncomingHttpHeaders, ServerHttp2Stream } from "node:http2";

import { ServiceError } from "../../runtime/errors.js";

/** No scheme and no key: nobody is authenticated by it. */
const nobody = "";

/**
 * From now on a request that has `authorization` more than once is nobody's. Call it when the server is bound.
 * @throws ServiceError INTERNAL when the library has changed, rather than serve without
 */
export function refuseDoubledAuthorization(server: Server): void {
  const bound = http2ServersOf(server);
  if (bound.length === 0) {
    throw new ServiceError("INTERNAL", "the gRPC library hides its HTTP/2 servers");
  }
  for (const http2 of bound) {
    // In front of the library's own listener, which reads the same object.
    http2.prependListener(
      "stream",
      (_stream: ServerHttp2Stream, headers: IncomingHttpHeaders, _flags: number, rawHeaders: readonly string[]) => {
        let fields = 0;
        for (let i = 0; i < rawHeaders.length; i += 2) {
          if (rawHeaders[i]?.toLowerCase() === "authorization") {
            fields++;
          }
        }
        if (fields > 1) {
          headers.authorization = nobody;
        }
      },
    );
  }
}

/** The library keeps them in a map that its types call private. */
function http2ServersOf(server: Server): Http2Server[] {
  const servers: unknown = Reflect.get(server, "http2Servers");
  return servers instanceof Map ? [...(servers as Map<Http2Server, unknown>).keys()] : [];
}
