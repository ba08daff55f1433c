/** The HTTP/2 servers below a server of the gRPC library, for what the library has no option for. */
import type { Http2Server } from "node:http2";

import type { Server } from "@grpc/grpc-js";

import { ServiceError } from "../../runtime/errors.js";

/**
 * The HTTP/2 servers of a server that is bound or has an injector.
 * @throws ServiceError INTERNAL when the library has changed, rather than serve without what they are wanted for
 */
export function http2ServersOf(server: Server): Http2Server[] {
  // The library keeps them in a map that its types call private.
  const map: unknown = Reflect.get(server, "http2Servers");
  const servers = map instanceof Map ? [...(map as Map<Http2Server, unknown>).keys()] : [];
  if (servers.length === 0) {
    throw new ServiceError("INTERNAL", "the gRPC library hides its HTTP/2 servers");
  }
  return servers;
}
