/** Makes sure of the schema `web` before anything is asked of it. */
import { migrateWeb } from "../../db/migrations.js";
import { type Sql, sqlState } from "../../db/sql.js";
import { ServiceError } from "../../runtime/errors.js";
import type { Logger } from "../../runtime/log/log.js";

const insufficientPrivilege = "42501";

/**
 * A function that migrates the schema until that has succeeded once, and then does nothing. Calls at the same time wait
 * for one another in the database.
 * @param run runs statements within a call's deadline
 */
export function createWebSchema(
  logger: Logger,
): (run: <T>(work: (sql: Sql) => PromiseLike<T>) => Promise<T>) => Promise<void> {
  let ready = false;
  return async (run) => {
    if (ready) {
      return;
    }
    try {
      await run((sql) => migrateWeb(sql, logger));
    } catch (error) {
      if (sqlState(error) === insufficientPrivilege) {
        throw new ServiceError(
          "NOT_CONFIGURED",
          "the web server may not make its tables; run migrations/roles/web.sql, and grant telemetry_web to its login",
          { cause: error },
        );
      }
      throw error;
    }
    ready = true;
  };
}
