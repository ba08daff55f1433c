/** What maintenance finds to merge in the catalogue. */
import { randomUUID } from "node:crypto";

import { afterAll, afterEach, beforeAll, expect, it } from "vitest";

import type { Sql } from "../../src/db/sql.js";
import { chooseMerge, findMergeGroups } from "../../src/lake/merge/merge-candidates.js";
import { joinRoom } from "../../src/lake/merge/merge-levels.js";
import { createTestDatabase, type TestDatabase } from "../helpers/postgres/postgres.js";
import { noon } from "../helpers/noon.js";

let database: TestDatabase;
let sql: Sql;
beforeAll(async () => {
  database = await createTestDatabase();
  sql = database.sql;
});
afterEach(async () => {
  await sql`delete from lakehouse_partitions`;
  await sql`delete from lake_tasks`;
});
afterAll(() => database.drop());

const room = { rows: 262_144, bytes: 256 << 20 };
const second = 1_000_000_000n;

interface Added {
  readonly viewSet?: string;
  readonly audience?: string | null;
  readonly rows?: number;
  readonly level?: number;
  readonly fromNs?: bigint | null;
  readonly ageSeconds?: number;
}

async function addMany(count: number, o: Added | ((i: number) => Added) = {}): Promise<string[]> {
  const ids = Array.from({ length: count }, () => randomUUID());
  for (const [i, id] of ids.entries()) {
    const added = typeof o === "function" ? o(i) : o;
    const { viewSet = "log_entries", audience = "public", rows = 3, level = 0, ageSeconds = 0 } = added;
    const { fromNs = noon } = added;
    await sql`insert into lakehouse_partitions (partition_id, view_set, audience, path, file_bytes, row_count,
        min_time_ns, max_time_ns, min_insert_time, max_insert_time, level, schema_hash, sort_order)
      values (${id}, ${viewSet}, ${audience}, ${id}, 1000, ${rows}, ${fromNs}, ${fromNs},
        now() - ${ageSeconds} * interval '1 second', now() - ${ageSeconds} * interval '1 second', ${level}, '', '')`;
  }
  return ids;
}

const find = (except: readonly string[] = []) => findMergeGroups(sql, room, except);

it("is found by table and audience, those with the most objects first", async () => {
  await addMany(64, { audience: "few" });
  await addMany(70, { audience: null, viewSet: "spans" });
  await addMany(63, { audience: "waits" });
  await addMany(99, { viewSet: "of_another_version" });
  expect(await find()).toEqual([
    { viewSet: "spans", audience: null, levels: [0], objects: 70 },
    { viewSet: "log_entries", audience: "few", levels: [0], objects: 64 },
  ]);
});

it("is found without reading what is merged", async () => {
  await addMany(64);
  await sql`insert into lakehouse_partitions (partition_id, view_set, audience, path, file_bytes, row_count,
      min_insert_time, max_insert_time, level, schema_hash, sort_order)
    select gen_random_uuid(), 'log_entries', 'public', 'merged-' || i, 1000, 3, now(), now(), 3, '', ''
    from generate_series(1, 10000) i`;
  await sql`analyze lakehouse_partitions`;
  await sql.begin(async (tx) => {
    const asked = tx as unknown as Sql;
    const [group] = await findMergeGroups(asked, room, []);
    expect(group).toMatchObject({ objects: 64 });
    if (group !== undefined) {
      await chooseMerge(asked, group, room, []);
    }
    const [read] = await tx<{ rows: number }[]>`
      select (seq_tup_read + coalesce(idx_tup_fetch, 0))::int as rows from pg_stat_xact_user_tables
      where relname = 'lakehouse_partitions'`;
    expect(read?.rows).toBeLessThan(1000);
  });
});

it("is counted by level, without objects that are full, and those of level 3", async () => {
  await addMany(31, { level: 1, rows: 100 });
  await addMany(40, { level: 3 });
  await addMany(40, { level: 1, rows: joinRoom.rows / 2 });
  expect(await find()).toEqual([]);
  await addMany(1, { level: 1, rows: 100 });
  expect(await find()).toEqual([{ viewSet: "log_entries", audience: "public", levels: [1], objects: 32 }]);
});

it("is what is left of a sender that has gone", async () => {
  await addMany(3, { ageSeconds: 1300 });
  await addMany(5, { level: 1, ageSeconds: 5000 });
  expect(await find()).toEqual([{ viewSet: "log_entries", audience: "public", levels: [0, 1], objects: 8 }]);
  await addMany(1, { ageSeconds: 5 });
  expect(await find()).toEqual([]);
});

it("leaves out what is to be left alone", async () => {
  await addMany(63);
  const [id = ""] = await addMany(1);
  expect(await find([id])).toEqual([]);
  expect(await find([randomUUID()])).toHaveLength(1);
});

it("is chosen the oldest first, of its levels alone", async () => {
  await addMany(20, (i) => ({ rows: 30_000, fromNs: noon - BigInt(i) * second }));
  await addMany(4, { level: 1, fromNs: 0n });
  const oldest = await sql<{ id: string }[]>`
    select partition_id as id from lakehouse_partitions where level = 0 order by min_time_ns limit 8`;
  const [group] = await find();
  expect(group?.levels).toEqual([0]);
  expect(group === undefined ? null : await chooseMerge(sql, group, room, [])).toEqual({
    partitionIds: oldest.map(({ id }) => id),
    widthSeconds: 86_400,
    level: 1,
  });
});

it("leaves what came after an erasure that has not ended, of its audience and unstamped, for an hour", async () => {
  const ask = async (audience: string, state: string, minutesAgo: number) =>
    await sql`insert into lake_tasks (kind, request, state, created_by, created_at)
      values ('erasure', ${JSON.stringify({ audience })}::text::jsonb, ${state}, 'test', now() - ${minutesAgo} * interval '1 minute')`;
  await addMany(64, { viewSet: "spans" });
  await ask("public", "done", 0);
  await ask("public", "waiting", 61);
  await ask("other", "waiting", 0);
  expect(await find()).toMatchObject([{ viewSet: "spans", objects: 64 }]);
  await ask("public", "running", 0);
  await addMany(64);
  await addMany(64, { audience: null });
  await addMany(65, { audience: "others" });
  await addMany(32, { level: 1 });
  expect(await find()).toMatchObject([
    { viewSet: "log_entries", audience: "others", objects: 65 },
    { viewSet: "spans", objects: 64 },
    { viewSet: "log_entries", audience: "public", levels: [1] },
  ]);
});

it("looks at the erasures once for all objects", async () => {
  await addMany(64, { audience: "others" });
  await sql`insert into lake_tasks (kind, request, created_by, created_at)
    select 'erasure', '{"audience":"public"}', 'test', now() - interval '1 minute' from generate_series(1, 20)`;
  await sql.begin(async (tx) => {
    expect(await findMergeGroups(tx as unknown as Sql, room, [])).toMatchObject([{ objects: 64 }]);
    const [read] = await tx<{ rows: number }[]>`
      select (seq_tup_read + coalesce(idx_tup_fetch, 0))::int as rows from pg_stat_xact_user_tables
      where relname = 'lake_tasks'`;
    // Deleted rows of other tests may be among them.
    expect(read?.rows).toBeLessThan(100);
  });
});
