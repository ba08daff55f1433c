import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile, utimes, writeFile } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";

import { afterEach, beforeEach, describe, expect, it } from "vitest";

import { connect, type Sql } from "../../src/db/sql.js";
import { startMergeProcess } from "../../src/lake/merge/merge-engine.js";
import { tryLockMerge, unlockMerge } from "../../src/lake/merge/merge-lock.js";
import { mergePartitions } from "../../src/lake/merge/merge.js";
import { encodeTable } from "../../src/lake/parquet/write.js";
import { objectPath } from "../../src/lake/store/paths.js";
import { retirePartitions, sweepRetired } from "../../src/lake/retire.js";
import { sweepOrphans } from "../../src/lake/sweep.js";
import { type TableName, tables } from "../../src/lake/tables/tables.js";
import { createSilentLogger } from "../../src/runtime/log/log.js";
import { mergeAll, type MergeLab, startMergeLab } from "../helpers/lake/lake-merge.js";
import { type PlainValue, randomTable } from "../helpers/lake/lake-rows.js";
import { addPartition } from "../helpers/lake/lake.js";
import { readWithParquetWasm } from "../helpers/lake/parquet-readers.js";
import { ofThisDatabase } from "../helpers/postgres/locks.js";
import { until } from "../helpers/until.js";
import { noon } from "../helpers/noon.js";

const hour = 3_600_000_000_000n;

let lab: MergeLab;
beforeEach(async () => {
  lab = await startMergeLab();
});
afterEach(() => lab.stop());

/** Ten log records a second from `from` on, or as many as `rows` says. */
function addLogs(audience: string | null, from: bigint, rows = 10, without: readonly string[] = []) {
  return addPartition(lab.lake, lab.sql, {
    table: "log_entries",
    audience,
    without,
    rowsSql: `SELECT make_timestamp_ns(${from} + i * 1000000) AS time, 'm' || i AS msg, md5('t' || i) AS trace_id,
      '00000000-0000-4000-8000-00000000000' || (i % 3) AS process_id FROM range(${rows}) t(i)`,
  });
}

async function paths(): Promise<string[]> {
  const rows = await lab.sql<{ path: string }[]>`
    select path from lakehouse_partitions order by min_time_ns, path`;
  return rows.map((row) => path.join(lab.lake.directory, row.path));
}

/** The files with log records below the lake, as paths. */
async function files(): Promise<string[]> {
  const found: string[] = [];
  for await (const object of lab.context.store.list("log_entries")) {
    found.push(path.join(lab.lake.directory, object.path));
  }
  return found.toSorted();
}

async function countRows(): Promise<number> {
  const list = (await paths()).map((file) => `'${file}'`).join(", ");
  const [row] = await lab.duck(
    `SELECT CAST(count(*) AS INTEGER) AS n FROM read_parquet([${list}], union_by_name = true, hive_partitioning = false)`,
  );
  return Number(row?.["n"]);
}

/** The first statement that changes the catalogue waits until `body` has ended, and may then go on. */
async function whileCatalogueIsLocked(body: (tx: Sql) => Promise<void>): Promise<void> {
  const connection = await lab.sql.reserve();
  try {
    await connection`begin`;
    await connection`lock table lakehouse_partitions in share mode`;
    await body(connection);
    await connection`commit`;
  } finally {
    connection.release();
  }
}

/** Waits until a session waits for a lock: somebody has written objects and is about to publish. */
function publishing(): Promise<void> {
  return until(async () => {
    const waiting =
      await lab.sql`select from pg_locks where not granted and locktype = 'relation' and ${ofThisDatabase(lab.sql)}`;
    return waiting.length > 0;
  });
}

