/**
 * The front end of the web server, on the main thread: framing, routing, browser safety, cookies and
 * body limits. It knows no rule of keys or grants: it hands an accepted request with its caller to the
 * admin thread, which validates and executes it.
 *
 * A request is judged in this order: framing, `--disable-auth`, path, method, configuration, browser
 * safety, content type, announced size, caller, body. There is no bearer authenticator here: an
 * `Authorization` field is not looked at, so an API key never gets past the cookie it lacks.
 */
import { randomUUID } from "node:crypto";

import type { AdminAnswer, AdminService } from "../../admin/admin-service.js";
import type { KeyReference } from "../../admin/operation-context.js";
import type { RequestOrigin } from "../../auth/audit.js";
import type { Caller } from "../../auth/caller.js";
import { idTokenCookie, type SessionOutcome, type WebSessions } from "../../auth/oidc/web-session.js";
import { ServiceError, toServiceError } from "../../runtime/errors.js";
import type { Logger } from "../../runtime/log/log.js";
import { createRareWarning, type RareWarning } from "../../runtime/log/rare-warnings.js";
import { durationBucketsSeconds, type Metrics } from "../../runtime/metrics.js";
import { frontOperations, type OperationId, operations, type StoredOperationId } from "../../wire/web/admin-api.js";
import { readCookie } from "../../wire/web/cookies.js";
import { openApiDocument } from "../../wire/web/openapi.js";
import { answerNow, errorAnswer, type HttpAnswer, messageOf, writeLastAnswer } from "../http/answer.js";
import { BodyExchange } from "../http/body-exchange.js";
import type { RequestHead } from "../http/request-head.js";
import type { HttpHandler, HttpReply, HttpRequest } from "../http/seam.js";
import type { AppFiles } from "./app-files.js";
import type { AppOperationId, AppRoutes } from "./app-routes.js";
import { corsHeaders } from "./browser-safety.js";
import { type IncomingRequest, maxBodyBytesOf, readRequest } from "./incoming.js";
import { type Accepted, judgeRequest, type Verdict } from "./judge.js";
import { loginFailedPage } from "./login-failed-page.js";
import type { LoginRoutes } from "./login-routes.js";
import { maxQueriesOfSession, type WebQueries } from "./query/web-queries.js";
import { jsonResponse, withCommonHeaders } from "./responses.js";

/** Who logs in, and from where. */
interface WebAuthentication {
  readonly sessions: Pick<WebSessions, "caller">;
  readonly login: LoginRoutes;
  /** See `webOrigins`. */
  readonly allowedOrigins: ReadonlySet<string>;
}

/** Options of {@link WebFront}. */
interface WebFrontOptions {
  /** `SVC_BASE_PATH` without a slash at its end; the empty string for the root. */
  readonly basePath: string;
  /** `SVC_WEB_CORS_ORIGIN` */
  readonly corsOrigin: string | null;
  /** Executes calls; null without a database (`NOT_CONFIGURED`). */
  readonly admin: Pick<AdminService, "handle" | "withdraw"> | null;
  /** Answers what does not end in the database; null without one. */
  readonly appRoutes: AppRoutes | null;
  readonly queries: Pick<WebQueries, "drain">;
  /** How long queries may go on when the server stops. */
  readonly drainMs: () => number;
  /** The web application; null where there is none. */
  readonly app: AppFiles | null;
  readonly version: string;
  /** What `GET /api/config` says beside what is known here. */
  readonly config: WebConfig;
  readonly logger: Logger;
  readonly metrics: Metrics;
}

/** Settings that a web application sees. */
interface WebConfig {
  readonly defaultAudience: string;
  readonly selfService: boolean;
  readonly queryMaxRows: number;
  /** Where OTLP over HTTP goes, without a slash at its end; null while or where that is not known. */
  readonly ingestionUrl: () => string | null;
}

type Session = Extract<SessionOutcome, { kind: "ok" }>;

/** See the head of this file. */
export class WebFront {
  readonly #o: WebFrontOptions;
  readonly #warn: RareWarning;
  readonly #openApi: string;
  readonly #count: (operation: string, status: number, seconds: number) => void;
  /** Null until {@link authenticate}, and always under `--disable-auth`. */
  #authentication: WebAuthentication | null = null;
  #open = 0;
  #draining = false;
  #onDrained: (() => void) | null = null;

