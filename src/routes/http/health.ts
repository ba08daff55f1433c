/**
 * `GET /health`, `GET /ready` and `GET /metrics` of every server. A server that has an HTTP listener
 * serves them on it; one that has none (Flight SQL) runs them on a sidecar. They need no credentials and
 * say no more than a name and a sentence.
 */
import { atMost } from "../../runtime/at-most.js";
import { ServiceError, toServiceError } from "../../runtime/errors.js";
import type { Logger } from "../../runtime/log/log.js";
import { createRareWarning, type RareWarning } from "../../runtime/log/rare-warnings.js";
import type { Metrics } from "../../runtime/metrics.js";
import { SingleFlight } from "../../runtime/single-flight.js";
import { answerNow, closesEarly, type HttpAnswer, jsonType, writeAnswer, writeLastAnswer } from "./answer.js";
import type { HttpDriverChoice } from "./choose-driver.js";
import { listenHttp } from "./listen.js";
import type { RequestHead } from "./request-head.js";
import type { HttpHandler, HttpListener, HttpPlace, HttpReply, HttpRequest } from "./seam.js";

/** What is asked on each request. All of them must be quick, and may be asked often. */
export interface HealthProbes {
  /** Null while the process can serve, else one sentence that says what is broken (503). */
  readonly health: () => string | null;
  /**
   * Resolves to null when the process and what it depends on can serve, else to one sentence (503). A rejection counts
   * as one: its message, when that is for everybody.
   */
  readonly ready: () => Promise<string | null>;
  /** Prometheus text exposition. */
  readonly metrics: () => Promise<string>;
  /** Content type of {@link metrics}. */
  readonly metricsContentType: string;
}

/** The metrics of a process as its probes hand them out. */
export function exposed(metrics: Metrics): Pick<HealthProbes, "metrics" | "metricsContentType"> {
  return { metrics: () => metrics.text(), metricsContentType: metrics.contentType };
}

/** A probe of readiness that takes longer counts as failed, in milliseconds. */
const readyTimeoutMs = 5000;
const noAnswer = "a dependency does not answer";

/** One dependency has less, so that what is said names it; an S3 store gives up after 4 s by itself. */
const dependencyTimeoutMs = 4500;

/** How long it holds that all is well. */
const readyHoldsMs = 1000;

/**
 * A probe that asks what others need as well, like the connections to the database: anybody may ask for it, as often as
 * they like. One is under way at a time, and that all is well holds for a second.
 */
export function heldReady(ready: HealthProbes["ready"]): HealthProbes["ready"] {
  let goodAtMs = Number.NEGATIVE_INFINITY;
  const flight = new SingleFlight(async () => {
    // One that hangs must not keep later ones from being tried.
    const answer = await atMost(ready(), readyTimeoutMs);
    const problem = answer === null ? noAnswer : answer.value;
    if (problem === null) {
      goodAtMs = performance.now();
    }
    return problem;
  });
  return async () => (performance.now() - goodAtMs < readyHoldsMs ? null : await flight.run());
}

/**
 * What a dependency answers to a probe.
 * @param dependency what it is called, such as `database`
 * @throws ServiceError UNAVAILABLE, which names it, also when it takes too long
 */
export async function answering<T>(dependency: string, answer: Promise<T>): Promise<T> {
  let known: { readonly value: T } | null;
  try {
    known = await atMost(answer, dependencyTimeoutMs);
  } catch (error) {
    throw toServiceError(error).code === "UNAVAILABLE"
      ? error
      : new ServiceError("UNAVAILABLE", `the ${dependency} cannot be reached`, { cause: error });
  }
  if (known === null) {
    throw new ServiceError("UNAVAILABLE", `the ${dependency} does not answer`);
  }
  return known.value;
}

/**
 * The handlers of the three paths, for GET and HEAD.
 * @param prefix what their paths begin with, without a slash at its end.
 */
