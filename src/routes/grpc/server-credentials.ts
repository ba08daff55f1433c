/** TLS of gRPC listeners. */
import type { SecureContextOptions } from "node:tls";

import { ServerCredentials } from "@grpc/grpc-js";

/** PEM texts of a certificate, those of its authorities behind it, and its key. */
export interface TlsTexts {
  readonly certificateChain: Buffer;
  readonly privateKey: Buffer;
}

/** How long a client may take for its handshake. Node.js gives it two minutes. */
const handshakeMs = 10_000;

/** What the library takes, with a certificate that can be renewed while the server runs. */
export class RenewableCredentials extends ServerCredentials {
  constructor(tls: TlsTexts) {
    super({ requestCert: false, handshakeTimeout: handshakeMs }, contextOf(tls));
  }

  /** Connections that begin from now on get it; others go on. */
  renew(tls: TlsTexts): void {
    this.updateSecureContextOptions(contextOf(tls));
  }

  override _equals(other: ServerCredentials): boolean {
    return this === other;
  }
}

function contextOf({ certificateChain: cert, privateKey: key }: TlsTexts): SecureContextOptions {
  // What the library takes from the environment.
  const { ciphers } = ServerCredentials.createSsl(null, [])._getConstructorOptions() ?? {};
  return { cert, key, ciphers };
}
