/**
 * The routes of the web server beside the admin routes, for its OpenAPI document: browser login and the
 * probes. They are written by hand; a test compares every line with the running server.
 */
import type { ErrorCode } from "../../runtime/errors.js";
import type { JsonSchema } from "./fields.js";
import { boolean, object, orNull, string, time } from "./operation.js";

/** One route as the document shows it. */
export interface DescribedRoute {
  readonly method: "GET" | "POST";
  readonly path: string;
  readonly operationId: string;
  readonly summary: string;
  /** Name of the cookie that it takes; null for none. */
  readonly cookie: "session" | "refresh" | null;
  readonly query: readonly { readonly name: string; readonly description: string }[];
  readonly response: {
    readonly status: number;
    readonly description: string;
    readonly content: { readonly type: string; readonly schema: JsonSchema } | null;
  };
  readonly errors: readonly ErrorCode[];
}

const jsonObject = (properties: Readonly<Record<string, JsonSchema>>) => ({
  type: "application/json",
  schema: object(properties),
});

const status = jsonObject({ status: string });

/** See the head of the file. */
export const describedRoutes: readonly DescribedRoute[] = [
  {
    method: "GET",
    path: "/auth/login",
    operationId: "login",
    summary: "Begin a browser login: on to the identity provider",
    cookie: null,
    query: [
      { name: "return_to", description: "where the browser goes after it: a path of this server" },
      { name: "issuer", description: "one of the accepted issuers; unless given, the first" },
    ],
    response: { status: 302, description: "to the identity provider", content: null },
    errors: ["BAD_REQUEST", "UNAVAILABLE", "AUTH_DISABLED"],
  },
  {
    method: "GET",
    path: "/auth/callback",
    operationId: "loginCallback",
    summary: "End a browser login: the identity provider sends browsers here",
    cookie: null,
    query: [
      { name: "code", description: "what the provider trades for tokens" },
      { name: "state", description: "what the login began with" },
    ],
    response: {
      status: 302,
      description: "to return_to, with the session's cookies",
      content: null,
    },
    errors: ["BAD_REQUEST", "UNAUTHENTICATED", "UNAVAILABLE", "NOT_CONFIGURED", "AUTH_DISABLED"],
  },
  {
    method: "POST",
    path: "/auth/refresh",
    operationId: "refreshSession",
    summary: "Get new cookies for a session that ends soon",
    cookie: "refresh",
    query: [],
    response: {
      status: 200,
      description: "when the session ends now, with its cookies",
      content: jsonObject({ expires_at: time }),
    },
    errors: [
      "UNAUTHENTICATED",
      "FORBIDDEN",
      "UNSUPPORTED_MEDIA_TYPE",
      "UNAVAILABLE",
      "NOT_CONFIGURED",
      "AUTH_DISABLED",
    ],
  },
  {
    method: "POST",
    path: "/auth/logout",
    operationId: "logout",
    summary: "Delete the cookies of the session",
    cookie: null,
    query: [],
    response: { status: 204, description: "deleted", content: null },
    errors: ["FORBIDDEN", "UNSUPPORTED_MEDIA_TYPE", "AUTH_DISABLED"],
  },
  {
    method: "GET",
    path: "/auth/me",
    operationId: "currentUser",
    summary: "Who is logged in",
    cookie: "session",
    query: [],
    response: {
      status: 200,
      description: "the caller",
      content: jsonObject({
        email: orNull(string),
        name: string,
        subject: string,
        is_admin: boolean,
        expires_at: time,
      }),
    },
    errors: ["UNAUTHENTICATED", "INTERNAL", "UNAVAILABLE", "AUTH_DISABLED"],
  },
  {
    method: "GET",
    path: "/health",
    operationId: "health",
    summary: "Whether the process can serve; also at the root of the server",
    cookie: null,
    query: [],
    response: { status: 200, description: "it can", content: status },
    errors: ["UNAVAILABLE"],
  },
  {
    method: "GET",
    path: "/ready",
    operationId: "ready",
    summary: "Whether its database answers, too; also at the root of the server",
    cookie: null,
    query: [],
    response: { status: 200, description: "it does", content: status },
    errors: ["UNAVAILABLE"],
  },
  {
    method: "GET",
    path: "/metrics",
    operationId: "metrics",
    summary: "Prometheus text exposition; also at the root of the server",
    cookie: null,
    query: [],
    response: {
      status: 200,
      description: "the metrics",
      content: { type: "text/plain", schema: string },
    },
    errors: [],
  },
];
