/** The driver over uWebSockets.js, a native addon that not every platform has a binary for. */

import type * as uws from "uWebSockets.js";
import type { TemplatedApp, us_listen_socket } from "uWebSockets.js";

import { processEnvironment } from "../../runtime/config/environment.js";
import { ServiceError } from "../../runtime/errors.js";
import { addressTaken, guard } from "./guard.js";
import { RequestHead } from "./request-head.js";
import { type HttpHandler, type HttpListener, type HttpListenOptions, maxHeadBytes } from "./seam.js";

/** The module of uWebSockets.js. */
type Uws = typeof uws;

/** LIBUS_LISTEN_EXCLUSIVE_PORT, without which another process could take a share of the connections. */
const exclusivePort = 1;

/**
 * Loads the addon. It reads its one setting from the environment of the process while it loads, so the
 * main thread has to load it first: the environment of a worker thread is a copy that C++ does not see.
 * @throws ServiceError NOT_CONFIGURED, in one sentence, where no binary fits the platform.
 */
export async function loadUws(): Promise<Uws> {
  setAddonOption("UWS_HTTP_MAX_HEADERS_SIZE", String(maxHeadBytes));
  try {
    const { default: module } = (await import("uWebSockets.js")) as unknown as { default: Uws };
    // No "uWebSockets" header in responses; undocumented, ignored by versions that do not know it.
    (module as unknown as { _cfg?: (key: string) => void })._cfg?.("silent");
    return module;
  } catch (cause) {
    throw new ServiceError(
      "NOT_CONFIGURED",
      `uWebSockets.js has no binary for Node.js ${process.versions.node} on ${process.platform} ${process.arch} with this C library; use Node.js 20 on Linux with glibc 2.27 or newer, or Node.js 22 or 24 with glibc 2.38 or newer, or set SVC_HTTP_DRIVER=node`,
      { cause },
    );
  }
}

/**
 * Listens with uWebSockets.js. A connection without a request ends after some 10 seconds, which the addon
 * does not let anyone change.
 * @throws ServiceError UNAVAILABLE when the address cannot be bound; NOT_CONFIGURED without a binary.
 */
export async function listenUws(o: HttpListenOptions): Promise<HttpListener> {
  const module = await loadUws();
  const app = module.App();
  const head = new RequestHead("uws");
  for (const [path, handler] of o.routes) {
    register(app, path, handler, head, o);
  }
  register(app, "/*", o.fallback, head, o);
  limitConnections(app, o.maxConnections);
  const socket = await new Promise<us_listen_socket | false>((resolve) => {
    // The typings lack the overload with host and options, which the addon has.
    const listen = app.listen.bind(app) as unknown as (
      host: string,
      port: number,
      options: number,
      done: (socket: us_listen_socket | false) => void,
    ) => void;
    listen(o.host, o.port, o.shared === true ? 0 : exclusivePort, resolve);
  });
  if (!socket) {
    throw addressTaken(o);
  }
  let listening = true;
  let open = true;
  const stopListening = (): void => {
    if (!listening) {
      return;
    }
    listening = false;
    module.us_listen_socket_close(socket);
  };
  return {
    name: "http-listener",
    driver: "uws",
    address: { host: o.host, port: module.us_socket_local_port(socket) },
    stopListening,
    stop() {
      stopListening();
      if (open) {
        open = false;
        app.close();
      }
      return Promise.resolve();
    },
  };
}

function register(
  app: TemplatedApp,
  path: string,
  handler: HttpHandler,
  head: RequestHead,
  o: HttpListenOptions,
): void {
  app.any(path, (response, request) => {
    guard(response, request, handler, head, o);
  });
}

/**
 * Heads that are not complete yet lie in memory of the addon: what they may take in total is bounded by their number.
 */
function limitConnections(app: TemplatedApp, maxConnections: number): void {
  let connections = 0;
  app.filter((response, change) => {
    connections += Number(change);
    if (change === 1 && connections > maxConnections) {
      response.close();
    }
  });
}

/** Not a setting of this service: the only way to hand the addon an option. */
function setAddonOption(name: string, value: string): void {
  const environment = processEnvironment() as Record<string, string | undefined>;
  environment[name] ??= value;
}
