/**
 * Whether this database may decide which objects of its store go. One that was restored from a backup or copied, and a
 * standby that took over, may lack the names of objects that hold acknowledged records; and a copy may be at work beside
 * the original. `lake_id` (lake-identity.ts) is the same in all of them, so the store also holds an object whose name is
 * what Postgres itself calls the database. While that of another one is there, objects stay.
 */
import { type Sql, sqlState } from "../../db/sql.js";
import type { ObjectStore } from "../store/object-store.js";
import { identityObstacle } from "./lake-identity.js";

/** Of the object that names the database which decides. */
export const ownerDirectory = "lake-owner";

/** Hosted databases may refuse to say: insufficient_privilege, feature_not_supported, undefined_function. */
const refusals: ReadonlySet<string> = new Set(["42501", "0A000", "42883"]);

/** Cluster and database, which a restored dump has others of; the timeline is another one after a failover as well. */
interface Owner {
  readonly database: string;
  readonly timeline: string;
}

/** Why objects that nothing names may not be removed, in a sentence, or null. */
export async function orphansObstacle(sql: Sql, store: ObjectStore): Promise<string | null> {
  return (await identityObstacle(sql, store)) ?? (await ownerObstacle(sql, store, "orphans"));
}

/**
 * Notes the owner of a store that has none.
 * @param what `orphans`; `replaced` objects, which the database names as such: a standby does, too
 * @returns why they may not be removed, in a sentence, or null
 */
export async function ownerObstacle(
  sql: Sql,
  store: ObjectStore,
  what: "orphans" | "replaced",
): Promise<string | null> {
  const owner = await ownerOf(sql);
  if (owner === null) {
    return null;
  }
  const ours = `${ownerDirectory}/${owner.database}-`;
  const own = `${ours}${owner.timeline}`;
  let found = false;
  for await (const { path } of store.list(ownerDirectory)) {
    // Names that begin with a dot are unfinished writes.
    const another = what === "orphans" ? path !== own : !path.startsWith(ours);
    if (another && !path.startsWith(`${ownerDirectory}/.`)) {
      const since = path.startsWith(ours)
        ? "a standby took over, or the database was restored to an earlier moment,"
        : "the database was restored or copied";
      return `${since} since ${path} was written, and it may not name all objects; remove that object once it does (docs/deploy.md#backup-and-restore)`;
    }
    found ||= path.startsWith(ours);
  }
  if (!found) {
    await store.put(own, [Buffer.from("The database that decides which objects of this lake are removed.\n")]);
  }
  return null;
}

async function ownerOf(sql: Sql): Promise<Owner | null> {
  try {
    const [owner] = await sql<Owner[]>`
      select system_identifier || '-' || oid as database, timeline_id || '' as timeline
      from pg_control_system(), pg_control_checkpoint(), pg_database where datname = current_database()`;
    return owner ?? null;
  } catch (error) {
    if (refusals.has(sqlState(error) ?? "")) {
      return null;
    }
    throw error;
  }
}
