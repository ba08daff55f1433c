/** Objects with pages that this writer once broke (parquet/mend-pages.ts) are replaced by whole ones of the same rows. */
import { randomUUID } from "node:crypto";
import { rmSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";

import type { Sql } from "../../db/sql.js";
import { ServiceError } from "../../runtime/errors.js";
import { asRefused, isOutage } from "../bad-objects.js";
import { mendPages } from "../parquet/mend-pages.js";
import { publishDeadline } from "../publish-deadline.js";
import { checksumOf } from "../store/checksum.js";
import { makeDirectory } from "../store/file-store.js";
import type { Written } from "../store/object-store.js";
import { settleObject } from "../store/settle-object.js";
import { bringObjects } from "../merge/local-objects.js";
import type { MergeContext } from "../merge/merge.js";
import type { MergeEngine } from "../merge/merge-engine.js";
import type { MergeSource } from "../merge/merge-plan.js";
import { publishStored } from "../merge/merge-publish.js";
import { everyValueSql } from "../merge/merge-sql.js";

/** A partition whose object nobody can read. */
type BrokenPartition = Pick<MergeSource, "partitionId" | "path" | "fileBytes" | "rowCount" | "checksum">;

/** What stands for it. */
export interface MendedObject extends Written {
  readonly partitionId: string;
  readonly path: string;
}

/**
 * The bytes of an object as they should have been written.
 * @returns null when it has another fault, or others beside
 * @throws BadObjects; RefusedFile; ServiceError UNAVAILABLE, CANCELLED
 */
export async function mendedBytes(
  context: Pick<MergeContext, "store" | "root" | "cancelled">,
  partition: BrokenPartition,
): Promise<Uint8Array | null> {
  // Others wrote all objects but those as ingested.
  if (!partition.path.endsWith(".l0.parquet")) {
    return null;
  }
  const local = await bringObjects(context, [partition]);
  try {
    const [{ file } = { file: "" }] = local.files;
    const bytes = await readFile(file).catch((error: unknown) => {
      throw asRefused(context.store, error);
    });
    const { fileBytes, checksum } = partition;
    const asWritten = bytes.length === fileBytes && (checksum === null || checksumOf([bytes]) === checksum);
    return asWritten ? mendPages(bytes) : null;
  } finally {
    local.release();
  }
}

/**
 * Stores an object of such bytes, and publishes it.
 * @param replace publishes it in the place of the broken one, see {@link replaceObject}
 * @returns null when it cannot be read either; `stays` when `replace` changed nothing. Then nothing remains
 * @throws ServiceError UNAVAILABLE, CANCELLED; what `replace` and the file system throw
 */
export async function putMended(
  context: Pick<MergeContext, "store" | "root" | "clock" | "cancelled">,
  engine: MergeEngine,
  old: BrokenPartition,
  bytes: Uint8Array,
  replace: (object: MendedObject, assertInTime: () => void) => Promise<boolean>,
): Promise<MendedObject | "stays" | null> {
  const { store, root, clock } = context;
  const partitionId = randomUUID();
  const path = `${dirname(old.path)}/${partitionId}.l0.parquet`;
  const directory = dirname(store.localPath(path) ?? join(root, path));
  const temporary = join(directory, `.${partitionId}.mend.tmp`);
  const assertInTime = publishDeadline(clock);
  try {
    makeDirectory(directory);
    await writeFile(temporary, bytes);
    if (!(await isReadable(context, engine, temporary, old.rowCount))) {
      return null;
    }
    const object = { partitionId, path, ...(await settleObject(store, path, temporary)) };
    const done = await publishStored(
      store,
      () => [path],
      (begin) => {
        begin();
        return replace(object, assertInTime);
      },
    );
    return done ? object : "stays";
  } finally {
    rmSync(temporary, { force: true });
  }
}

async function isReadable(
  { cancelled }: Pick<MergeContext, "cancelled">,
  engine: MergeEngine,
  file: string,
  rowCount: number,
): Promise<boolean> {
  try {
    const [row] = await engine.rows(everyValueSql([{ file }]));
    return Number(row?.[1]) === rowCount;
  } catch (error) {
    if (cancelled()) {
      throw new ServiceError("CANCELLED");
    }
    if (isOutage(error)) {
      throw error;
    }
    return false;
  }
}

/** Where the object of a partition is named: in the catalogue, or among what an earlier repair took out of that. */
type NamedIn = "lakehouse_partitions" | "lost_partitions";

/**
 * Names an object in the place of another. Nothing else about the partition changes, and the old object stays for queries
 * that have it open.
 * @returns false when the old one is not named any more
 */
export async function replaceObject(
  sql: Sql,
  namedIn: NamedIn,
  old: BrokenPartition,
  { partitionId, path, fileBytes, checksum }: MendedObject,
): Promise<boolean> {
  const gone = sql`delete from ${sql(namedIn)} where partition_id = ${old.partitionId} and path = ${old.path} returning *`;
  const changes = sql`${JSON.stringify({ partition_id: partitionId, path, file_bytes: fileBytes, checksum })}::text::jsonb`;
  const { count } =
    namedIn === "lakehouse_partitions"
      ? await sql`
          with gone as (${gone}), kept as (
            insert into retired_objects (path, file_bytes) select path, file_bytes from gone on conflict (path) do nothing
          )
          insert into lakehouse_partitions
          select whole.* from gone, jsonb_populate_record(null::lakehouse_partitions, to_jsonb(gone) || ${changes}) as whole`
      : await sql`
          with gone as (${gone}), kept as (
            insert into retired_objects (path, file_bytes) select path, (partition ->> 'file_bytes')::bigint from gone
            on conflict (path) do nothing
          )
          insert into lost_partitions (partition_id, path, reason, lost_at, partition)
          select ${partitionId}::uuid, ${path}, reason, lost_at, partition || ${changes} from gone`;
  return count > 0;
}
