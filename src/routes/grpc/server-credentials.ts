/** TLS of gRPC listeners. */
import { ServerCredentials } from "@grpc/grpc-js";

/** PEM texts of a certificate, those of its authorities behind it, and its key. */
export interface TlsTexts {
  readonly certificateChain: Buffer;
  readonly privateKey: Buffer;
}

/** What the library takes; null: no TLS. */
export function serverCredentials(tls: TlsTexts | null): ServerCredentials {
  if (tls === null) {
    return ServerCredentials.createInsecure();
  }
  const pair = { cert_chain: tls.certificateChain, private_key: tls.privateKey };
  return ServerCredentials.createSsl(null, [pair]);
}
