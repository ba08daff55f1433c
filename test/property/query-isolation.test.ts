/**
 * Two lakes that a caller should not be able to tell apart: one holds more, all of it of audiences that
 * the caller may not read. Random statements run over both; rows, columns and whether they fail must be
 * the same, and no word of the hidden rows may come out. `ISOLATION_STATEMENTS` sets how
 * many: 2,000 take half a minute or so, and continuous integration runs 10,000.
 */
import { cp, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { pathToFileURL } from "node:url";

import { tableFromIPC } from "apache-arrow";
import { afterAll, beforeAll, expect, it } from "vitest";

import { type AudienceFilter } from "../../src/lake/catalogue.js";
import { type ObjectStore, openObjectStore } from "../../src/lake/object-store.js";
import type { Inspection } from "../../src/query/inspect.js";
import { planSources } from "../../src/query/plan.js";
import { toServiceError } from "../../src/runtime/errors.js";
import { createSilentLogger } from "../../src/runtime/log.js";
import { createMetrics } from "../../src/runtime/metrics.js";
import { QueryPool } from "../../src/workers/query-client.js";
import { addPartition, type TestLake } from "../helpers/lake.js";
import { createTestDatabase } from "../helpers/postgres.js";
import { ipcOf } from "../helpers/query-pool.js";
import { createRandomSql } from "../helpers/random-sql.js";

const statements = Number(process.env["ISOLATION_STATEMENTS"] ?? "2000");
const seed = Number(process.env["ISOLATION_SEED"] ?? String(Date.now() % 1_000_000));
const audiences: AudienceFilter = {
  kind: "some",
  audiences: new Set(["mine", "public"]),
  unstamped: false,
};

const visibleProcess = "01234567-89ab-cdef-0123-456789abcdef";
const hiddenProcess = "fedcba98-7654-3210-fedc-ba9876543210";

interface World {
  readonly sql: Awaited<ReturnType<typeof createTestDatabase>>["sql"];
  readonly store: ObjectStore;
  readonly lake: TestLake;
  readonly drop: () => Promise<void>;
}

let directory: string;
let full: World;
let bare: World;
let pool: QueryPool;
let hiddenPaths: string[];
let visiblePaths: string[];

async function openWorld(name: string): Promise<World> {
  const database = await createTestDatabase();
  const root = path.join(directory, "lake", name);
  const uri = pathToFileURL(root).href;
  return {
    sql: database.sql,
    store: await openObjectStore(uri),
    lake: { directory: root, uri, remove: () => Promise.resolve() },
    drop: () => database.drop(),
  };
}

async function fill(world: World, audience: string | null, processId: string): Promise<string[]> {
  const mark = audience === "mine" || audience === "public" ? "plainword" : "hushword";
  const common = `make_timestamp_ns(1763726400000000000 + i * 1000) AS time, '${processId}' AS process_id,
    '${mark} service' AS service_name, '{"a": "${mark}", "n": ' || i || '}' AS properties`;
  const add = async (table: "log_entries" | "measures" | "spans", columns: string, rows: number) =>
    addPartition(world.lake, world.sql, {
      table,
      audience,
      processIds: [processId],
      rowsSql: `SELECT ${common}, ${columns} FROM range(${rows}) t(i)`,
    });
  const files = [
    await add(
      "log_entries",
      `'${mark} message ' || i AS msg, CAST(1 + i % 6 AS INTEGER) AS level, '${mark}.target' AS target`,
      20,
    ),
    await add("measures", `'${mark} metric' AS name, '${mark} unit' AS unit`, 10),
    await add(
      "spans",
      `'${mark} operation' AS name, '${mark}aa' AS trace_id, '${mark}bb' AS span_id, [{'time': make_timestamp_ns(1763726400000000005), 'name': '${mark} event', 'properties': '{}', 'dropped_attributes_count': 0}] AS events`,
      10,
    ),
  ];
  const stream = processId.replace(/^..../u, audience === null ? "0000" : "aaaa");
  await world.sql`insert into processes (process_id, audience, service_name, host_name, properties)
    values (${processId}, ${audience}, ${`${mark} service`}, ${`${mark} host`}, ${world.sql.json({ a: mark })})`;
  await world.sql`insert into streams (stream_id, process_id, audience, signal, format)
    values (${stream}, ${processId}, ${audience}, 1, 'otlp')`;
  await world.sql`insert into blocks (block_id, stream_id, process_id, audience, signal, begin_time_ns, end_time_ns, row_count, payload_bytes)
    values (${processId}, ${stream}, ${processId}, ${audience}, 1, 1, 2, ${audience === "mine" ? 3 : 77_777}, 5)`;
  return files.map(({ path: file }) => file);
}

beforeAll(async () => {
  directory = await mkdtemp(path.join(tmpdir(), "telemetry-test-isolation-"));
  [full, bare] = [await openWorld("one"), await openWorld("two")];
  visiblePaths = await fill(full, "mine", visibleProcess);
  // What both have in common is the same to the byte, insertion times included.
  await cp(full.lake.directory, bare.lake.directory, { recursive: true });
  for (const table of ["processes", "streams", "blocks", "lakehouse_partitions"]) {
    const rows = await full.sql`select to_jsonb(t) as row from ${full.sql(table)} t`;
    for (const { row } of rows) {
      await bare.sql`insert into ${bare.sql(table)}
        select * from jsonb_populate_record(null::${bare.sql(table)}, ${bare.sql.json(row as never)})`;
    }
  }
  hiddenPaths = [
    ...(await fill(full, "secret", hiddenProcess)),
    ...(await fill(full, null, "99999999-7654-3210-fedc-ba9876543210")),
  ];
  pool = await QueryPool.start({
    lakeDirectory: path.join(directory, "lake"),
    tempDirectory: path.join(directory, "temp"),
    memoryLimitBytes: 512 << 20,
    maxTempBytes: 64 << 20,
    threads: 1,
    poolThreads: 2,
    queriesPerThread: 4,
    maxQueue: 1000,
    logger: createSilentLogger(),
    metrics: createMetrics(),
  });
});

afterAll(async () => {
  await pool.stop();
  await full.drop();
  await bare.drop();
  await rm(directory, { recursive: true, force: true });
});

interface Answer {
  /** The rows as text, sorted, or the code of the error. */
  readonly outcome: string;
  /** Everything that reaches the caller. */
  readonly shown: string;
}

async function answer(world: World, inspection: Inspection): Promise<Answer> {
  try {
    const range = { beginNs: null, endNs: null };
    const plan = await planSources(
      { sql: world.sql, store: world.store, audiences, range, admin: null },
      inspection,
    );
    const parts: Uint8Array[] = [];
    const signal = AbortSignal.timeout(20_000);
    for await (const message of pool.run(inspection.executable, plan.sources, signal)) {
      parts.push(...ipcOf(message));
    }
    const table = tableFromIPC(parts);
    const rows = Array.from(table, (row) =>
      JSON.stringify(row, (_key, value: unknown) =>
        typeof value === "bigint" ? String(value) : value,
      ),
    );
    const shown = [String(table.schema), ...rows.toSorted()].join("\n");
    return { outcome: shown, shown };
  } catch (error) {
    const { code, publicMessage } = toServiceError(error);
    return { outcome: code, shown: publicMessage };
  }
}

it(`shows nothing of other audiences in ${statements} random statements (seed ${seed})`, async () => {
  const next = createRandomSql({
    seed,
    words: ["plainword", "hushword", "message 1", "secret", "mine", "a", ""],
    processIds: [visibleProcess, hiddenProcess],
    paths: [
      ...visiblePaths,
      ...hiddenPaths,
      path.join(directory, "lake", "*", "**"),
      "/etc/passwd",
    ],
  });
  const counts = { ran: 0, failed: 0, refused: 0, rowsSeen: 0 };
  const leaks: string[] = [];
  const check = async (sql: string): Promise<void> => {
    let inspection: Inspection;
    try {
      inspection = await pool.inspect(sql);
    } catch (error) {
      counts.refused++;
      const { code, publicMessage } = toServiceError(error);
      if (code !== "BAD_REQUEST") leaks.push(`${code} ${publicMessage}: ${sql}`);
      return;
    }
    const [inFull, inBare] = await Promise.all([
      answer(full, inspection),
      answer(bare, inspection),
    ]);
    if (inFull.shown.includes("plainword")) counts.rowsSeen++;
    if (/^[A-Z_]+$/u.test(inFull.outcome)) counts.failed++;
    else counts.ran++;
    // A caller may say the word; then it comes back, but in both.
    const leaked = inFull.shown.includes("hushword") && !inBare.shown.includes("hushword");
    if (!leaked && inFull.outcome === inBare.outcome) return;
    // Rows that differ from run to run say nothing.
    const again = await answer(bare, inspection);
    const andAgain = await answer(full, inspection);
    if (!leaked && (again.outcome !== inBare.outcome || andAgain.outcome !== inFull.outcome))
      return;
    leaks.push(
      `${sql}\n  with: ${inFull.shown.slice(0, 500)}\n  without: ${inBare.shown.slice(0, 500)}`,
    );
  };
  let left = statements;
  await Promise.all(
    Array.from({ length: 6 }, async () => {
      while (left-- > 0) await check(next());
    }),
  );
  expect(leaks).toEqual([]);
  // The statements are worth something: many run, many see rows, many are refused.
  expect(counts.ran).toBeGreaterThan(statements / 10);
  expect(counts.rowsSeen).toBeGreaterThan(statements / 50);
  expect(counts.refused).toBeGreaterThan(statements / 20);
}, 600_000);
