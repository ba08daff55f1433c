/**
 * The directory of an embedded cluster before Postgres runs in it: owner and modes, password, `initdb`,
 * and the settings that Postgres starts with. embedded.ts describes the layout.
 */
import { randomBytes } from "node:crypto";
import { chmod, chown, link, mkdir, open, readdir, readFile, realpath, rename, rm, stat } from "node:fs/promises";
import path from "node:path";

import { ServiceError } from "../../runtime/errors.js";
import { type Account, chooseAccount } from "./embedded-binaries.js";
import { type ClusterSpec, runInitdb } from "./embedded-process.js";

/** The superuser of an embedded cluster, and the service's user. */
export const clusterUser = "telemetry";

/** The service's database in an embedded cluster. */
export const clusterDatabase = "telemetry";

/**
 * Makes `<dataDirectory>/postgres` where it is missing, for one user alone.
 *
 * @returns its path without symbolic links, and the account that runs Postgres there.
 */
export async function prepareDirectory(dataDirectory: string): Promise<{ directory: string; account: Account | null }> {
  const wanted = path.resolve(dataDirectory, "postgres");
  try {
    await mkdir(wanted, { recursive: true });
    // Postgres processes are recognised by their working directory, which the kernel reports resolved.
    const directory = await realpath(wanted);
    const account = await chooseAccount(directory);
    await chmod(directory, 0o700);
    if (account !== null) {
      await chown(directory, account.uid, account.gid);
    }
    return { directory, account };
  } catch (error) {
    throw directoryFailure(wanted, error);
  }
}

/** What is told when the directory of Postgres cannot be made. */
export function directoryFailure(directory: string, error: unknown): unknown {
  const code = (error as NodeJS.ErrnoException).code;
  if (code === "EACCES" || code === "EPERM" || code === "EROFS") {
    return new ServiceError(
      "NOT_CONFIGURED",
      `The database directory ${directory} cannot be written by this user: run the service as its owner, or choose another data directory.`,
      { cause: error },
    );
  }
  // Node.js 20 says so in place of EROFS when it makes several levels.
  if (code === "ENOENT") {
    return new ServiceError(
      "NOT_CONFIGURED",
      `The database directory ${directory} cannot be made: its file system is read-only, or takes no directories. Mount it writable, or choose another data directory.`,
      { cause: error },
    );
  }
  if (code === "ENOTDIR" || code === "EEXIST") {
    return new ServiceError(
      "NOT_CONFIGURED",
      `The database directory ${directory} cannot be made, because it, or what it is to lie in, is a file: correct SVC_DATA_DIR.`,
      { cause: error },
    );
  }
  if (code === "ENOSPC" || code === "EDQUOT") {
    return new ServiceError(
      "UNAVAILABLE",
      `No space is left on the disk that holds the database directory ${directory}: free some and start again.`,
      { cause: error },
    );
  }
  return error;
}

/** Reads the password, or makes it: linked into place whole and synced, so that no two are ever in use. */
export async function ensurePassword(directory: string, account: Account | null): Promise<string> {
  const file = path.join(directory, "password");
  try {
    const present = await readFile(file, "utf8").catch((error: NodeJS.ErrnoException) => {
      if (error.code === "ENOENT") {
        return null;
      }
      throw error;
    });
    if (present !== null) {
      await chmod(file, 0o600);
      return present.trim();
    }
    if ((await stat(path.join(directory, "pgdata")).catch(() => null)) !== null) {
      throw new ServiceError(
        "NOT_CONFIGURED",
        `The password of the database in ${directory} is missing: put the file "password" back, or remove the directory to start empty.`,
      );
    }
    const fresh = `${file}.${randomBytes(6).toString("hex")}`;
    const handle = await open(fresh, "wx", 0o600);
    try {
      await handle.writeFile(`${randomBytes(32).toString("hex")}\n`);
      if (account !== null) {
        await handle.chown(account.uid, account.gid);
      }
      await handle.sync();
    } finally {
      await handle.close();
    }
    await link(fresh, file).catch((error: NodeJS.ErrnoException) => {
      // A second instance starting at the same moment; both go on with the one that is in place.
      if (error.code !== "EEXIST") {
        throw error;
      }
    });
    await rm(fresh, { force: true });
    await syncDirectory(directory);
    return (await readFile(file, "utf8")).trim();
  } catch (error) {
    throw directoryFailure(directory, error);
  }
}

