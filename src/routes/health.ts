/**
 * `GET /health`, `GET /ready` and `GET /metrics` of every server (decisions.md, "Names and defaults").
 * A server that has a uWebSockets.js application registers them on it; one that has none (FlightSQL)
 * runs them on a sidecar. They never ask for credentials and never say more than a name and a sentence.
 */
import type { HttpResponse, TemplatedApp, us_listen_socket } from "uWebSockets.js";

import { ServiceError } from "../runtime/errors.js";
import type { Component } from "../runtime/lifecycle.js";
import type { Logger } from "../runtime/log.js";
import { loadUws } from "./uws.js";

/** What is asked on each request. All of them must be quick, and may be asked often. */
export interface HealthProbes {
  /** Null while the process can serve, else one sentence that says what is broken (503). */
  readonly health: () => string | null;
  /** Resolves to null when the process and what it depends on can serve, else to one sentence (503). A rejection counts as one. */
  readonly ready: () => Promise<string | null>;
  /** Prometheus text exposition. */
  readonly metrics: () => Promise<string>;
  /** Content type of {@link metrics}. */
  readonly metricsContentType: string;
}

/** A probe of readiness that takes longer counts as failed, in milliseconds. */
const readyTimeoutMs = 5000;

/** Each takes GET. */
export const healthPaths = ["/health", "/ready", "/metrics"] as const;

/**
 * Adds the three routes to an application; other methods on them are 405 with `Allow`.
 * @param prefix what their paths begin with, without a slash at its end.
 */
export function registerHealthRoutes(
  app: TemplatedApp,
  probes: HealthProbes,
  logger: Logger,
  prefix = "",
): void {
  app.get(`${prefix}/health`, (response) => {
    const problem = probes.health();
    send(
      response,
      problem === null ? "200 OK" : "503 Service Unavailable",
      "application/json",
      statusBody(problem),
    );
  });
  app.get(`${prefix}/ready`, (response) => {
    void answerLater(response, logger, async () => {
      const problem = probes.health() ?? (await readiness(probes.ready, logger));
      return {
        status: problem === null ? "200 OK" : "503 Service Unavailable",
        type: "application/json",
        body: statusBody(problem),
      };
    });
  });
  app.get(`${prefix}/metrics`, (response) => {
    void answerLater(response, logger, async () => ({
      status: "200 OK",
      type: probes.metricsContentType,
      body: await probes.metrics(),
    }));
  });
  for (const path of healthPaths) {
    app.any(`${prefix}${path}`, (response) => {
      response.cork(() => {
        response
          .writeStatus("405 Method Not Allowed")
          .writeHeader("Allow", "GET")
          .writeHeader("Content-Type", "application/json")
          .end(JSON.stringify({ code: "METHOD_NOT_ALLOWED", message: "this path takes GET" }));
      });
    });
  }
}

/** The sidecar's component and where it listens. */
export interface HealthServer extends Component {
  readonly address: { readonly host: string; readonly port: number };
}

/**
 * Listens for the three routes alone; any other path is 404. Port 0 picks a free one.
 * @throws ServiceError UNAVAILABLE when the address cannot be bound.
 */
export async function startHealthServer(o: {
  readonly host: string;
  readonly port: number;
  readonly probes: HealthProbes;
  readonly logger: Logger;
}): Promise<HealthServer> {
  const uWS = await loadUws();
  const app = uWS.App();
  registerHealthRoutes(app, o.probes, o.logger);
  app.any("/*", (response) => {
    send(
      response,
      "404 Not Found",
      "application/json",
      JSON.stringify({ code: "NOT_FOUND", message: "not found" }),
    );
  });
  const socket = await new Promise<us_listen_socket | false>((resolve) => {
    app.listen(o.host, o.port, resolve);
  });
  if (!socket) {
    throw new ServiceError(
      "UNAVAILABLE",
      `cannot listen on ${o.host}:${o.port} for health requests; is the port in use?`,
    );
  }
  let open = true;
  return {
    name: "health-server",
    address: { host: o.host, port: uWS.us_socket_local_port(socket) },
    stop: () => {
      if (open) {
        open = false;
        app.close();
      }
      return Promise.resolve();
    },
  };
}

function statusBody(problem: string | null): string {
  return problem === null
    ? '{"status":"ok"}'
    : JSON.stringify({ code: "UNAVAILABLE", message: problem });
}

async function readiness(
  ready: () => Promise<string | null>,
  logger: Logger,
): Promise<string | null> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<string>((resolve) => {
    timer = setTimeout(() => {
      resolve("a dependency does not answer");
    }, readyTimeoutMs);
  });
  try {
    return await Promise.race([ready(), late]);
  } catch (error) {
    logger.warn({ err: error }, "the readiness probe failed");
    return "a dependency cannot be reached";
  } finally {
    clearTimeout(timer);
  }
}

interface Answer {
  readonly status: string;
  readonly type: string;
  readonly body: string;
}

/** uWebSockets.js forgets a response once its socket is gone: it must not be touched after that. */
async function answerLater(
  response: HttpResponse,
  logger: Logger,
  answer: () => Promise<Answer>,
): Promise<void> {
  let aborted = false;
  response.onAborted(() => {
    aborted = true;
  });
  let result: Answer;
  try {
    result = await answer();
  } catch (error) {
    logger.error({ err: error }, "a health route failed");
    result = {
      status: "500 Internal Server Error",
      type: "application/json",
      body: JSON.stringify({ code: "INTERNAL", message: "internal error" }),
    };
  }
  if (!aborted) send(response, result.status, result.type, result.body);
}

function send(response: HttpResponse, status: string, type: string, body: string): void {
  response.cork(() => {
    response.writeStatus(status).writeHeader("Content-Type", type).end(body);
  });
}
