/** TLS handshakes that fail, which the gRPC library says nothing about. */
import type { Socket } from "node:net";
import type { TLSSocket } from "node:tls";

import type { Server } from "@grpc/grpc-js";

import { http2ServersOf } from "./http2-servers.js";

/** @param code of the failure: there are few. @param why a sentence. @param from the client's address */
type FailedHandshake = (code: string, why: string, from: string) => void;

/**
 * Calls back for each handshake that fails from now on. Not for connections that end without a byte, as those do that
 * load balancers try the port with. Call it when the server is bound or has an injector.
 * @throws ServiceError INTERNAL when the library has changed, rather than serve without
 */
export function onFailedHandshake(server: Server, tell: FailedHandshake): void {
  for (const http2 of http2ServersOf(server)) {
    // A socket remembers an address that it was asked for; later the connection is gone.
    http2.on("connection", (socket: Socket) => void socket.remoteAddress);
    http2.on("tlsClientError", (error: NodeJS.ErrnoException & { reason?: string }, socket: TLSSocket) => {
      // The connection below, which Node.js has no public name for.
      const below: unknown = Reflect.get(socket, "_parent");
      const { bytesRead, remoteAddress } = (below ?? socket) as Socket;
      if (bytesRead > 0) {
        const code = error.code ?? "";
        tell(code, `a TLS handshake failed: ${reasonOf(code, error.reason)}`, remoteAddress ?? "");
      }
    });
  }
}

/** The alert of clients to whom the certificate is no good: of an authority that they do not know, of another name, ended. */
const distrust = /ALERT_(?:UNKNOWN_CA|BAD_CERTIFICATE|CERTIFICATE_\w+)$/u;

function reasonOf(code: string, reason = code): string {
  if (distrust.test(code)) {
    return `the client does not trust this server's certificate (${reason})`;
  }
  switch (code) {
    case "ECONNRESET":
      return "the client hung up, as some do that do not trust this server's certificate";
    case "ERR_TLS_HANDSHAKE_TIMEOUT":
      return "the client did not finish it in time";
    case "ERR_SSL_HTTP_REQUEST":
    case "ERR_SSL_WRONG_VERSION_NUMBER":
      return "the client does not speak TLS";
    default:
      return reason;
  }
}