/** Makes the names in a directory survive a loss of power. */
async function syncDirectory(directory: string): Promise<void> {
  const handle = await open(directory, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** Creates the cluster where there is none; what an interrupted creation left is removed first. */
export async function ensureCluster(spec: ClusterSpec, durable: boolean): Promise<void> {
  const directory = path.dirname(spec.pgdata);
  for (const entry of await readdir(directory)) {
    if (!entry.startsWith("pgdata.new.")) {
      continue;
    }
    spec.logger.warn({ entry }, "removing a cluster whose creation was interrupted");
    // A dying initdb may still be writing there; its next leftovers are removed by the next start.
    await rm(path.join(directory, entry), { recursive: true, force: true, maxRetries: 5 });
  }
  const version = await readFile(path.join(spec.pgdata, "PG_VERSION"), "utf8").catch(() => null);
  if (version !== null) {
    return;
  }
  if ((await readdir(spec.pgdata).catch(() => [])).length > 0) {
    throw new ServiceError(
      "NOT_CONFIGURED",
      `${spec.pgdata} is not a Postgres cluster (it has no PG_VERSION): move it away and start again.`,
    );
  }
  const fresh = `${spec.pgdata}.new.${randomBytes(6).toString("hex")}`;
  try {
    await mkdir(fresh, { mode: 0o700 });
    if (spec.account !== null) {
      await chown(fresh, spec.account.uid, spec.account.gid);
    }
    await runInitdb(spec, fresh, { user: clusterUser, durable });
    await rename(fresh, spec.pgdata);
    if (durable) {
      await syncDirectory(directory);
    }
  } catch (error) {
    await rm(fresh, { recursive: true, force: true });
    throw directoryFailure(directory, error);
  }
}

/**
 * Settings for a catalogue that sees a few hundred small durable transactions a second from a handful
 * of pools, on a machine that belongs to the ingestion. Given on the command line, so that a new version
 * of the service brings its own to an old cluster.
 */
export function serverSettings(durable: boolean, maxConnections: number): Record<string, string> {
  return {
    listen_addresses: "127.0.0.1",
    unix_socket_directories: "",
    max_connections: String(maxConnections),
    password_encryption: "scram-sha-256",
    fsync: durable ? "on" : "off",
    full_page_writes: durable ? "on" : "off",
    // Even without fsync a commit is written out before it is answered: killed processes lose nothing.
    synchronous_commit: "on",
    // Nothing replicates from here, and the sender's machinery costs WAL and processes.
    wal_level: "minimal",
    max_wal_senders: "0",
    max_logical_replication_workers: "0",
    wal_compression: "on",
    wal_buffers: "4MB",
    // The upper bound keeps recovery after a crash to a few seconds.
    max_wal_size: "512MB",
    min_wal_size: "80MB",
    checkpoint_timeout: "10min",
    shared_buffers: "64MB",
    work_mem: "8MB",
    maintenance_work_mem: "64MB",
    random_page_cost: "1.1",
    // No I/O workers, no parallel queries, no JIT: few idle processes, and the cores are for the service.
    io_method: "sync",
    max_worker_processes: "2",
    max_parallel_workers: "0",
    max_parallel_workers_per_gather: "0",
    autovacuum_max_workers: "2",
    autovacuum_worker_slots: "2",
    jit: "off",
    // Lines are parsed by their first word; statements and key values stay out of the log.
    log_destination: "stderr",
    logging_collector: "off",
    log_line_prefix: "",
    log_min_messages: "warning",
    log_min_error_statement: "panic",
    log_error_verbosity: "terse",
    log_checkpoints: "off",
  };
}