export function healthRoutes(probes: HealthProbes, logger: Logger, prefix = ""): Map<string, HttpHandler> {
  const warn = createRareWarning(logger);
  const ready = async (): Promise<HttpAnswer> => statusAnswer(probes.health() ?? (await readiness(probes.ready, warn)));
  const metrics = async (): Promise<HttpAnswer> => ({
    status: 200,
    headers: [["Content-Type", probes.metricsContentType]],
    body: await probes.metrics(),
  });
  return new Map([
    [`${prefix}/health`, handlerOf(logger, () => statusAnswer(probes.health()))],
    [`${prefix}/ready`, handlerOf(logger, ready)],
    [`${prefix}/metrics`, handlerOf(logger, metrics)],
  ]);
}

/**
 * Listens for the three paths alone; any other path is 404. Port 0 picks a free one.
 * @throws ServiceError UNAVAILABLE when the address cannot be bound.
 */
export function startHealthServer({
  driver,
  probes,
  ...place
}: HttpPlace & {
  readonly driver: HttpDriverChoice;
  readonly probes: HealthProbes;
  /** That says where it listens. */
  readonly option: "SVC_ANALYTICS_HEALTH_LISTEN" | "SVC_MAINTENANCE_HEALTH_LISTEN";
}): Promise<HttpListener> {
  return listenHttp(driver, {
    ...place,
    answersHalfClosed: true,
    routes: healthRoutes(probes, place.logger),
    fallback: {
      handle: (reply, request, head) => {
        answerNow(reply, request, head, errorAnswer(404, "NOT_FOUND", "no such path"));
      },
      malformed,
    },
    purpose: "health requests",
  });
}

function handlerOf(logger: Logger, answer: () => HttpAnswer | Promise<HttpAnswer>): HttpHandler {
  return {
    malformed,
    handle: (reply, request, head) => {
      const method = request.getCaseSensitiveMethod();
      if (method !== "GET" && method !== "HEAD") {
        const refusal = errorAnswer(405, "METHOD_NOT_ALLOWED", "this path takes GET, HEAD");
        const headers = [...refusal.headers, ["Allow", "GET, HEAD"] as const];
        answerNow(reply, request, head, { ...refusal, headers });
        return;
      }
      if (head.lastOfConnection) {
        // A probe has no body; what follows this one must not be parsed while the answer is worked out.
        answerNow(reply, request, head, errorAnswer(400, "BAD_REQUEST", "this path takes no body"));
        return;
      }
      void answerWhenKnown(reply, method === "HEAD", closesEarly(head), logger, answer);
    },
  };
}

/** A client that leaves before its answer must not be written to. Never rejects. */
async function answerWhenKnown(
  reply: HttpReply,
  head: boolean,
  close: boolean,
  logger: Logger,
  answer: () => HttpAnswer | Promise<HttpAnswer>,
): Promise<void> {
  let aborted = false;
  reply.onAborted(() => {
    aborted = true;
  });
  let result: HttpAnswer;
  try {
    result = await answer();
  } catch (error) {
    logger.error({ err: error }, "a health route failed");
    result = errorAnswer(500, "INTERNAL", "internal error");
  }
  if (!aborted) {
    writeAnswer(reply, { ...result, close }, head);
  }
}

function malformed(reply: HttpReply, _request: HttpRequest, head: RequestHead): void {
  writeLastAnswer(reply, errorAnswer(400, "BAD_REQUEST", head.framingProblem ?? ""));
}

function statusAnswer(problem: string | null): HttpAnswer {
  return problem === null
    ? { status: 200, headers: [jsonType], body: '{"status":"ok"}' }
    : errorAnswer(503, "UNAVAILABLE", problem);
}

function errorAnswer(status: number, code: string, message: string): HttpAnswer {
  return { status, headers: [jsonType], body: JSON.stringify({ code, message }) };
}

async function readiness(ready: () => Promise<string | null>, warn: RareWarning): Promise<string | null> {
  try {
    const answer = await atMost(ready(), readyTimeoutMs);
    return answer === null ? noAnswer : answer.value;
  } catch (error) {
    const { code, publicMessage } = toServiceError(error);
    const problem = code === "INTERNAL" ? "a dependency cannot be reached" : publicMessage;
    warn(problem, { err: error }, "the readiness probe failed");
    return problem;
  }
}
