/**
 * Requests to an OIDC issuer: discovery, key set, token endpoint. Addresses are https, or plain http
 * where the issuer's entry of `SVC_OIDC_CONFIG` or loopback allows it; a body is read whole, up to a
 * bound. For an issuer with a `ca_file` only the certificate authorities of that file count.
 */
import { X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";

import { readBounded } from "telemetry-service-client/shared/bounded-body";
import { isTrustworthyUrl, type OidcIssuer } from "../../runtime/config/oidc.js";
import { ServiceError, tlsFailureCode } from "../../runtime/errors.js";

const maxDocumentBytes = 512 * 1024;

/** A request; rejects when there is no whole answer. */
export type IssuerFetch = (url: string, init: RequestInit) => Promise<Response>;

/**
 * Reads the issuer's certificates once; a changed file counts from the next start.
 * @throws ServiceError NOT_CONFIGURED when they cannot be read.
 */
export function createIssuerFetch(issuer: OidcIssuer): IssuerFetch {
  const send = issuer.caFile === null ? fetch : fetchTrusting(readCertificates(issuer.caFile));
  return async (url, init) => {
    if (!isTrustworthyUrl(url, issuer.allowHttp)) {
      throw new Error("the issuer names an address without https");
    }
    const response = await send(url, init).catch((error: unknown) => {
      throw withReason(error);
    });
    const body = await readBounded(response, maxDocumentBytes, "document");
    const { status } = response;
    const headers = new Headers(response.headers);
    // The body is decoded already.
    headers.delete("content-encoding");
    headers.delete("content-length");
    const bodyless = status === 204 || status === 205 || status === 304;
    return new Response(bodyless ? null : body, { status, headers });
  };
}

/** Node.js says "fetch failed", and why only in the cause. */
function withReason(error: unknown): unknown {
  const cause = error instanceof Error ? error.cause : undefined;
  if (!(cause instanceof Error)) {
    return error;
  }
  const code = "code" in cause ? String(cause.code) : "";
  const remedy = tlsFailureCode.test(code)
    ? " (is its authority named in ca_file of SVC_OIDC_CONFIG, or in NODE_EXTRA_CA_CERTS?)"
    : "";
  return new Error(`${cause.message === "" ? code : cause.message}${remedy}`, { cause: error });
}

// Node.js 20 gives its own fetch no certificates after the start of the process; undici, which that is made
// of, takes them. Loading it takes a tenth of a second: only where it is needed.
function fetchTrusting(certificates: readonly string[]): IssuerFetch {
  const load = async () => {
    const { Agent, fetch: fetchThrough } = await import("undici");
    return { fetchThrough, dispatcher: new Agent({ connect: { ca: [...certificates] } }) };
  };
  let loaded: ReturnType<typeof load> | null = null;
  return async (url, init) => {
    loaded ??= load();
    const { fetchThrough, dispatcher } = await loaded;
    // The same standard in two packages, whose types differ in names only.
    const options = { ...init, dispatcher } as Parameters<typeof fetchThrough>[1];
    return await fetchThrough(url, options);
  };
}

function readCertificates(file: string): readonly string[] {
  try {
    const pem = readFileSync(file, "utf8");
    const certificates = pem.match(/-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----/gsu) ?? [];
    if (certificates.length === 0) {
      throw new Error("it holds no certificate");
    }
    // Node.js passes over what it cannot read, and would then trust nobody without a word.
    return certificates.map((text) => new X509Certificate(text).toString());
  } catch (cause) {
    throw new ServiceError(
      "NOT_CONFIGURED",
      `SVC_OIDC_CONFIG: the ca_file ${file} cannot be used: ${cause instanceof Error ? cause.message : "unknown"}`,
      { cause },
    );
  }
}