describe("a step that takes more memory than there is", () => {
  it("is made of fewer partitions, and all rows are merged", async () => {
    for (let i = 0; i < 8; i++) {
      await addPartition(lab.lake, lab.sql, {
        table: "log_entries",
        audience: "a",
        rowsSql: `SELECT make_timestamp_ns(${noon} + i * 1000000) AS time,
          repeat(md5('${i}' || i), 32) AS msg FROM range(12000) t(i)`,
      });
    }
    const limits = { memoryLimitBytes: 160 << 20, maxTempBytes: 1 << 20, threads: 1 };
    const done = await mergePartitions(lab.limited(limits), {
      viewSet: "log_entries",
      audiences: { kind: "all" },
      widthSeconds: 86_400,
      beginNs: noon,
      endNs: noon + hour,
      regenerate: false,
    });
    const created = done.filter(({ action }) => action === "created");
    expect(created.length).toBeGreaterThan(1);
    expect(done.filter(({ action }) => action === "replaced")).toHaveLength(8);
    expect(await countRows()).toBe(96_000);
  });
});

describe("a merged object", () => {
  it("is sorted by time, then in the order in which rows were received and sent", async () => {
    const rows = (insert: bigint, text: string): string =>
      `SELECT make_timestamp_ns(${noon} + (5 - i // 2)) AS time, make_timestamp_ns(${insert}) AS insert_time,
        '${text}' || i AS msg FROM range(10) t(i)`;
    for (const [insert, text] of [
      [2n, "late "],
      [1n, "early "],
    ] as const) {
      const rowsSql = rows(insert, text);
      await addPartition(lab.lake, lab.sql, { table: "log_entries", audience: "public", rowsSql });
    }
    await mergePartitions(lab.context, mergeAll);
    const [file] = await paths();
    const read = await lab.duck(`SELECT msg FROM '${file}'`);
    const expected = [4, 3, 2, 1, 0].flatMap((pair) =>
      ["early ", "late "].flatMap((text) => [`${text}${pair * 2}`, `${text}${pair * 2 + 1}`]),
    );
    expect(read.map(({ msg }) => msg)).toEqual(expected);
  });

  it("has ZSTD, bloom filters on ids that all differ, bounds and its order in each row group", async () => {
    await addLogs("public", noon, 100_000);
    await addLogs("public", noon + 1n, 50_000);
    await mergePartitions(lab.limited({ threads: 4, memoryLimitBytes: 1 << 30 }), mergeAll);
    const [file] = await paths();
    const groups = await lab.duck(
      `SELECT row_group_id AS g, compression AS c, path_in_schema AS name, bloom_filter_length > 1000 AS bloom,
         stats_min IS NOT NULL AND stats_max IS NOT NULL AS bounds
       FROM parquet_metadata('${file}') WHERE path_in_schema IN ('time', 'trace_id', 'process_id') ORDER BY ALL`,
    );
    expect(groups.map(({ c, name, bounds }) => [c, name, bounds])).toEqual(
      [0, 1, 2].flatMap(() => ["process_id", "time", "trace_id"].map((name) => ["ZSTD", name, true])),
    );
    expect(groups.filter(({ name }) => name === "trace_id").map(({ bloom }) => bloom)).toEqual([true, true, true]);
    const probe = async (column: string, value: string): Promise<unknown[]> =>
      (
        await lab.duck(
          `SELECT bloom_filter_excludes AS e FROM parquet_bloom_probe('${file}', '${column}', '${value}') ORDER BY row_group_id`,
        )
      ).map(({ e }) => e);
    expect(await probe("trace_id", "00112233445566778899aabbccddeeff")).toEqual([true, true, true]);
    const [present] = await lab.duck(`SELECT trace_id AS id FROM '${file}' LIMIT 1`);
    expect((await probe("trace_id", String(present?.["id"])))[0]).toBe(false);
    expect(await probe("process_id", "00112233-4455-6677-8899-aabbccddeeff")).toEqual([true, true, true]);
  });

  it("holds texts that repeat as they were, whatever is in them, and filters those that are asked for", async () => {
    for (let part = 0n; part < 2n; part++) {
      await addPartition(lab.lake, lab.sql, {
        table: "log_entries",
        audience: "public",
        rowsSql: `SELECT make_timestamp_ns(${noon + part} + i * 1000) AS time, 'm' || i AS msg,
          ['a', 'it''s "so"', '\\', '', NULL][1 + i % 5] AS scope_version, 's' || i % 2 AS service_name,
          'one' AS target, ['x' || chr(0), 'y'][1 + i % 2] AS scope_properties, '{"ü": ' || i % 5 || '}' AS process_properties
          FROM range(2000) t(i)`,
      });
    }
    const sources = await paths();
    await mergePartitions(lab.context, mergeAll);
    const [file] = await paths();
    const rows = (list: readonly string[]): string =>
      `SELECT * FROM read_parquet([${list.map((one) => `'${one}'`).join(", ")}], hive_partitioning = false)`;
    const [before, after] = [rows(sources), rows([String(file)])];
    const [count] = await lab.duck(`SELECT (SELECT count(*)::INT FROM (${after})) AS n,
      (SELECT count(*)::INT FROM (${before} EXCEPT ALL ${after})) AS lost`);
    expect(count).toEqual({ n: 4000, lost: 0 });
    const texts = await lab.duck(`SELECT path_in_schema AS name, stats_max AS last,
      bloom_filter_offset IS NOT NULL AS filtered, list_contains(string_split(encodings, ', '), 'RLE_DICTIONARY') AS listed
      FROM parquet_metadata('${file}') WHERE path_in_schema IN ('scope_version', 'service_name', 'target') ORDER BY 1`);
    expect(texts).toEqual([
      { name: "scope_version", last: 'it\'s "so"', filtered: false, listed: true },
      { name: "service_name", last: "s1", filtered: true, listed: true },
      { name: "target", last: "one", filtered: false, listed: true },
    ]);
  });

  it("of every table holds what was ingested, value by value, for other readers too", async () => {
    for (const table of Object.keys(tables) as TableName[]) {
      const { columns, expected } = randomTable(tables[table], 300, 11);
      const file = encodeTable(table, columns as never, 300, { compression: "none" });
      const id = crypto.randomUUID();
      const relative = objectPath(table, "public", 0, id);
      await lab.context.store.put(relative, file.chunks);
      await lab.sql`
        insert into lakehouse_partitions (partition_id, view_set, audience, path, file_bytes, row_count, min_time_ns,
          max_time_ns, min_insert_time, max_insert_time, level, schema_hash, sort_order)
        values (${id}, ${table}, 'public', ${relative}, ${file.bytes}, 300, ${file.minTimeNs}, ${file.maxTimeNs},
          now(), now(), 0, decode(${file.schemaHash}, 'hex'), '')`;
      const width = 31_622_400;
      const range = { beginNs: -(2n ** 63n), endNs: 2n ** 63n - 1n };
      const request = { ...mergeAll, ...range, viewSet: table, widthSeconds: width };
      const context = lab.limited({ objects: 2 });
      const merged = await mergePartitions(context, request);
      const created = merged.filter(({ action }) => action === "created");
      expect(created.length).toBeGreaterThan(0);
      const read: string[] = [];
      for (const object of created) {
        const bytes = await readFile(path.join(lab.lake.directory, object.path));
        read.push(...rowTexts(readWithParquetWasm(bytes), object.rowCount));
      }
      expect(read.toSorted()).toEqual(rowTexts(expected, 300).toSorted());
    }
  });

  it("keeps the process ids in the catalogue when they are few, and its bounds and sizes", async () => {
    await addLogs(null, noon);
    await addLogs(null, noon + hour - 5_000_000n);
    await mergePartitions(lab.context, mergeAll);
    const rows = await lab.sql`
      select level, bucket_seconds, row_count::int as rows, min_time_ns - ${noon}::bigint as min,
        max_time_ns - ${noon}::bigint as max, file_bytes > 1000 as sized, cardinality(process_ids) as processes, audience,
        min_insert_time < max_insert_time as insert_bounds, path
      from lakehouse_partitions order by min_time_ns`;
    const one = { level: 2, bucket_seconds: 3600, sized: true, audience: null, processes: 3 };
    expect(rows).toEqual([
      expect.objectContaining({ ...one, rows: 15, min: 0n, max: hour - 1_000_000n }),
      expect.objectContaining({ ...one, rows: 5, min: hour, max: hour + 4_000_000n }),
    ]);
    expect(rows[0]?.["insert_bounds"]).toBe(true);
    expect(rows[0]?.["path"]).toMatch(/^log_entries\/unstamped\/2025-11-21\/[0-9a-f-]{36}\.l2\.parquet$/u);
  });
});

