/** Lakes in which every row of an audience carries the audience's word, and callers who may read some of them. */
import { cp, mkdir } from "node:fs/promises";
import path from "node:path";
import { pathToFileURL } from "node:url";

import type { AudienceFilter } from "../../../src/db/audience-filter.js";
import { type LakeFiles, localFiles } from "../../../src/lake/cache/lake-files.js";
import { openObjectStore } from "../../../src/lake/store/open-store.js";
import { addPartition, type TestLake } from "../lake/lake.js";
import { createTestDatabase } from "../postgres/postgres.js";

/** Every row of an audience carries its word. */
export const marks = {
  mine: "plainword",
  public: "openword",
  secret: "hushword",
  unstamped: "looseword",
};

/** An audience, or none. */
export type Mark = keyof typeof marks;

export const allMarks = Object.keys(marks) as Mark[];

export const processes: Readonly<Record<Mark, string>> = {
  mine: "01234567-89ab-cdef-0123-456789abcdef",
  public: "11111111-89ab-cdef-0123-456789abcdef",
  secret: "fedcba98-7654-3210-fedc-ba9876543210",
  unstamped: "99999999-7654-3210-fedc-ba9876543210",
};

/** A trace with spans and log records of every audience, which call each other. */
export const sharedTrace = "0123456789abcdef0123456789abcdef";

/** What callers may read. */
export const grants: readonly (readonly Mark[])[] = [["mine", "public"], ["public", "unstamped"], ["mine"], []];

/** A lake with its catalogue. */
export interface World {
  readonly sql: Awaited<ReturnType<typeof createTestDatabase>>["sql"];
  readonly files: LakeFiles;
  readonly lake: TestLake;
  readonly drop: () => Promise<void>;
}

export function filterOf(may: readonly Mark[]): AudienceFilter {
  const audiences = new Set(may.filter((mark) => mark !== "unstamped"));
  return { kind: "some", audiences, unstamped: may.includes("unstamped") };
}

/** An empty world below a directory. */
export async function openWorld(directory: string, name: string): Promise<World> {
  const database = await createTestDatabase();
  const root = path.join(directory, "lake", name);
  const uri = pathToFileURL(root).href;
  return {
    sql: database.sql,
    files: localFiles(await openObjectStore(uri)),
    lake: { directory: root, uri, remove: () => Promise.resolve() },
    drop: () => database.drop(),
  };
}

