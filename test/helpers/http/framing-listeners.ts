/** Every kind of listener under every driver, for raw requests. */
import { startHealthServer } from "../../../src/routes/http/health.js";
import type { HttpDriver } from "../../../src/routes/http/seam.js";
import { createTappedLogger } from "../cleartext/cleartext-tap.js";
import type { FramingTarget } from "./framing.js";
import { drivers } from "./http-listener.js";
import { startTestIngestion, type TestIngestion } from "../servers/ingest-server.js";
import { startIdentities, startTestWeb, type TestWeb } from "../web/web-server.js";

/** The kinds of listener; `login` is the web server with another path. */
export const listeners = ["OTLP", "web", "login", "health"] as const;

/** A port and what it takes, by kind. */
type Listening = Readonly<
  Record<(typeof listeners)[number], { readonly port: number; readonly target: FramingTarget }>
>;

/** Listeners that run. */
export interface FramingListeners {
  of(driver: HttpDriver): Listening;
  stop(): Promise<void>;
}

/** Starts all of them over one database for each kind. */
export async function startFramingListeners(): Promise<FramingListeners> {
  const running = new Map<HttpDriver, Listening>();
  const stops: (() => Promise<void>)[] = [];
  const identities = await startIdentities();
  stops.push(() => identities.stop());
  const cookie = await identities.cookie("ada@example.com");
  let ingestion: TestIngestion | undefined;
  let web: TestWeb | undefined;
  for (const driver of drivers) {
    const environment = { SVC_HTTP_DRIVER: driver };
    const otlp = await startTestIngestion({
      environment,
      ...(ingestion === undefined ? {} : { beside: ingestion }),
    });
    ingestion ??= otlp;
    stops.unshift(() => otlp.stop());
    const admin = await startTestWeb({
      identities,
      // What is no route below the base path is a page.
      environment: { ...environment, SVC_BASE_PATH: "/base" },
      ...(web === undefined ? {} : { beside: web }),
    });
    web ??= admin;
    stops.unshift(() => admin.stop());
    const health = await startHealthServer({
      driver,
      host: "127.0.0.1",
      port: 0,
      maxConnections: 1000,
      option: "SVC_ANALYTICS_HEALTH_LISTEN",
      probes: {
        health: () => null,
        ready: () => Promise.resolve(null),
        metrics: () => Promise.resolve("up 1\n"),
        metricsContentType: "text/plain; version=0.0.4",
      },
      logger: createTappedLogger(),
    });
    stops.unshift(() => health.stop());
    running.set(driver, {
      OTLP: {
        port: otlp.port,
        target: {
          path: "/ingestion/otlp/v1/logs",
          fields: [`Authorization: Bearer ${otlp.key}`, "Content-Type: application/json"],
          body: `{${" ".repeat(15)}}`,
          ok: 200,
          early: false,
        },
      },
      web: {
        port: admin.server.address.port,
        target: {
          path: "/base/api/groups",
          fields: [`Cookie: ${cookie}`, "Content-Type: application/json"],
          body: '{"name":"admins"}',
          ok: 200,
          early: false,
        },
      },
      login: {
        port: admin.server.address.port,
        target: {
          path: "/base/auth/logout",
          fields: [`Cookie: ${cookie}`, "Content-Type: application/json"],
          body: `{${" ".repeat(15)}}`,
          ok: 204,
          early: true,
        },
      },
      health: {
        port: health.address.port,
        target: { path: "/health", fields: [], body: `{${" ".repeat(15)}}`, ok: 405, early: true },
      },
    });
  }
  return {
    of(driver) {
      const listening = running.get(driver);
      if (listening === undefined) {
        throw new Error(`no listeners for ${driver}`);
      }
      return listening;
    },
    async stop() {
      for (const stop of stops) {
        await stop();
      }
    },
  };
}
