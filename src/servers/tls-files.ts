/** Certificates and keys of gRPC listeners. */
import { readFile } from "node:fs/promises";

import { ServiceError } from "../runtime/errors.js";

/** PEM texts. */
export interface TlsFiles {
  readonly certificateChain: Buffer;
  readonly privateKey: Buffer;
}

/**
 * Reads what TLS takes; null when no files are named.
 * @throws ServiceError NOT_CONFIGURED when a file cannot be read
 */
export async function readTls(certificateFile: string | null, keyFile: string | null): Promise<TlsFiles | null> {
  if (certificateFile === null || keyFile === null) {
    return null;
  }
  return { certificateChain: await read(certificateFile), privateKey: await read(keyFile) };
}

async function read(file: string): Promise<Buffer> {
  try {
    return await readFile(file);
  } catch (cause) {
    throw new ServiceError("NOT_CONFIGURED", `cannot read ${file}, which TLS takes`, { cause });
  }
}
