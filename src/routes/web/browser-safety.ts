/**
 * Keeps other web sites from acting through a browser that is logged in here. The cookies are
 * `SameSite=Lax`, which leaves neighbouring subdomains and old browsers; hence, on every route that
 * changes something: a page of another origin is refused outright, and a request that does not say where it
 * comes from must carry `Content-Type: application/json`, which a form cannot send and a script of
 * another origin only after asking (CORS preflight).
 */
import { ServiceError } from "../../runtime/errors.js";

/** The request fields that are looked at, by lower-case name; absent or empty: not sent. */
export interface BrowserHeaders {
  readonly origin?: string | undefined;
  readonly "content-type"?: string | undefined;
  readonly "sec-fetch-site"?: string | undefined;
}

const safeMethods: ReadonlySet<string> = new Set(["GET", "HEAD", "OPTIONS"]);

/**
 * Null when the request may go on, else why not: FORBIDDEN for another origin, and UNSUPPORTED_MEDIA_TYPE
 * where neither an origin nor JSON is there.
 * @param method in capitals; GET, HEAD and OPTIONS change nothing and always pass.
 * @param allowedOrigins see {@link webOrigins}.
 */
export function checkBrowserSafety(
  method: string,
  headers: BrowserHeaders,
  allowedOrigins: ReadonlySet<string>,
): ServiceError | null {
  if (safeMethods.has(method)) {
    return null;
  }
  const origin = headers.origin ?? "";
  if (origin !== "") {
    return allowedOrigins.has(origin.toLowerCase()) ? null : foreign();
  }
  // Browsers say this even where they withhold the origin.
  const site = headers["sec-fetch-site"] ?? "";
  if (site === "cross-site" || site === "same-site") {
    return foreign();
  }
  if (isJson(headers["content-type"] ?? "")) {
    return null;
  }
  return new ServiceError("UNSUPPORTED_MEDIA_TYPE", "Content-Type takes application/json");
}

/** Whether a `Content-Type` field says JSON; parameters do not matter. */
export function isJson(contentType: string): boolean {
  return contentType.split(";", 1)[0]?.trim().toLowerCase() === "application/json";
}

/**
 * The origins whose pages may change something: the server's own as browsers see it, and that of a web
 * application served elsewhere.
 * @param o.redirectUri `SVC_AUTH_REDIRECT_URI` or its default;
 * @param o.corsOrigin `SVC_WEB_CORS_ORIGIN`, any path in it is ignored; null for none.
 */
export function webOrigins(o: {
  readonly redirectUri: string;
  readonly corsOrigin: string | null;
}): ReadonlySet<string> {
  const origins = [new URL(o.redirectUri).origin];
  if (o.corsOrigin !== null) {
    origins.push(new URL(o.corsOrigin).origin);
  }
  return new Set(origins);
}

/**
 * Response fields for a page of `SVC_WEB_CORS_ORIGIN` (the Fetch standard's CORS protocol), to add to
 * every response; to a preflight (`OPTIONS`) they are the whole answer, with status 204.
 * @param origin the request's `Origin`; @param corsOrigin null: no other origin is let in.
 */
export function corsHeaders(
  method: string,
  origin: string,
  corsOrigin: string | null,
): readonly (readonly [string, string])[] {
  if (corsOrigin === null) {
    return [];
  }
  const allowed = new URL(corsOrigin).origin;
  if (origin.toLowerCase() !== allowed) {
    return [["Vary", "Origin"]];
  }
  return [
    ["Vary", "Origin"],
    ["Access-Control-Allow-Origin", allowed],
    ["Access-Control-Allow-Credentials", "true"],
    ...(method === "OPTIONS"
      ? ([
          ["Access-Control-Allow-Methods", "GET, POST, PUT, PATCH, DELETE"],
          ["Access-Control-Allow-Headers", "Content-Type"],
          ["Access-Control-Max-Age", "600"],
        ] as const)
      : []),
  ];
}

function foreign(): ServiceError {
  return new ServiceError("FORBIDDEN", "requests of another origin change nothing here");
}
