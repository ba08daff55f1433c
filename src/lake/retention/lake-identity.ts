/**
 * Whether the object store belongs to this database: it holds an object whose name is the database's `lake_id`. Objects
 * that the catalogue does not name are removed, so a catalogue of another lake, or an empty one, must not decide about
 * them. And what is written to a directory where nothing is mounted, or to another bucket, nobody reads.
 */
import type { Sql } from "../../db/sql.js";
import { ServiceError } from "../../runtime/errors.js";
import type { ObjectStore } from "../store/object-store.js";

/** Of the object that names a database. */
export const identityDirectory = "lake-id";

/** Marks a store that nobody has marked. @returns why the store is another's, in a sentence, or null */
export async function identityObstacle(sql: Sql, store: ObjectStore): Promise<string | null> {
  const [state] = await sql<{ lakeId: string; marked: boolean }[]>`
    select lake_id as "lakeId", marked from lake_state`;
  if (state === undefined) {
    return "the table lake_state has lost its row";
  }
  const own = `${identityDirectory}/${state.lakeId}`;
  let found = false;
  for await (const { path } of store.list(identityDirectory)) {
    // Names that begin with a dot are unfinished writes.
    if (path !== own && !path.startsWith(`${identityDirectory}/.`)) {
      return `the object store belongs to another database, as ${path} says; this one would have ${own}`;
    }
    found ||= path === own;
  }
  if (!found && state.marked) {
    return `the object store lacks ${own}: it is not the one of this database, or not mounted`;
  }
  if (!state.marked) {
    if (!found) {
      await store.put(own, [Buffer.from("The lake of the database whose lake_state holds this name.\n")]);
    }
    await sql`update lake_state set marked = true`;
  }
  return null;
}

/** @throws ServiceError NOT_CONFIGURED when the store is another's; its failures */
export async function assertIdentity(sql: Sql, store: ObjectStore): Promise<void> {
  const obstacle = await identityObstacle(sql, store);
  if (obstacle !== null) {
    throw new ServiceError(
      "NOT_CONFIGURED",
      `${obstacle}. Check SVC_OBJECT_STORE_URI, SVC_SQL_CONNECTION_STRING and what is mounted; docs/deploy.md#move-the-objects says how to move a lake.`,
    );
  }
}
