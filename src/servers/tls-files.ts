/** Certificates and keys of gRPC listeners. */
import { createPrivateKey, X509Certificate } from "node:crypto";
import { readFile } from "node:fs/promises";
import { createSecureContext } from "node:tls";

import { ServiceError } from "../runtime/errors.js";
import type { Logger } from "../runtime/log/log.js";
import type { TlsTexts } from "../routes/grpc/server-credentials.js";

/**
 * Reads what TLS takes; null when no files are named. A certificate that is not valid now is used, and the log says so:
 * this machine's clock may be the one that is wrong.
 * @param options what the names of both options begin with
 * @throws ServiceError NOT_CONFIGURED when a file cannot be read, or certificate and key are no good
 */
export async function readTls(
  options: "SVC_ANALYTICS_TLS" | "SVC_OTLP_GRPC_TLS",
  certificateFile: string | null,
  keyFile: string | null,
  logger: Logger,
): Promise<TlsTexts | null> {
  if (certificateFile === null || keyFile === null) {
    return null;
  }
  const tls = { certificateChain: await read(certificateFile), privateKey: await read(keyFile) };
  const { validFrom, validTo } = check(options, tls);
  const now = Date.now();
  if (now < Date.parse(validFrom) || now > Date.parse(validTo)) {
    logger.warn(
      { file: certificateFile, validFrom, validTo },
      `clients refuse the certificate of ${options}_CERT_FILE: it is valid from ${validFrom} to ${validTo}; put a valid one in its place and restart`,
    );
  }
  return tls;
}

async function read(file: string): Promise<Buffer> {
  try {
    return await readFile(file);
  } catch (cause) {
    throw new ServiceError("NOT_CONFIGURED", `cannot read ${file}, which TLS takes`, { cause });
  }
}

/** TLS itself takes a key of another kind than that of the certificate, and then fails with every client. */
function check(options: string, { certificateChain: cert, privateKey: key }: TlsTexts): X509Certificate {
  const files = `${options}_CERT_FILE and ${options}_KEY_FILE`;
  let certificate: X509Certificate;
  let fits: boolean;
  try {
    createSecureContext({ cert, key });
    certificate = new X509Certificate(cert);
    fits = certificate.checkPrivateKey(createPrivateKey(key));
  } catch (cause) {
    const message = `${files} do not hold a certificate and its key: both are PEM, the server's certificate stands before those of its authorities, and the key has no passphrase`;
    throw new ServiceError("NOT_CONFIGURED", message, { cause });
  }
  if (!fits) {
    throw new ServiceError("NOT_CONFIGURED", `${files} do not fit: the key is of another certificate`);
  }
  return certificate;
}