function rowTexts(columns: Readonly<Record<string, PlainValue[]>>, rows: number): string[] {
  const names = Object.keys(columns).toSorted();
  return Array.from({ length: rows }, (_, row) =>
    JSON.stringify(
      names.map((name) => columns[name]?.[row] ?? null),
      (_key, value: unknown) => {
        if (typeof value === "bigint") {
          return `${value}n`;
        }
        return typeof value === "number" && !Number.isFinite(value) ? String(value) : value;
      },
    ),
  );
}

describe("objects of other versions", () => {
  it("that lack columns get them, as null", async () => {
    await addLogs("public", noon, 10, ["event_name", "flags"]);
    await addLogs("public", noon, 10);
    await mergePartitions(lab.context, mergeAll);
    const [file] = await paths();
    expect(
      await lab.duck(`SELECT CAST(count(*) AS INTEGER) AS n, CAST(count(flags) AS INTEGER) AS flags FROM '${file}'`),
    ).toEqual([{ n: 20, flags: 10 }]);
  });

  it("that have columns which would be lost stay as they are", async () => {
    const { path: newer } = await addLogs("public", noon);
    await lab.duck(`COPY (SELECT *, 1 AS column_of_tomorrow FROM read_parquet('${newer}', hive_partitioning = false))
      TO '${newer}.2' (FORMAT parquet)`);
    await writeFile(newer, await readFile(`${newer}.2`));
    await addPartition(lab.lake, lab.sql, {
      table: "log_entries",
      audience: "public",
      rowsSql: `SELECT make_timestamp_ns(${noon}) AS time`,
      without: ["msg"],
    });
    const merged = await mergePartitions(lab.context, mergeAll);
    expect(merged.map(({ action, rowCount }) => [action, rowCount])).toEqual([
      ["created", 1],
      ["replaced", 1],
    ]);
    expect(await paths()).toContain(newer);
  });
});

