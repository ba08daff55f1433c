/** Certificates and keys of gRPC listeners. */
import { createPrivateKey, X509Certificate } from "node:crypto";
import { readFile } from "node:fs/promises";
import { createSecureContext } from "node:tls";

import { RenewableCredentials, type TlsTexts } from "../routes/grpc/server-credentials.js";
import { ServiceError } from "../runtime/errors.js";
import type { Component } from "../runtime/lifecycle.js";
import type { Logger } from "../runtime/log/log.js";
import { Periodic } from "../runtime/periodic.js";

const dayMs = 86_400_000;
/**
 * How often the files are read again. Their contents are compared: a watcher would lose files that are replaced by the
 * swap of a link, as Kubernetes does it.
 */
const lookMs = 60_000;
/** The log says that a certificate ends when this part of its life is left, but no more than a week. */
const lastPart = 0.1;

/**
 * Reads what TLS takes, and reads it again every minute; null when no files are named. A certificate that is not valid now
 * is used, and the log says so: this machine's clock may be the one that is wrong.
 * @param options what the names of both options begin with
 * @throws ServiceError NOT_CONFIGURED when a file cannot be read, or certificate and key are no good
 */
export async function openTls(
  options: "SVC_ANALYTICS_TLS" | "SVC_OTLP_GRPC_TLS",
  certificateFile: string | null,
  keyFile: string | null,
  logger: Logger,
): Promise<TlsFiles | null> {
  if (certificateFile === null || keyFile === null) {
    return null;
  }
  const files = { options, certificateFile, keyFile };
  const texts = await read(files);
  return new TlsFiles(files, texts, check(files, texts), logger);
}

interface Files {
  readonly options: string;
  readonly certificateFile: string;
  readonly keyFile: string;
}

/** The files of a listener. New contents take effect within a minute. */
class TlsFiles implements Component {
  readonly name = "certificate";
  readonly credentials: RenewableCredentials;
  readonly #files: Files;
  readonly #logger: Logger;
  readonly #looks: Periodic;
  #texts: TlsTexts;
  #certificate: X509Certificate;
  /** Why the files are not used as they are now, which was logged. */
  #refusal: string | null = null;
  /** When the log said last that the certificate is not valid, or not for long. */
  #warnedMs = -Infinity;

  constructor(files: Files, texts: TlsTexts, certificate: X509Certificate, logger: Logger) {
    this.credentials = new RenewableCredentials(texts);
    this.#files = files;
    this.#texts = texts;
    this.#certificate = certificate;
    this.#logger = logger;
    this.#looks = new Periodic(() => this.look(), lookMs);
    this.#logLoaded();
    this.#warnOfEnd();
  }

  /** Takes what is in the files now; when it is no good, the log says so once, and the listener goes on with what it has. */
  async look(): Promise<void> {
    try {
      const texts = await read(this.#files);
      if (!isSame(texts, this.#texts)) {
        const certificate = check(this.#files, texts);
        this.credentials.renew(texts);
        this.#texts = texts;
        this.#certificate = certificate;
        this.#warnedMs = -Infinity;
        this.#logLoaded();
      }
      this.#refusal = null;
    } catch (err) {
      const refusal = (err as Error).message;
      if (refusal !== this.#refusal) {
        this.#refusal = refusal;
        this.#logger.warn({ err }, `a certificate and key were not renewed, and those of before go on: ${refusal}`);
      }
    }
    this.#warnOfEnd();
  }

  stop(): Promise<void> {
    return this.#looks.stop();
  }

  #logLoaded(): void {
    const { subject, validTo } = this.#certificate;
    const file = this.#files.certificateFile;
    this.#logger.info(
      { file, subject, validTo },
      `the certificate of ${this.#files.options}_CERT_FILE was loaded, and is valid until ${validTo}`,
    );
  }

  /** Once a day. */
  #warnOfEnd(): void {
    const { validFrom, validTo } = this.#certificate;
    const [from, to, now] = [Date.parse(validFrom), Date.parse(validTo), Date.now()];
    if (
      Math.abs(now - this.#warnedMs) < dayMs ||
      (now >= from && now < to - Math.min((to - from) * lastPart, 7 * dayMs))
    ) {
      return;
    }
    this.#warnedMs = now;
    const { options, certificateFile: file } = this.#files;
    const remedy = "put a valid one and its key in their places, which takes effect within a minute";
    const state =
      now < from || now > to
        ? `clients refuse the certificate of ${options}_CERT_FILE: it is valid from ${validFrom} to ${validTo}`
        : `the certificate of ${options}_CERT_FILE ends at ${validTo}`;
    this.#logger.warn({ file, validFrom, validTo }, `${state}; ${remedy}`);
  }
}

async function read({ certificateFile, keyFile }: Files): Promise<TlsTexts> {
  return { certificateChain: await readOne(certificateFile), privateKey: await readOne(keyFile) };
}

async function readOne(file: string): Promise<Buffer> {
  try {
    return await readFile(file);
  } catch (cause) {
    throw new ServiceError("NOT_CONFIGURED", `cannot read ${file}, which TLS takes`, { cause });
  }
}

function isSame(a: TlsTexts, b: TlsTexts): boolean {
  return a.certificateChain.equals(b.certificateChain) && a.privateKey.equals(b.privateKey);
}

/** TLS itself takes a key of another kind than that of the certificate, and then fails with every client. */
function check({ options }: Files, { certificateChain: cert, privateKey: key }: TlsTexts): X509Certificate {
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
