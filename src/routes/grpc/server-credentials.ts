/** TLS of gRPC listeners. */
import { ServerCredentials } from "@grpc/grpc-js";

/** PEM texts of a certificate, those of its authorities behind it, and its key. */
export interface TlsTexts {
  readonly certificateChain: Buffer;
  readonly privateKey: Buffer;
}

/** How long a client may take for its handshake. Node.js gives it two minutes. */
const handshakeMs = 10_000;

/** What the library takes; null: no TLS. */
export function serverCredentials(tls: TlsTexts | null): ServerCredentials {
  if (tls === null) {
    return ServerCredentials.createInsecure();
  }
  const pair = { cert_chain: tls.certificateChain, private_key: tls.privateKey };
  const credentials = ServerCredentials.createSsl(null, [pair]);
  // The library hands these options to Node.js, and has none of its own for that.
  Object.assign(credentials._getConstructorOptions() ?? {}, { handshakeTimeout: handshakeMs });
  return credentials;
}