describe("a merge beside others", () => {
  it("is refused as retryable while another session merges the table, and only that table", async () => {
    await addLogs("public", noon);
    const holder = await lab.sql.reserve();
    try {
      expect(await tryLockMerge(holder, { viewSet: "log_entries" })).toBe(true);
      await expect(mergePartitions(lab.context, mergeAll)).rejects.toMatchObject({
        code: "UNAVAILABLE",
        retryable: true,
        message: expect.stringContaining("are being merged by another call") as unknown,
      });
      expect(await mergePartitions(lab.context, { ...mergeAll, viewSet: "spans" })).toEqual([]);
      await unlockMerge(holder, { viewSet: "log_entries" });
    } finally {
      holder.release();
    }
    expect(await mergePartitions(lab.context, mergeAll)).toHaveLength(2);
  });

  it("loses and doubles nothing when several start at once", async () => {
    for (let i = 0n; i < 6n; i++) {
      await addLogs("public", noon + i * 5_000_000n);
    }
    const results = await Promise.allSettled(
      [0, 1, 2].map(() => mergePartitions(lab.context, { ...mergeAll, regenerate: true })),
    );
    expect(results.some(({ status }) => status === "fulfilled")).toBe(true);
    const refused = results.filter((result) => result.status === "rejected");
    for (const { reason } of refused) {
      expect(reason).toMatchObject({ code: "UNAVAILABLE" });
    }
    expect(await countRows()).toBe(60);
    expect(await mergePartitions(lab.context, mergeAll)).toEqual([]);
  });

  it("changes nothing when one of its partitions is retired in between", async () => {
    const first = await addLogs("public", noon);
    const second = await addLogs("public", noon + 1n);
    const before = await files();
    let merging: Promise<unknown> = Promise.resolve();
    await whileCatalogueIsLocked(async (tx) => {
      merging = mergePartitions(lab.context, mergeAll).catch((error: unknown) => error);
      await publishing();
      expect((await files()).length).toBe(before.length + 1);
      const gone = path.relative(lab.lake.directory, first.path);
      expect(await retirePartitions(tx, { kind: "all" }, { kind: "path", path: gone })).toHaveLength(1);
    });
    expect(await merging).toMatchObject({ code: "UNAVAILABLE", retryable: true });
    expect(await paths()).toEqual([second.path]);
    expect(await files()).toEqual(before);
    expect(await mergePartitions(lab.context, mergeAll)).toHaveLength(2);
  });

  it("keeps every row, once, when its session is lost while it publishes", async () => {
    await addLogs("public", noon);
    await addLogs("public", noon + 1n);
    // Each merge has connections of its own, as it has in its thread.
    const { connectionString } = lab;
    const logger = createSilentLogger();
    const sql = connect({ connectionString, maxConnections: 2, applicationName: "merge", logger });
    try {
      await whileCatalogueIsLocked(async () => {
        const end = async (): Promise<void> => {
          await publishing();
          await lab.sql`select pg_terminate_backend(pid) from pg_locks where not granted and locktype = 'relation' and ${ofThisDatabase(lab.sql)}`;
        };
        const [merging] = await Promise.allSettled([mergePartitions({ ...lab.context, sql }, mergeAll), end()]);
        expect(merging).toMatchObject({ reason: { code: "UNAVAILABLE", retryable: true } });
      });
    } finally {
      await sql.end({ timeout: 5 });
    }
    expect(await countRows()).toBe(20);
    expect(await mergePartitions(lab.context, mergeAll)).toHaveLength(3);
    expect(await countRows()).toBe(20);
  });

  it("changes nothing when its transaction fails", async () => {
    await addLogs("public", noon);
    await addLogs("public", noon + 2n * hour);
    const before = await paths();
    await lab.sql`
      create function refuse() returns trigger language plpgsql as $$ begin
        if new.min_time_ns > ${lab.sql.unsafe(String(noon + hour))} then raise exception 'no'; end if; return new;
      end $$`.simple();
    await lab.sql`create trigger refuse before insert on lakehouse_partitions for each row execute function refuse()`;
    await expect(mergePartitions(lab.context, mergeAll)).rejects.toMatchObject({
      code: "INTERNAL",
    });
    expect(await paths()).toEqual(before);
    expect(await files()).toEqual(before.toSorted());
    expect(await lab.sql`select from retired_objects`).toHaveLength(0);
  });

  it("says why where the disk of the database is full, and leaves its session as it was", async () => {
    await addLogs("public", noon);
    await addLogs("public", noon + 1n);
    const before = await paths();
    await lab.sql`
      create function refuse() returns trigger language plpgsql as $$ begin
        raise exception 'no space left' using errcode = '53100'; end $$`.simple();
    await lab.sql`create trigger refuse before insert on lakehouse_partitions for each row execute function refuse()`;
    const failure: unknown = await mergePartitions(lab.context, mergeAll).catch((error: unknown) => error);
    expect(failure).toMatchObject({ code: "UNAVAILABLE", cause: { code: "53100" } });
    await lab.sql`drop trigger refuse on lakehouse_partitions`;
    expect(await paths()).toEqual(before);
    expect(await mergePartitions(lab.context, mergeAll)).toHaveLength(3);
  });

  it("waits for rows that others have locked for 30 seconds, and leaves what it has not replaced", async () => {
    await addLogs("public", noon);
    await addLogs("public", noon + 1n);
    const before = await paths();
    // As Postgres does when that is over.
    await lab.sql`
      create function keep() returns trigger language plpgsql as $$ begin
        raise exception 'after %', current_setting('lock_timeout') using errcode = '55P03'; end $$`.simple();
    await lab.sql`create trigger keep before delete on lakehouse_partitions for each row execute function keep()`;
    const failure: unknown = await mergePartitions(lab.context, mergeAll).catch((error: unknown) => error);
    expect(failure).toMatchObject({ code: "UNAVAILABLE", cause: { message: "after 30s" } });
    await lab.sql`drop trigger keep on lakehouse_partitions`;
    expect(await paths()).toEqual(before);
    expect(await files()).toHaveLength(2);
    expect(await mergePartitions(lab.context, mergeAll)).toHaveLength(3);
  });

  it("ends when it is given up, and changes nothing", async () => {
    await addLogs("public", noon, 1_000_000);
    const before = await files();
    let asked = 0;
    const cancelled = (): boolean => ++asked > 5;
    await expect(mergePartitions({ ...lab.context, cancelled }, mergeAll)).rejects.toMatchObject({
      code: "CANCELLED",
    });
    expect(await files()).toEqual(before);
    expect(await countRows()).toBe(1_000_000);
  });
});

