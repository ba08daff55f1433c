/**
 * Refuses requests with two `authorization` fields. Node's HTTP/2 keeps the first only; behind a proxy
 * that checks the last, this server would authenticate somebody else.
 */
import type { Server } from "@grpc/grpc-js";
import type { IncomingHttpHeaders, ServerHttp2Stream } from "node:http2";

import { http2ServersOf } from "./http2-servers.js";

/** No scheme and no key: nobody is authenticated by it. */
const nobody = "";

/**
 * From now on a request that has `authorization` more than once is nobody's. Call it when the server is bound.
 * @throws ServiceError INTERNAL when the library has changed, rather than serve without
 */
export function refuseDoubledAuthorization(server: Server): void {
  for (const http2 of http2ServersOf(server)) {
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
