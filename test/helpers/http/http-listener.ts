/** A listener over one handler, for what drivers do alike. */
import { healthRoutes } from "../../../src/routes/http/health.js";
import { listenHttp } from "../../../src/routes/http/listen.js";
import type { HttpDriver, HttpHandler, HttpListener } from "../../../src/routes/http/seam.js";
import { writeLastAnswer } from "../../../src/routes/http/answer.js";
import { createTappedLogger } from "../cleartext/cleartext-tap.js";

/** Every driver. */
export const drivers = ["uws", "node"] as const satisfies readonly HttpDriver[];

/** Listens on a free port with `handle` on every path but those of health. */
export function startListener(
  driver: HttpDriver,
  handle: HttpHandler["handle"],
  maxConnections = 100,
): Promise<HttpListener> {
  const logger = createTappedLogger();
  const probes = {
    health: () => null,
    ready: () => Promise.resolve(null),
    metrics: () => Promise.resolve("up 1\n"),
    metricsContentType: "text/plain; version=0.0.4",
  };
  return listenHttp(driver, {
    host: "127.0.0.1",
    port: 0,
    maxConnections,
    routes: healthRoutes(probes, logger),
    fallback: {
      handle,
      malformed: (reply, _request, head) => {
        writeLastAnswer(reply, { status: 400, headers: [], body: head.framingProblem ?? "" });
      },
    },
    purpose: "a test",
    option: "SVC_TEST_LISTEN",
    logger,
  });
}