describe("a process that dies between writing and publishing", () => {
  it("leaves every row as it was, and what it wrote is swept as nobody's, by no merge", async () => {
    await addLogs("public", noon);
    await addLogs("public", noon + 1n);
    const before = await files();
    const entry = fileURLToPath(new URL("../helpers/lake/lake-merge-child.js", import.meta.url));
    const child = spawn(
      process.execPath,
      [entry, lab.connectionString, lab.lake.uri, lab.context.limits.tempDirectory],
      { stdio: "ignore" },
    );
    const exited = once(child, "exit");
    await whileCatalogueIsLocked(async () => {
      await publishing();
      child.kill("SIGKILL");
      await exited;
      // Postgres notices that its client has gone when it next looks; that is not what this is about.
      await lab.sql`select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'merge-child'`;
    });
    const orphans = (await files()).filter((file) => !before.includes(file));
    expect(orphans).toHaveLength(1);
    expect((await paths()).toSorted()).toEqual(before);
    expect(await countRows()).toBe(20);
    const old = new Date(Date.now() - 2 * 3_600_000);
    for (const orphan of orphans) {
      await utimes(orphan, old, old);
    }
    // Its session's lock goes with the session.
    await until(async () => {
      const sessions = await lab.sql`select from pg_stat_activity where application_name = 'merge-child'`;
      return sessions.length === 0;
    });
    expect(await mergePartitions(lab.context, mergeAll)).toHaveLength(3);
    expect(await countRows()).toBe(20);
    // Another database's objects look alike in a store that two have.
    expect(await files()).toEqual(expect.arrayContaining(orphans));
    await sweepOrphans(lab.sql, lab.context.store, { nowMs: Date.now() });
    expect((await files()).filter((file) => orphans.includes(file))).toEqual([]);
  });
});