  constructor(o: WebFrontOptions) {
    this.#o = o;
    this.#warn = createRareWarning(o.logger);
    this.#openApi = JSON.stringify(openApiDocument(o));
    const requests = o.metrics.counter("web_requests_total", "Requests answered", ["operation", "status"]);
    const seconds = o.metrics.histogram(
      "web_request_seconds",
      "Time from the head of a request to its answer",
      durationBucketsSeconds,
      ["operation"],
    );
    this.#count = (operation, status, took) => {
      requests.inc({ operation, status });
      seconds.observe({ operation }, took);
    };
  }

  /** Turns authentication on. Until then nobody gets in. */
  authenticate(authentication: WebAuthentication): void {
    this.#authentication = authentication;
  }

  /** Answers every path that nobody else has claimed. */
  get handler(): HttpHandler {
    return {
      handle: (reply, request, head) => {
        this.#handle(reply, request, head);
      },
      malformed: (reply, _request, head) => {
        const error = new ServiceError("BAD_REQUEST", head.framingProblem ?? "");
        writeLastAnswer(reply, withCommonHeaders(errorAnswer(error, "")));
        this.#count("none", 400, 0);
      },
    };
  }

  /** Refuses new requests and resolves when every open one is answered. */
  async drain(): Promise<void> {
    this.#draining = true;
    if (this.#open === 0) {
      return;
    }
    void this.#o.queries.drain(this.#o.drainMs());
    await new Promise<void>((resolve) => {
      this.#onDrained = resolve;
    });
  }

  #handle(reply: HttpReply, request: HttpRequest, head: RequestHead): void {
    const incoming = readRequest(reply, request, head, this.#o.basePath);
    const verdict = judgeRequest(incoming, {
      ...this.#o,
      allowedOrigins: this.#authentication?.allowedOrigins ?? null,
      draining: this.#draining,
    });
    const operation = nameOf(verdict);
    const bodyBytes = verdict.kind === "operation" ? maxBodyBytesOf(operations[verdict.id]) : 0;
    if (head.lastOfConnection && bodyBytes === 0) {
      // What follows must not be parsed any more, and an answer without a body cannot end the connection.
      const error = new ServiceError("BAD_REQUEST", "this path takes no chunked body");
      answerNow(reply, request, head, withCommonHeaders(errorAnswer(error, "")));
      this.#count(operation, 400, 0);
      return;
    }
    const isHead = incoming.method === "HEAD";
    const exchange = new BodyExchange(reply, head, bodyBytes, isHead);
    this.#open++;
    void this.#finish(exchange, incoming, operation, verdict);
  }

  /** Never rejects. */
  async #finish(exchange: BodyExchange, incoming: IncomingRequest, operation: string, verdict: Verdict): Promise<void> {
    const startMs = performance.now();
    let answer: HttpAnswer | Streamed;
    try {
      answer = await this.#answer(exchange, incoming, verdict);
    } catch (error) {
      answer = this.#failed(operation, incoming, toServiceError(error));
    }
    if (!("streamed" in answer)) {
      exchange.answer({ ...this.#withHeaders(incoming, answer), body: answer.body });
    }
    this.#count(operation, answer.status, (performance.now() - startMs) / 1000);
    this.#open--;
    if (this.#open === 0) {
      this.#onDrained?.();
    }
  }

  /** Adds what every answer has. */
  #withHeaders(incoming: IncomingRequest, answer: Omit<HttpAnswer, "body">): Omit<HttpAnswer, "body"> {
    const cors = corsHeaders(incoming.method, incoming.origin, this.#o.corsOrigin);
    const { headers, close } = answer;
    return withCommonHeaders({
      ...answer,
      headers: [...headers, ...cors],
      close: this.#draining || close === true,
    });
  }

  /** @throws ServiceError. */
  async #answer(exchange: BodyExchange, incoming: IncomingRequest, verdict: Verdict): Promise<HttpAnswer | Streamed> {
    switch (verdict.kind) {
      case "failure":
        throw verdict.error;
      case "answer":
      case "app":
        return verdict.answer;
      case "login":
        return await this.#logIn(incoming);
      case "operation":
        return await this.#execute(exchange, incoming, verdict);
    }
  }

  /** @throws ServiceError. */
  async #execute(exchange: BodyExchange, incoming: IncomingRequest, match: Accepted): Promise<HttpAnswer | Streamed> {
    const { id } = match;
    if (id === "openApi") {
      return jsonResponse(200, this.#openApi);
    }
    if (id === "config") {
      return jsonResponse(200, this.#config());
    }
    const session = await this.#session(incoming.cookie);
    const { caller } = session;
    if (isAppOperation(id)) {
      return await this.#appOperation(exchange, incoming, session, { ...match, id });
    }
    exchange.resume();
    const body = await exchange.body();
    if (body.kind === "refused") {
      throw body.error;
    }
    if (body.kind === "aborted") {
      return nobody;
    }
    const answer = await this.#call(id, match, incoming, caller, body.bytes);
    this.#o.appRoutes?.changed(id);
    if (!exchange.over) {
      return jsonResponse(answer.status, answer.body);
    }
    if (answer.minted !== null) {
      await this.#withdraw(answer.minted, caller, incoming.peer);
    }
    return nobody;
  }

  /** What a web application has to know. */
  #config(): string {
    const { basePath, version, config } = this.#o;
    return JSON.stringify({
      version,
      features,
      default_audience: config.defaultAudience,
      self_service: config.selfService,
      login: this.#authentication === null ? null : `${basePath}/auth/login`,
      ingestion_url: config.ingestionUrl(),
      query_max_rows: config.queryMaxRows,
      queries_per_session: maxQueriesOfSession,
    });
  }

  /** @throws ServiceError while nothing was sent. */
  async #appOperation(
    exchange: BodyExchange,
    incoming: IncomingRequest,
    session: Session,
    { id, path }: { readonly id: AppOperationId; readonly path: Readonly<Record<string, string>> },
  ): Promise<HttpAnswer | Streamed> {
    const idToken = readCookie(incoming.cookie, idTokenCookie);
    const { appRoutes } = this.#o;
    if (typeof idToken !== "string" || appRoutes === null) {
      throw new ServiceError("UNAUTHENTICATED");
    }
    const { query, accept, ifNoneMatch, peer: origin } = incoming;
    const answer = await appRoutes.answer({
      id,
      session,
      idToken,
      author: { caller: session.caller, origin },
      path,
      query,
      accept,
      ifNoneMatch,
      exchange,
      send: (head, parts) => exchange.stream(this.#withHeaders(incoming, head), parts),
    });
    if ("sent" in answer) {
      return answer.sent ? { streamed: true, status: 200 } : nobody;
    }
    return answer;
  }

  async #call(
    operation: StoredOperationId,
    match: Accepted,
    incoming: IncomingRequest,
    caller: Caller,
    body: Uint8Array,
  ): Promise<AdminAnswer> {
    const { path } = match;
    const { query, peer: origin } = incoming;
    const answer = await this.#o.admin?.handle({ operation, caller, origin, path, query, body });
    if (answer === undefined) {
      throw new ServiceError("NOT_CONFIGURED");
    }
    return answer;
  }

  /** Takes a key back that was minted for a client that has left: its cleartext is lost with this answer. */
  async #withdraw({ table, keyId }: KeyReference, caller: Caller, origin: RequestOrigin): Promise<void> {
    try {
      await this.#o.admin?.withdraw({ table, keyId, caller, origin });
      this.#o.logger.info({ keyId, table }, "revoked a key whose answer reached nobody");
    } catch (error) {
      const cause = toServiceError(error).code;
      this.#o.logger.warn(
        { keyId, table, cause },
        "a key whose answer reached nobody could not be revoked and is live",
      );
    }
  }

  async #logIn(incoming: IncomingRequest): Promise<HttpAnswer> {
    const { method, path, query, host, cookie, origin, contentType, fetchSite } = incoming;
    const login = this.#authentication?.login;
    if (login === undefined || path === null) {
      throw new ServiceError("AUTH_DISABLED");
    }
    return await login.handle({
      method,
      path,
      query,
      headers: { host, origin, cookie, "content-type": contentType, "sec-fetch-site": fetchSite },
    });
  }

  /** @throws ServiceError UNAUTHENTICATED or UNAVAILABLE. */
  async #session(cookie: string): Promise<Session> {
    const outcome = await this.#authentication?.sessions.caller(cookie);
    if (outcome?.kind === "ok") {
      return outcome;
    }
    if (outcome?.kind === "unavailable") {
      throw new ServiceError("UNAVAILABLE", "identity tokens cannot be checked now; try again", {
        retryAfterSeconds: outcome.retryAfterSeconds,
      });
    }
    throw new ServiceError("UNAUTHENTICATED", outcome?.message);
  }

  #failed(operation: string, incoming: IncomingRequest, error: ServiceError): HttpAnswer {
    const requestId = randomUUID();
    if (error.code === "INTERNAL") {
      this.#o.logger.error({ err: error, requestId, operation }, "an admin request failed");
    } else if (error.code === "NOT_CONFIGURED" || (error.code === "UNAVAILABLE" && !this.#draining)) {
      this.#warn(operation, { err: error, operation }, "an admin request could not be served");
    }
    const answer = errorAnswer(error, requestId);
    if (!isLoginOfPerson(incoming)) {
      return answer;
    }
    // Another try at what was wrong itself would fail again.
    const isSame = incoming.path === "/auth/login" && error.code !== "BAD_REQUEST";
    const again = `${this.#o.basePath}/auth/login${isSame ? `?${incoming.query}` : ""}`;
    return loginFailedPage(answer, { message: messageOf(error, requestId), again });
  }
}

/** Whether a person looks at the answer, who was sent here by a page or by the identity provider. */
function isLoginOfPerson({ method, path, accept }: IncomingRequest): boolean {
  return method === "GET" && (path === "/auth/login" || path === "/auth/callback") && accept.includes("text/html");
}

/** What `GET /api/config` names: routes that a web application may count on. */
const features = ["query", "screens", "data-sources", "maps", "query-denials", "usage", "audit"] as const;

/** An answer that was written already, or that nobody waits for. */
interface Streamed {
  readonly streamed: true;
  readonly status: number;
}

/** The client has left. */
const nobody: Streamed = { streamed: true, status: 499 };

/** What a request counts as. */
function nameOf(verdict: Verdict): string {
  if (verdict.kind === "operation") {
    return verdict.id;
  }
  return verdict.kind === "login" || verdict.kind === "app" ? verdict.kind : "none";
}

function isAppOperation(id: OperationId): id is AppOperationId {
  return frontOperations.some((known) => known === id) && id !== "config" && id !== "openApi";
}
