/**
 * The identity provider of development mode: listens on loopback, where whoever reaches it can be anybody, and on
 * nothing else. It shares the process and the thread of the servers, and is idle but for logins; so the provider
 * itself is loaded by the first request.
 *
 * `<directory>` (mode of the files 0600) holds
 *
 *     secrets.json   signing key, secrets of the web server; made once (secrets.ts)
 *     tokens.json    refresh tokens (token-store.ts)
 *
 * States and events:
 *
 *     waiting -> ready     `serve()`: the address is known that the web server takes browsers back at
 *     any     -> stopped   `stop()`
 *
 * Until it is ready every request gets 503.
 */
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import path from "node:path";

import { formatListenAddress, type ListenAddress } from "../runtime/config/kinds.js";
import { ServiceError } from "../runtime/errors.js";
import type { Component } from "../runtime/lifecycle.js";
import type { Logger } from "../runtime/log/log.js";
import { isLoopbackHost } from "telemetry-service-client/shared/loopback";
import type { ProviderOptions, RequestHandler } from "./provider.js";
import { type IdentitySecrets, loadSecrets } from "./secrets.js";
import { openTokenStore } from "./token-store.js";

/** What {@link startIdentityProvider} needs. */
interface IdentityProviderOptions {
  /** Port 0 picks a free one. */
  readonly listen: ListenAddress;
  /** Where secrets and tokens are kept; made when missing. */
  readonly directory: string;
  readonly logger: Logger;
}

/** A running identity provider. */
export interface IdentityProvider extends Component {
  /** `http://host:port` */
  readonly issuer: string;
  readonly secrets: Pick<IdentitySecrets, "clientSecret" | "stateSecret">;
  /** Begins to answer. @param webRedirectUri where the web server takes browsers back. */
  serve(webRedirectUri: string): void;
}

/** How long requests under way may take when it stops. */
const drainMs = 1000;

/**
 * Starts to listen.
 * @throws ServiceError NOT_CONFIGURED for an address off loopback, or files that hold something else; UNAVAILABLE when
 *   the address cannot be bound.
 */
export async function startIdentityProvider(o: IdentityProviderOptions): Promise<IdentityProvider> {
  const { listen, logger } = o;
  if (!isLoopbackHost(listen.host)) {
    throw offLoopback(listen);
  }
  const secrets = await loadSecrets(path.join(o.directory, "secrets.json"));
  const store = await openTokenStore(path.join(o.directory, "tokens.json"));
  const server = createServer({ requestTimeout: 10_000 });
  const bound = await bind(server, listen);
  if (!isLoopbackHost(bound.address)) {
    server.close();
    throw offLoopback(listen);
  }
  const issuer = `http://${formatListenAddress({ host: listen.host, port: bound.port })}`;
  let webRedirectUri: string | null = null;
  let loading: Promise<RequestHandler> | null = null;

  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    // A page on the internet whose name turns into this address (DNS rebinding) is none of ours.
    if (!namesLoopback(request.headers.host)) {
      response.writeHead(421, { "Content-Type": "text/plain" }).end(`this is ${issuer}\n`);
      return;
    }
    if (webRedirectUri === null) {
      response.writeHead(503, { "Retry-After": "1", "Content-Type": "text/plain" }).end("the service is starting\n");
      return;
    }
    loading ??= load({ issuer, secrets, store, webRedirectUri, logger });
    const handle = await loading;
    await handle(request, response);
  };
  server.on("request", (request: IncomingMessage, response: ServerResponse) => {
    answer(request, response).catch((error: unknown) => {
      logger.error({ err: error }, "the identity provider cannot be loaded");
      response.writeHead(500).end();
    });
  });
  logger.info({ address: issuer }, `identity provider of development mode on ${issuer}`);
  return {
    name: "identity-provider",
    issuer,
    secrets,
    serve(uri) {
      webRedirectUri = uri;
    },
    async stop() {
      const closed = server.listening ? once(server, "close") : null;
      server.close();
      server.closeIdleConnections();
      const hurry = setTimeout(() => server.closeAllConnections(), drainMs);
      await closed;
      clearTimeout(hurry);
    },
  };
}

/** Whether a `Host` field has a name of this machine; the port may be that of a forwarder. */
function namesLoopback(host: string | undefined): boolean {
  const url = `http://${host ?? ""}`;
  return URL.canParse(url) && isLoopbackHost(new URL(url).hostname);
}

async function bind(server: Server, listen: ListenAddress): Promise<AddressInfo> {
  try {
    server.listen(listen.port, listen.host);
    await once(server, "listening");
    return server.address() as AddressInfo;
  } catch (cause) {
    throw new ServiceError(
      "UNAVAILABLE",
      `cannot listen on ${formatListenAddress(listen)} for the identity provider of development mode: the address is in use or not of this machine; set SVC_DEVELOPMENT_OIDC_LISTEN to another, such as 127.0.0.1:0 for any free port`,
      { cause },
    );
  }
}

function offLoopback(listen: ListenAddress): ServiceError {
  return new ServiceError(
    "NOT_CONFIGURED",
    `the identity provider of development mode listens on loopback only, and ${formatListenAddress(listen)} is elsewhere: everybody who reaches it is an administrator`,
  );
}

async function load(o: ProviderOptions): Promise<RequestHandler> {
  const { createProvider } = await quietly(() => import("./provider.js"));
  return createProvider(o);
}

/** The library warns on the console when it is loaded under Node.js 20, where it works nevertheless. */
async function quietly<T>(work: () => Promise<T>): Promise<T> {
  const output: { warn: unknown } = console;
  const { warn } = output;
  output.warn = () => undefined;
  try {
    return await work();
  } finally {
    output.warn = warn;
  }
}
