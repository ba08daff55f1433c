/**
 * Lakes that a caller should not be able to tell apart: one holds everything, the other only what the caller
 * may read. Random statements of callers with different grants run over both; rows, columns, errors and what
 * the planner counts must be the same, and no word of a hidden row may come out. `ISOLATION_STATEMENTS` sets
 * how many; continuous integration runs 10,000.
 */
import { cp, mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { pathToFileURL } from "node:url";

import { tableFromIPC } from "apache-arrow";
import { afterAll, beforeAll, expect, it } from "vitest";

import { type AudienceFilter } from "../../src/lake/catalogue.js";
import type { ObjectStore } from "../../src/lake/store/object-store.js";
import { openObjectStore } from "../../src/lake/store/open-store.js";
import type { Inspection } from "../../src/query/backend/inspect.js";
import { bindParameters } from "../../src/query/gate/parameters.js";
import { planSources } from "../../src/query/plan.js";
import { toServiceError } from "../../src/runtime/errors.js";
import { addPartition, type TestLake } from "../helpers/lake/lake.js";
import { createTestDatabase } from "../helpers/postgres/postgres.js";
import { ipcOf } from "../helpers/flight/flight-ipc.js";
import { startTestBackend, type TestBackend } from "../helpers/query/query-backend.js";
import { createRandomSql, type RandomStatement } from "../helpers/query/random-sql.js";

const statements = Number(process.env["ISOLATION_STATEMENTS"] ?? "2000");
const seed = Number(process.env["ISOLATION_SEED"] ?? String(Date.now() % 1_000_000));

/** Every row of an audience carries its word. */
const marks = { mine: "plainword", public: "openword", secret: "hushword", unstamped: "looseword" };
type Mark = keyof typeof marks;
const processes: Readonly<Record<Mark, string>> = {
  mine: "01234567-89ab-cdef-0123-456789abcdef",
  public: "11111111-89ab-cdef-0123-456789abcdef",
  secret: "fedcba98-7654-3210-fedc-ba9876543210",
  unstamped: "99999999-7654-3210-fedc-ba9876543210",
};
const allMarks = Object.keys(marks) as Mark[];

interface World {
  readonly sql: Awaited<ReturnType<typeof createTestDatabase>>["sql"];
  readonly store: ObjectStore;
  readonly lake: TestLake;
  readonly drop: () => Promise<void>;
}

/** A caller, and the world without anything that the caller may not read. */
interface Caller {
  readonly may: readonly Mark[];
  readonly filter: AudienceFilter;
  readonly bare: World;
}

const grants: readonly (readonly Mark[])[] = [
  ["mine", "public"],
  ["public", "unstamped"],
  ["mine"],
  [],
];

/** Runs without the hidden rows before an outcome counts as theirs. */
const repeats = 200;

let directory: string;
let full: World;
let callers: Caller[];
let t: TestBackend;
let paths: string[];

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

async function fill(world: World, name: Mark): Promise<string[]> {
  const audience = name === "unstamped" ? null : name;
  const mark = marks[name];
  const processId = processes[name];
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
  const stream = processId.replace(/^..../u, "aaaa");
  await world.sql`insert into processes (process_id, audience, service_name, host_name, properties)
    values (${processId}, ${audience}, ${`${mark} service`}, ${`${mark} host`}, ${world.sql.json({ a: mark })})`;
  await world.sql`insert into streams (stream_id, process_id, audience, signal, format)
    values (${stream}, ${processId}, ${audience}, 1, 'otlp')`;
  await world.sql`insert into blocks (block_id, stream_id, process_id, audience, signal, begin_time_ns, end_time_ns, row_count, payload_bytes)
    values (${processId}, ${stream}, ${processId}, ${audience}, 1, 1, 2, ${mark.length * 1000}, 5)`;
  return files.map(({ path: file }) => file);
}

/** A world with the rows of some audiences of `full`, the same to the byte, insertion times included. */
async function part(name: string, may: readonly Mark[]): Promise<World> {
  const world = await openWorld(name);
  const audiences = may.filter((mark) => mark !== "unstamped");
  for (const table of ["processes", "streams", "blocks", "lakehouse_partitions"]) {
    const rows = await full.sql`select to_jsonb(t) as row from ${full.sql(table)} t
      where audience = any(${audiences}) or (audience is null and ${may.includes("unstamped")})`;
    for (const { row } of rows) {
      await world.sql`insert into ${world.sql(table)}
        select * from jsonb_populate_record(null::${world.sql(table)}, ${world.sql.json(row as never)})`;
      const object = (row as { readonly path?: string }).path;
      if (object === undefined) continue;
      const target = path.join(world.lake.directory, object);
      await mkdir(path.dirname(target), { recursive: true });
      await cp(path.join(full.lake.directory, object), target);
    }
  }
  return world;
}

beforeAll(async () => {
  directory = await mkdtemp(path.join(tmpdir(), "telemetry-test-isolation-"));
  full = await openWorld("all");
  paths = [];
  for (const mark of allMarks) paths.push(...(await fill(full, mark)));
  callers = [];
  for (const [i, may] of grants.entries()) {
    const audiences = new Set(may.filter((mark) => mark !== "unstamped"));
    const filter = { kind: "some", audiences, unstamped: may.includes("unstamped") } as const;
    callers.push({ may, filter, bare: await part(`bare${i}`, may) });
  }
  t = await startTestBackend({ memoryBytes: 512 << 20, threads: 1 });
});

afterAll(async () => {
  await t.stop();
  for (const { drop } of [full, ...callers.map(({ bare }) => bare)]) await drop();
  await rm(directory, { recursive: true, force: true });
});

interface Answer {
  /** What may not differ: what was planned, and the rows as text, sorted, or the error with its words. */
  readonly outcome: string;
  /** Everything that reaches the caller. */
  readonly shown: string;
  readonly failed: boolean;
}

interface Question {
  readonly filter: AudienceFilter;
  readonly inspection: Inspection;
  /** `query-range-begin` in nanoseconds since the epoch. */
  readonly beginNs: bigint | null;
}

async function answer(world: World, { filter, inspection, beginNs }: Question): Promise<Answer> {
  try {
    const plan = await planSources(
      {
        sql: world.sql,
        store: world.store,
        audiences: filter,
        unstampedAudience: "public",
        range: { beginNs, endNs: null },
        admin: null,
      },
      inspection,
    );
    const parts: Uint8Array[] = [];
    const signal = AbortSignal.timeout(20_000);
    for await (const message of t.run(inspection.executable, plan.sources, { signal })) {
      parts.push(...ipcOf(message));
    }
    const table = tableFromIPC(parts);
    const rows = Array.from(table, (row) =>
      JSON.stringify(row, (_key, value: unknown) =>
        typeof value === "bigint" ? String(value) : value,
      ),
    );
    // EXPLAIN ANALYZE tells how long things took, padded to a width.
    const shown = [String(table.schema), ...rows.toSorted()]
      .join("\n")
      .replaceAll(/\d+\.\d+s/gu, "")
      .replaceAll(/ +/gu, " ");
    return { outcome: `${plan.partitions} ${shown}`, shown, failed: false };
  } catch (error) {
    const { code, publicMessage } = toServiceError(error);
    return { outcome: `${code} ${publicMessage}`, shown: publicMessage, failed: true };
  }
}

/**
 * Reads every file on every thread. DuckDB guesses how many rows a file has until it has read its footer, so
 * that plans would depend on what was asked before.
 */
async function warmUp(caller: Caller): Promise<void> {
  for (const column of [
    "max(msg) FROM log_entries",
    "max(unit) FROM measures",
    "max(name) FROM spans",
  ]) {
    const inspection = await t.inspect(`SELECT ${column}`);
    const question = { filter: caller.filter, inspection, beginNs: null };
    for (const world of [full, caller.bare]) {
      await Promise.all(Array.from({ length: 8 }, () => answer(world, question)));
    }
  }
}

/** The first lines in which two outcomes differ. */
function difference(inFull: string, inBare: string): string {
  // Plans of EXPLAIN are one value with lines of their own.
  const lines = (text: string): string[] => text.split(/\n|\\n/u);
  const without = lines(inBare);
  const at = lines(inFull).findIndex((line, i) => line !== without[i]);
  return `  with: ${lines(inFull)[at]}\n  without: ${without[at]}`;
}

/** Through the gate, with its parameters bound as a client binds them. */
async function inspected({ sql, values }: RandomStatement): Promise<Inspection> {
  if (values.length === 0) return t.inspect(sql);
  const { parameters } = await t.inspect(sql, { parameters: "declare" });
  const texts = values.map((text) => ({ type: "VARCHAR", text }));
  return t.inspect(sql, { parameters: bindParameters(parameters, texts) });
}

it(`shows nothing of other audiences in ${statements} random statements (seed ${seed})`, async () => {
  const next = createRandomSql({
    seed,
    words: [...Object.values(marks), "message 1", "secret", "mine", "a", ""],
    processIds: Object.values(processes),
    paths: [...paths, path.join(directory, "lake", "*", "**"), "/etc/passwd"],
  });
  for (const caller of callers) await warmUp(caller);
  const counts = { ran: 0, failed: 0, refused: 0, rowsSeen: 0, bound: 0 };
  const leaks: string[] = [];
  const check = async (n: number): Promise<void> => {
    const statement = next();
    const caller = callers[n % callers.length];
    if (caller === undefined) throw new Error("no callers");
    const label = `${caller.may.join("+")}: ${statement.sql} ${JSON.stringify(statement.values)}`;
    let inspection: Inspection;
    try {
      inspection = await inspected(statement);
    } catch (error) {
      counts.refused++;
      const { code, publicMessage } = toServiceError(error);
      if (code !== "BAD_REQUEST") leaks.push(`${code} ${publicMessage}: ${label}`);
      return;
    }
    if (statement.values.length > 0) counts.bound++;
    const beginNs = n % 7 === 0 ? 1_763_726_400_000_005_000n : null;
    const question = { filter: caller.filter, inspection, beginNs };
    const [inFull, inBare] = await Promise.all([
      answer(full, question),
      answer(caller.bare, question),
    ]);
    if (caller.may.some((mark) => inFull.shown.includes(marks[mark]))) counts.rowsSeen++;
    if (inFull.failed) counts.failed++;
    else counts.ran++;
    // A caller may say the word; then it comes back, but in both.
    const leaked = allMarks.some(
      (mark) =>
        !caller.may.includes(mark) &&
        inFull.shown.includes(marks[mark]) &&
        !inBare.shown.includes(marks[mark]),
    );
    if (!leaked && inFull.outcome === inBare.outcome) return;
    // Two parts of a statement may race for which of them fails first (one in thirty, seen), so that one
    // run of each says nothing: what counts is whether the one world ever says what the other never does.
    const saidBare = [inBare];
    for (let i = 0; i < repeats && !saidBare.some((a) => a.outcome === inFull.outcome); i++) {
      saidBare.push(await answer(caller.bare, question));
    }
    if (saidBare.some((a) => a.outcome === inFull.outcome)) return;
    const varies = saidBare.some((a) => a.outcome !== inBare.outcome);
    const wordLeaked =
      leaked &&
      !allMarks.every(
        (mark) =>
          caller.may.includes(mark) ||
          !inFull.shown.includes(marks[mark]) ||
          saidBare.some((a) => a.shown.includes(marks[mark])),
      );
    // Rows that differ from run to run by themselves say nothing either; a word does.
    if (varies && !wordLeaked) return;
    leaks.push(`${label}\n${difference(inFull.outcome, inBare.outcome)}`);
  };
  let started = 0;
  await Promise.all(
    Array.from({ length: 6 }, async () => {
      while (started < statements) await check(started++);
    }),
  );
  expect(leaks).toEqual([]);
  // The statements are worth something: many run, many see rows, many fail on a row, many are refused.
  expect(counts.ran).toBeGreaterThan(statements / 10);
  expect(counts.rowsSeen).toBeGreaterThan(statements / 50);
  expect(counts.failed).toBeGreaterThan(statements / 50);
  expect(counts.refused).toBeGreaterThan(statements / 20);
  expect(counts.bound).toBeGreaterThan(statements / 100);
}, 1_800_000);
