/** A client of the web server's JSON routes, with an identity token in the cookie `id_token`. */

import { underSignals } from "../shared/abort.js";
import { readBounded } from "../shared/bounded-body.js";

/** A request that the web server refused or that did not reach it. The message is one sentence. */
export class WebError extends Error {
  override readonly name = "WebError";
  /** HTTP status; null when there was no answer. */
  readonly status: number | null;

  constructor(status: number | null, message: string, options?: ErrorOptions) {
    super(message, options);
    this.status = status;
  }
}

/** One request. */
export interface WebRequest {
  readonly method: string;
  /** Below the server's address: `/api/groups`. Already encoded. */
  readonly path: string;
  /** Null values are left out. */
  readonly query?: Readonly<Record<string, string | number | boolean | null>>;
  readonly body?: Readonly<Record<string, unknown>>;
}

/** Where requests go. */
interface WebClientOptions {
  /** `http(s)://host:port` with the base path, with or without a slash at its end. */
  readonly url: string;
  readonly idToken: string;
  readonly signal: AbortSignal;
  /** Default 30 s. */
  readonly timeoutMs?: number;
}

const maxAnswerBytes = 64 * 1024 * 1024;

/**
 * Sends one request and gives the JSON of its answer, null for an answer without a body.
 * @throws WebError when it was refused, or could not be sent or answered.
 */
export async function requestWeb(o: WebClientOptions, request: WebRequest): Promise<unknown> {
  const url = new URL(`${o.url.replace(/\/+$/, "")}${request.path}`);
  for (const [name, value] of Object.entries(request.query ?? {})) {
    if (value !== null) {
      url.searchParams.set(name, String(value));
    }
  }
  const timeout = AbortSignal.timeout(o.timeoutMs ?? 30_000);
  const { ok, status, text } = await underSignals([o.signal, timeout], async (signal) => {
    try {
      const response = await fetch(url, {
        method: request.method,
        // Also without a body: the server wants it on everything that changes something.
        headers: { cookie: `id_token=${o.idToken}`, "content-type": "application/json" },
        // A redirect could take the cookie elsewhere.
        redirect: "manual",
        signal,
        ...(request.body === undefined ? {} : { body: JSON.stringify(request.body) }),
      });
      const bytes = await readBounded(response, maxAnswerBytes, "answer");
      return { ok: response.ok, status: response.status, text: bytes.toString("utf8") };
    } catch (cause) {
      throw new WebError(null, `no answer from ${url.origin}: ${reasonOf(cause)}`, { cause });
    }
  });
  const body = parsed(text);
  if (ok && body !== undefined) {
    return body;
  }
  throw new WebError(status, refusal(status, body, url));
}

/** Undefined for what is no JSON. */
function parsed(text: string): unknown {
  if (text === "") {
    return null;
  }
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

function refusal(status: number, body: unknown, url: URL): string {
  if (typeof body === "object" && body !== null && "code" in body && "message" in body) {
    return `${String(body.message)} (${status} ${String(body.code)})`;
  }
  return `${url.origin} answered ${status} and not as the web server of this service does; check the address`;
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) {
    return "unknown";
  }
  if (error.name === "TimeoutError") {
    return "it took too long";
  }
  const { cause } = error;
  if (cause instanceof Error && "code" in cause && typeof cause.code === "string") {
    return cause.code;
  }
  return error.message;
}