/** Adds the rows of an audience. @returns paths of its objects in the lake */
export async function fill(world: World, name: Mark): Promise<string[]> {
  const audience = name === "unstamped" ? null : name;
  const mark = marks[name];
  const processId = processes[name];
  const common = `make_timestamp_ns(1763726400000000000 + i * 1000) AS time, '${processId}' AS process_id,
    '${mark} service' AS service_name`;
  const plain = `'{"a": "${mark}", "n": ' || i || '}'`;
  const add = async (
    table: "log_entries" | "measures" | "histograms" | "spans",
    columns: string,
    rows: number,
    properties = plain,
  ) =>
    addPartition(world.lake, world.sql, {
      table,
      audience,
      processIds: [processId],
      rowsSql: `SELECT ${common}, ${properties} AS properties, ${columns} FROM range(${rows}) t(i)`,
    });
  const files = [
    await add(
      "log_entries",
      `'${mark} message ' || i AS msg, CAST(1 + i % 6 AS INTEGER) AS level, '${mark}.target' AS target`,
      20,
    ),
    await add(
      "measures",
      `'${mark} metric' AS name, '${mark} unit' AS unit, 'sum' AS metric_type, 'cumulative' AS temporality,
       true AS is_monotonic, i * 2.0 AS value, make_timestamp_ns(1763726399000000000) AS start_time`,
      10,
    ),
    await add(
      "histograms",
      `'${mark} metric' AS name, '${mark} unit' AS unit, if(i < 5, 'histogram', 'exponential_histogram') AS metric_type,
       'delta' AS temporality, i AS count, if(i < 5, [i, 0], []) AS bucket_counts, if(i < 5, [1], []) AS explicit_bounds,
       [i] AS positive_bucket_counts`,
      10,
    ),
    await add(
      "spans",
      `'${mark} operation' AS name, '${mark}aa' AS trace_id, '${mark}bb' AS span_id, [{'time': make_timestamp_ns(1763726400000000005), 'name': '${mark} event', 'properties': '{}', 'dropped_attributes_count': 0}] AS events`,
      10,
    ),
  ];
  const others = allMarks.length;
  const place = allMarks.indexOf(name);
  files.push(
    await add(
      "log_entries",
      `'${mark} of a trace ' || i AS msg, '${sharedTrace}' AS trace_id`,
      3,
      `'{"exception.type": "${mark}Error", "exception.message": "${mark}"}'`,
    ),
    await add(
      "spans",
      `'${mark} call' AS name, '${sharedTrace}' AS trace_id, printf('%016x', i * ${others} + ${place} + 1) AS span_id,
       CASE WHEN i * ${others} + ${place} = 0 THEN NULL ELSE printf('%016x', i * ${others} + ${place}) END AS parent_span_id,
       make_timestamp_ns(1763726400000000000 + i * 1000 + 5000000 - i) AS end_time, 5000000 - i AS duration_ns,
       CAST(2 + i % 4 AS INTEGER) AS kind, CAST(i % 3 AS INTEGER) AS status_code,
       [{'time': make_timestamp_ns(1763726400000000005), 'name': 'exception', 'properties': '{"exception.type": "${mark}Exception"}', 'dropped_attributes_count': 0}] AS events`,
      8,
      `'{"db.system": "${mark}db", "secret": "${mark}"}'`,
    ),
  );
  const stream = processId.replace(/^..../u, "aaaa");
  await world.sql`insert into processes (process_id, audience, service_name, host_name, properties)
    values (${processId}, ${audience}, ${`${mark} service`}, ${`${mark} host`}, ${world.sql.json({ a: mark })})`;
  await world.sql`insert into streams (stream_id, process_id, audience, signal, format)
    values (${stream}, ${processId}, ${audience}, 1, 'otlp')`;
  await world.sql`insert into blocks (block_id, stream_id, process_id, audience, signal, begin_time_ns, end_time_ns, row_count, payload_bytes)
    values (${processId}, ${stream}, ${processId}, ${audience}, 1, 1, 2, ${mark.length * 1000}, 5)`;
  if (audience !== null) {
    await world.sql`insert into ingestion_api_keys (key_id, key_hash, name, created_by, audience)
      values (${processId}, sha256(${mark}::bytea), ${`${mark} key`}, 'test', ${audience})`;
    await world.sql`insert into api_key_usage (key_id, hour, requests, bytes, records)
      values (${processId}, '2025-11-21T12:00:00Z', ${mark.length}, ${mark.length * 1000}, 5)`;
  }
  return files.map(({ path: file }) => file);
}

/** A world with the rows of some audiences of `full`, the same to the byte, insertion times included. */
export async function part(full: World, directory: string, name: string, may: readonly Mark[]): Promise<World> {
  const world = await openWorld(directory, name);
  const audiences = may.filter((mark) => mark !== "unstamped");
  const readable = full.sql`audience = any(${audiences}) or (audience is null and ${may.includes("unstamped")})`;
  const ofKeys = full.sql`key_id in (select key_id from ingestion_api_keys where ${readable})`;
  for (const table of [
    "processes",
    "streams",
    "blocks",
    "lakehouse_partitions",
    "ingestion_api_keys",
    "api_key_usage",
  ]) {
    const rows = await full.sql`select to_jsonb(t) as row from ${full.sql(table)} t
      where ${table === "api_key_usage" ? ofKeys : readable}`;
    for (const { row } of rows) {
      await world.sql`insert into ${world.sql(table)}
        select * from jsonb_populate_record(null::${world.sql(table)}, ${world.sql.json(row as never)})`;
      const object = (row as { readonly path?: string }).path;
      if (object === undefined) {
        continue;
      }
      const target = path.join(world.lake.directory, object);
      await mkdir(path.dirname(target), { recursive: true });
      await cp(path.join(full.lake.directory, object), target);
    }
  }
  return world;
}
