/** What maintenance finds worth merging, played through in the catalogue alone: a merge there is a sum. */
import { randomUUID } from "node:crypto";

import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";

import type { Sql } from "../../src/db/sql.js";
import { chooseMerge, findMergeGroups, tierBounds } from "../../src/lake/merge/merge-candidates.js";
import { createTestDatabase, type TestDatabase } from "../helpers/postgres/postgres.js";

let database: TestDatabase;
let sql: Sql;
beforeAll(async () => {
  database = await createTestDatabase();
  sql = database.sql;
});
afterEach(async () => {
  await sql`delete from lakehouse_partitions`;
});
afterAll(() => database.drop());

const room = { rows: 262_144, bytes: 256 << 20 };
const second = 1_000_000_000n;
const day = 86_400n * second;
const noon = 1_763_726_400n * second;

interface Added {
  readonly viewSet?: string;
  readonly audience?: string | null;
  readonly rows?: number;
  readonly bytes?: number;
  /** Null for rows without a time. */
  readonly fromNs?: bigint | null;
  readonly toNs?: bigint | null;
}

async function add(o: Added = {}): Promise<string> {
  const { viewSet = "log_entries", audience = "public", rows = 3, bytes = 1000 } = o;
  const { fromNs = noon, toNs = fromNs } = o;
  const id = randomUUID();
  await sql`insert into lakehouse_partitions (partition_id, view_set, audience, path, file_bytes, row_count,
      min_time_ns, max_time_ns, min_insert_time, max_insert_time, level, schema_hash, sort_order)
    values (${id}, ${viewSet}, ${audience}, ${id}, ${bytes}, ${rows}, ${fromNs}, ${toNs}, now(), now(), 0, '', '')`;
  return id;
}

async function addMany(count: number, o: Added | ((i: number) => Added)): Promise<void> {
  for (let i = 0; i < count; i++) {
    await add(typeof o === "function" ? o(i) : o);
  }
}

const find = (except: readonly string[] = []) => findMergeGroups(sql, room, except);

/** Merges as maintenance would until nothing is worth it; returns the rows that were written. */
async function mergeAll(): Promise<number> {
  let written = 0;
  for (;;) {
    const [group] = await find();
    if (group === undefined) {
      return written;
    }
    const choice = await chooseMerge(sql, group, room, []);
    if (choice === null) {
      return written;
    }
    const ids = choice.partitionIds;
    const [sum] = await sql<{ rows: number; fromNs: bigint; toNs: bigint }[]>`
      with gone as (delete from lakehouse_partitions where partition_id = any(${[...ids]}::uuid[]) returning *)
      select sum(row_count)::float8 as rows, min(min_time_ns) as "fromNs", max(max_time_ns) as "toNs" from gone`;
    if (sum === undefined) {
      throw new Error("nothing was merged");
    }
    await add({ ...group, ...sum });
    written += sum.rows;
  }
}

async function standing(): Promise<number> {
  const [row] = await sql<{ n: number }[]>`select count(*)::int as n from lakehouse_partitions`;
  return row?.n ?? 0;
}