describe("long texts that come with many others", () => {
  it("are merged", async () => {
    const properties = "repeat('p', 100000)";
    for (const half of [0, 1]) {
      await addPartition(lab.lake, lab.sql, {
        table: "log_entries",
        audience: "a",
        rowsSql: `SELECT make_timestamp_ns(${noon} + i) AS time, ${properties} AS process_properties,
          'scope ' || i AS target FROM range(${half * 350}, ${half * 350 + 350}) t(i)`,
      });
    }
    await mergePartitions(lab.context, mergeAll);
    const [file, ...others] = await paths();
    expect(others).toEqual([]);
    const read = `count(DISTINCT target)::INT AS targets, bool_and(process_properties = ${properties}) AS whole`;
    expect(await lab.duck(`SELECT ${read} FROM '${file}'`)).toEqual([{ targets: 700, whole: true }]);
  });
});

describe("the DuckDB of a merge", () => {
  it("is told of with what it used, even when it is not used again", async () => {
    const { path: mine } = await addLogs("alpha", noon);
    const spent: number[] = [];
    const process = startMergeProcess(lab.context.limits, (seconds) => spent.push(seconds), lab.context.engines);
    const engine = process.within(path.dirname(mine));
    await expect(engine.rows("SELECT DISTINCT hash(i) FROM range(100000000) t(i)")).rejects.toThrow(/Out of Memory/u);
    expect(spent).toHaveLength(1);
    expect(spent[0]).toBeGreaterThan(0);
  });

  it("reads and writes the objects of its audience, and no others", async () => {
    const { path: mine } = await addLogs("alpha", noon);
    const { path: other } = await addLogs("beta", noon);
    const directory = path.join(lab.lake.directory, "log_entries", "audience=alpha");
    const process = startMergeProcess(lab.context.limits);
    const engine = process.within(directory);
    try {
      expect(await engine.rows(`SELECT count(*) FROM read_parquet(['${mine}'])`)).toEqual([["10"]]);
      const copy = (file: string): Promise<void> => engine.run(`COPY (SELECT 1) TO '${file}' (FORMAT parquet)`);
      await copy(path.join(directory, ".new.tmp"));
      for (const refused of [
        () => engine.rows(`SELECT count(*) FROM read_parquet(['${other}'])`),
        () => engine.rows(`SELECT count(*) FROM read_parquet(['${directory}/../audience=beta/*/*'])`),
        () => copy(path.join(lab.lake.directory, "new.parquet")),
        () => copy(path.join(path.dirname(other), "new.parquet")),
        () => engine.run("SET memory_limit = '1TB'"),
        () => engine.run("INSTALL httpfs"),
        () => engine.rows("SELECT * FROM read_text('/etc/hostname')"),
      ]) {
        await expect(refused()).rejects.toThrow(/Permission|disabled|locked/u);
      }
    } finally {
      await process.close();
    }
  });
});

