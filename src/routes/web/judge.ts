/** What is to be done about a request, as far as that can be told without its caller and its body. */
import { ServiceError, toServiceError } from "../../runtime/errors.js";
import { authDisabledPrefixes, operations } from "../../wire/web/admin-api.js";
import type { Operation } from "../../wire/web/operation.js";
import { errorAnswer, type HttpAnswer } from "../http/answer.js";
import type { AppFiles } from "./app-files.js";
import { checkBrowserSafety } from "./browser-safety.js";
import { type IncomingRequest, judgeBody } from "./incoming.js";
import { jsonResponse } from "./responses.js";
import { matchRoute, type RouteMatch } from "./router.js";

/** An operation that a request may ask for, if its caller may. */
export type Accepted = Extract<RouteMatch, { kind: "operation" }>;

/** See the head of this file. */
export type Verdict =
  | Accepted
  | { readonly kind: "login" }
  | { readonly kind: "app"; readonly answer: HttpAnswer }
  | { readonly kind: "answer"; readonly answer: HttpAnswer }
  | { readonly kind: "failure"; readonly error: ServiceError };

/** What a server has to answer with. */
interface JudgeOptions {
  readonly basePath: string;
  readonly corsOrigin: string | null;
  /** Null without a database. */
  readonly admin: unknown;
  readonly app: AppFiles | null;
  /** Null while authentication is off. */
  readonly allowedOrigins: ReadonlySet<string> | null;
  readonly draining: boolean;
}

/** Never throws. */
export function judgeRequest(incoming: IncomingRequest, o: JudgeOptions): Verdict {
  try {
    return judge(incoming, o);
  } catch (error) {
    return { kind: "failure", error: toServiceError(error) };
  }
}

/** Everything that needs neither the caller nor the body. @throws ServiceError. */
function judge(incoming: IncomingRequest, o: JudgeOptions): Verdict {
  const { method, path } = incoming;
  if (o.draining) {
    throw new ServiceError("UNAVAILABLE", "the server is stopping; try again", {
      retryAfterSeconds: 1,
    });
  }
  if (path === null) {
    throw notFound();
  }
  if (method === "OPTIONS" && o.corsOrigin !== null) {
    return { kind: "answer", answer: jsonResponse(204, null) };
  }
  if (o.allowedOrigins === null && authDisabledPrefixes.some((prefix) => path.startsWith(prefix))) {
    throw new ServiceError("AUTH_DISABLED");
  }
  if (path.startsWith("/auth/")) {
    if (o.allowedOrigins === null) {
      throw new ServiceError("AUTH_DISABLED");
    }
    return { kind: "login" };
  }
  const match = matchRoute(method, path);
  if (match.kind === "none") {
    return judgePage(incoming, path, o);
  }
  if (match.kind === "other-method") {
    const error = new ServiceError("METHOD_NOT_ALLOWED", `this path takes ${match.allow}`);
    const refusal = errorAnswer(error, "");
    const headers = [...refusal.headers, ["Allow", match.allow] as const];
    return { kind: "answer", answer: { ...refusal, headers } };
  }
  const operation: Operation = operations[match.id];
  if (operation.access === "public") {
    return match;
  }
  if (o.admin === null) {
    throw new ServiceError("NOT_CONFIGURED", "this server has no database; set SVC_SQL_CONNECTION_STRING");
  }
  if (o.allowedOrigins === null) {
    throw new ServiceError("AUTH_DISABLED");
  }
  const refusal = checkBrowserSafety(
    method,
    {
      origin: incoming.origin,
      "content-type": incoming.contentType,
      "sec-fetch-site": incoming.fetchSite,
    },
    o.allowedOrigins,
  );
  if (refusal !== null) {
    throw refusal;
  }
  judgeBody(incoming, operation);
  return match;
}

/** What is no route of an API may be a page or a file of the application. @throws ServiceError NOT_FOUND. */
function judgePage({ method, acceptEncoding }: IncomingRequest, path: string, o: JudgeOptions): Verdict {
  const { app, basePath } = o;
  if (app === null || (method !== "GET" && method !== "HEAD")) {
    throw notFound();
  }
  if (path === "") {
    return { kind: "answer", answer: { status: 302, headers: [["Location", `${basePath}/`]], body: "" } };
  }
  const answer = app.answer(path, acceptEncoding);
  if (answer === null) {
    throw notFound();
  }
  return { kind: "app", answer };
}

const notFound = (): ServiceError => new ServiceError("NOT_FOUND", "no such path");
