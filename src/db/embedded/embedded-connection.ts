/** How another process of this machine reaches an embedded Postgres that runs: it asks the files beside the cluster. */
import { readFile } from "node:fs/promises";
import path from "node:path";

import { ServiceError } from "../../runtime/errors.js";
import type { Logger } from "../../runtime/log/log.js";
import { connect } from "../sql.js";
import { clusterDatabase, clusterUser } from "./embedded-cluster.js";

/**
 * The connection string, password included, of the embedded Postgres of a data directory. Starts and changes nothing.
 * @throws ServiceError UNAVAILABLE when it does not run, FORBIDDEN when this user may not read its password.
 */
export async function runningEmbeddedPostgres(o: {
  readonly dataDirectory: string;
  readonly logger: Logger;
}): Promise<string> {
  const directory = path.resolve(o.dataDirectory, "postgres");
  // Line 4 of Postgres's lock file is its port; a killed one leaves the file behind.
  const lock = await readOf(directory, "pgdata/postmaster.pid");
  const port = Number(lock?.split("\n")[3]);
  const password = await readOf(directory, "password");
  if (password === null || !(port > 0)) {
    throw notRunning(o.dataDirectory);
  }
  const connectionString = `postgres://${clusterUser}:${password.trim()}@127.0.0.1:${port}/${clusterDatabase}`;
  const sql = connect({
    connectionString,
    maxConnections: 1,
    applicationName: "telemetry-monolith",
    logger: o.logger,
  });
  try {
    await sql`select 1`;
  } catch (cause) {
    throw notRunning(o.dataDirectory, cause);
  } finally {
    await sql.end({ timeout: 1 });
  }
  return connectionString;
}

async function readOf(directory: string, name: string): Promise<string | null> {
  const file = path.join(directory, name);
  try {
    return await readFile(file, "utf8");
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException;
    if (code === "ENOENT" || code === "ENOTDIR") {
      return null;
    }
    if (code === "EACCES") {
      throw new ServiceError("FORBIDDEN", `${file} cannot be read by this user: ask as the user who runs the service`, {
        cause,
      });
    }
    throw cause;
  }
}

function notRunning(dataDirectory: string, cause?: unknown): ServiceError {
  return new ServiceError(
    "UNAVAILABLE",
    `no database runs in ${path.resolve(dataDirectory)}: start the service there first, or say with --data-dir where it runs`,
    { cause },
  );
}
