/** Whether connections to the database are sessions of it. */
import { ServiceError } from "../runtime/errors.js";
import { connect, type ConnectOptions, type Sql } from "./sql.js";

/** A pooler that others use at the same time hands out its connections in an order that a single try may miss. */
const tries = 3;

/** Connection strings that were found good. The roles of a monolith often have the same one. */
const checked = new Set<string>();

/**
 * Checks that no pooler passes one session around among connections: advisory locks would be held by whoever comes next.
 * A connection string is checked once in a process.
 * @throws ServiceError NOT_CONFIGURED when one does; the error of a statement
 */
export async function assertSessions(o: Omit<ConnectOptions, "maxConnections">): Promise<void> {
  if (checked.has(o.connectionString)) {
    return;
  }
  const sql = connect({ ...o, maxConnections: 2 });
  try {
    for (let i = 0; i < tries; i++) {
      if (!(await areSessions(sql))) {
        throw new ServiceError(
          "NOT_CONFIGURED",
          "SVC_SQL_CONNECTION_STRING names a pooler that gives each transaction another session of the database, and the service takes locks that belong to sessions: set pool_mode = session there, or connect without it; see docs/deploy.md#postgres",
        );
      }
    }
    checked.add(o.connectionString);
  } finally {
    await sql.end({ timeout: 5 });
  }
}

/** Whether, while one connection is open, no other is of its session and it stays in its own. */
async function areSessions(sql: Sql): Promise<boolean> {
  const one = await sql.reserve();
  const other = await sql.reserve();
  try {
    const session = await sessionOf(one);
    await other.unsafe("begin");
    // Asked in this order, a pooler of a single session keeps nobody waiting.
    const are = (await sessionOf(other)) !== session && (await sessionOf(one)) === session;
    await other.unsafe("rollback");
    return are;
  } finally {
    one.release();
    other.release();
  }
}

/** In the simple protocol: prepared statements are lost between sessions. */
async function sessionOf(connection: Sql): Promise<unknown> {
  const [row] = await connection.unsafe<{ session: number }[]>("select pg_backend_pid() as session").simple();
  return row?.session;
}
