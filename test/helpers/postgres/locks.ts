/** Locks of the database under test: the server is shared, and `pg_locks` lists those of every database. */
import type { PendingQuery, Row } from "postgres";
import type { Sql } from "../../../src/db/sql.js";

/** A condition on rows of `pg_locks`. */
export function ofThisDatabase(sql: Sql): PendingQuery<Row[]> {
  return sql`database = (select oid from pg_database where datname = current_database())`;
}