describe("objects of one table and audience", () => {
  it("are merged once there are four tiny ones, or eight larger ones, of about the same size", async () => {
    await addMany(3, { rows: 3 });
    await addMany(3, { rows: 50 });
    await addMany(7, { rows: 5000 });
    expect(await find()).toEqual([]);
    await add({ rows: 60 });
    expect(await find()).toEqual([{ viewSet: "log_entries", audience: "public", belowRows: 64 }]);
    await add({ rows: 6000 });
    expect(await find()).toEqual([{ viewSet: "log_entries", audience: "public", belowRows: 32_768 }]);
  });

  it("are left as they are once they hold an eighth of what a merge takes, in rows or bytes", async () => {
    await addMany(20, { rows: 32_768 });
    await addMany(20, { rows: 100, bytes: 32 << 20 });
    expect(await find()).toEqual([]);
    await addMany(8, { rows: 32_767 });
    expect(await find()).toHaveLength(1);
  });

  it("are never merged with those of another table or audience", async () => {
    for (const viewSet of ["log_entries", "spans"]) {
      for (const audience of ["a", "b", null]) {
        await addMany(3, { viewSet, audience });
      }
    }
    expect(await find()).toEqual([]);
    await add({ viewSet: "spans", audience: null });
    const [group] = await find();
    expect(group).toEqual({ viewSet: "spans", audience: null, belowRows: 4 });
    if (group === undefined) {
      return;
    }
    expect((await chooseMerge(sql, group, room, []))?.partitionIds).toHaveLength(4);
  });

  it("are not merged while they are to be left alone", async () => {
    await addMany(3, {});
    const id = await add();
    expect(await find([id])).toEqual([]);
    expect(await find([randomUUID()])).toHaveLength(1);
  });

  it("are not merged when their table is one that this version does not know", async () => {
    await addMany(9, { viewSet: "of_another_version" });
    expect(await find()).toEqual([]);
  });

  it("come first where there are most of them", async () => {
    await addMany(5, { audience: "few" });
    await addMany(9, { audience: "many" });
    expect((await find()).map(({ audience }) => audience)).toEqual(["many", "few"]);
  });
});

describe("a merge", () => {
  const choose = async () => {
    const [group] = await find();
    return group === undefined ? null : await chooseMerge(sql, group, room, []);
  };

  it("takes the oldest first, and no more rows than one step of it does", async () => {
    await addMany(20, (i) => ({ rows: 30_000, fromNs: noon - BigInt(i) * second }));
    const oldest = await sql<{ id: string }[]>`
      select partition_id as id from lakehouse_partitions order by min_time_ns limit 8`;
    expect(await choose()).toEqual({
      partitionIds: oldest.map(({ id }) => id),
      widthSeconds: 86_400,
    });
  });

  it("cuts by the day where objects of a day are many, and by more where they are few", async () => {
    await addMany(40, (i) => ({ fromNs: noon + BigInt(i % 10) * day }));
    expect(await choose()).toMatchObject({ widthSeconds: 86_400 });
    await sql`delete from lakehouse_partitions`;
    await addMany(40, (i) => ({ fromNs: noon + BigInt(i) * day }));
    expect(await choose()).toMatchObject({ widthSeconds: 32 * 86_400 });
    await sql`delete from lakehouse_partitions`;
    await addMany(40, (i) => ({ fromNs: noon - BigInt(i) * 300n * day }));
    expect(await choose()).toMatchObject({ widthSeconds: 2 ** 31 - 1 });
  });

  it("waits where it would make as many objects as it takes", async () => {
    const whole = { fromNs: -(2n ** 63n) + 1n, toNs: 2n ** 63n - 1n };
    await addMany(39, whole);
    expect(await choose()).toBeNull();
    await addMany(9, whole);
    expect((await choose())?.partitionIds).toHaveLength(48);
  });

  it("takes objects without any time along", async () => {
    await addMany(4, { fromNs: null, toNs: null });
    expect((await choose())?.partitionIds).toHaveLength(4);
  });
});

it("writes a row at most once per size, however often objects come in, and leaves few objects", async () => {
  const rows = 5;
  const arrivals = 1500;
  let written = 0;
  for (let i = 0; i < arrivals; i++) {
    await add({ rows, fromNs: noon + BigInt(i) * second });
    if (i % 3 === 0) {
      written += await mergeAll();
    }
  }
  const sizes = tierBounds(room.rows).filter((bound) => bound > rows && bound < rows * arrivals);
  expect(written).toBeLessThanOrEqual(rows * arrivals * sizes.length);
  expect(await standing()).toBeLessThanOrEqual(20);
  const [row] = await sql<{ rows: number }[]>`
    select sum(row_count)::int as rows from lakehouse_partitions`;
  expect(row?.rows).toBe(rows * arrivals);
});