describe("what a merge has replaced", () => {
  it("stays for queries under way until the sweep, and retention takes the merged objects", async () => {
    const { path: source } = await addLogs("public", noon);
    await mergePartitions(lab.context, mergeAll);
    expect(await files()).toContain(source);
    await sweepRetired(lab.sql, lab.context.store, 3_600_000);
    expect(await files()).toContain(source);
    await lab.sql`update retired_objects set retired_at = now() - interval '2 hours'`;
    await sweepRetired(lab.sql, lab.context.store, 3_600_000);
    const [merged] = await paths();
    expect(await files()).toEqual([merged]);
    const selection = { kind: "older", viewSet: "log_entries" } as const;
    const retire = (thanNs: bigint) => retirePartitions(lab.sql, { kind: "all" }, { ...selection, thanNs });
    expect(await retire(noon + 9_000_000n)).toEqual([]);
    expect(await retire(noon + 9_000_001n)).toMatchObject([{ rowCount: 10 }]);
  });

  it("is never what another audience's caller may not read", async () => {
    await addLogs("alpha", noon);
    await addLogs("beta", noon);
    await addLogs(null, noon);
    const audiences = { kind: "some", audiences: new Set(["alpha"]), unstamped: false } as const;
    const merged = await mergePartitions(lab.context, { ...mergeAll, audiences });
    expect(merged.map(({ action, rowCount }) => [action, rowCount])).toEqual([
      ["created", 10],
      ["replaced", 10],
    ]);
    const rows = await lab.sql`select audience, level from lakehouse_partitions order by audience`;
    expect(rows).toEqual([
      { audience: "alpha", level: 2 },
      { audience: "beta", level: 0 },
      { audience: null, level: 0 },
    ]);
  });
});
