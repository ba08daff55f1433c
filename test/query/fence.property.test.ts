/**
 * The fence around files by itself: random statements run straight in engines whose instances may open the directories
 * of a caller's audiences, with no gate before them. They name the files of others in every way, read, write, attach,
 * install, load and set. Each runs twice, beside the files of others and where there are none: what comes out is the
 * same, no word of a hidden row and no name of a hidden file is in it, and outside of the caller's directories nothing
 * is written. `pnpm test:long` runs 10,000 of them.
 */
import { cp, mkdir, mkdtemp, readdir, rm, stat, utimes } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";

import { tableFromIPC } from "apache-arrow";
import { afterAll, beforeAll, expect, it } from "vitest";

import type { EngineLease } from "../../src/engine/supervisor.js";
import type { EngineStep } from "../../src/engine/protocol.js";
import { effort } from "../helpers/effort.js";
import { ipcOf } from "../helpers/flight/flight-ipc.js";
import { localFiles } from "../../src/lake/cache/lake-files.js";
import { openObjectStore } from "../../src/lake/store/open-store.js";
import { lakeInstance } from "../../src/query/backend/engine-instances.js";
import { stepsOf } from "../../src/query/backend/run.js";
import { noRange, planSources } from "../../src/query/plan.js";
import {
  allMarks,
  fill,
  filterOf,
  grants,
  type Mark,
  marks,
  openWorld,
  part,
  processes,
  sharedTrace,
  type World,
} from "../helpers/query/isolation-worlds.js";
import { startTestBackend, type TestBackend } from "../helpers/query/query-backend.js";
import { createRandomFileSql } from "../helpers/query/random-file-sql.js";
import { createRandomSql } from "../helpers/query/random-sql.js";

const statements = effort(30, 10_000);
const seed = Number(process.env["ISOLATION_SEED"] ?? String(Date.now() % 1_000_000));

const views = ["log_entries", "measures", "spans", "span_events", "log_stats", "processes"];
const jobMs = 5000;

/** A lake of its own, and what makes the views of a caller's files in it. */
interface Side {
  readonly root: string;
  readonly directories: readonly string[];
  readonly sources: readonly EngineStep[];
  lease: EngineLease | null;
}

interface Caller {
  readonly may: readonly Mark[];
  /** Objects that the caller may not open, relative to the lake. */
  readonly hidden: readonly string[];
  readonly own: readonly string[];
  /** Everything, and the same without what is hidden. Their paths are equally long. */
  readonly full: Side;
  readonly bare: Side;
  /** As `bare`: a statement that tells these two apart tells of names and processes, not of what is hidden. */
  readonly twin: Side;
}

let directory: string;
let t: TestBackend;
let full: World;
let callers: Caller[];

beforeAll(async () => {
  directory = await mkdtemp(path.join(tmpdir(), "telemetry-test-fence-"));
  full = await openWorld(directory, "all");
  const objects = new Map<Mark, string[]>();
  for (const mark of allMarks) {
    const files = await fill(full, mark);
    objects.set(
      mark,
      files.map((file) => path.relative(full.lake.directory, file)),
    );
  }
  t = await startTestBackend({ engines: 3 * grants.length, memoryBytes: 256 << 20, threads: 1 });
  callers = [];
  for (const [i, may] of grants.entries()) {
    const relative = (mark: Mark): string[] => objects.get(mark) ?? [];
    const bare = await part(full, directory, `part${i}`, may);
    await bare.drop();
    callers.push({
      may,
      own: may.flatMap(relative),
      hidden: allMarks.filter((mark) => !may.includes(mark)).flatMap(relative),
      full: await sideOf(may, full.lake.directory, path.join(directory, `q${i}`)),
      bare: await sideOf(may, bare.lake.directory, path.join(directory, `z${i}`)),
      twin: await sideOf(may, bare.lake.directory, path.join(directory, `j${i}`)),
    });
  }
});

afterAll(async () => {
  await t.stop();
  await full.drop();
  await rm(directory, { recursive: true, force: true });
});

async function sideOf(may: readonly Mark[], lake: string, root: string): Promise<Side> {
  await mkdir(lake, { recursive: true });
  await cp(lake, root, { recursive: true });
  // A file's time is part of what can be read about it.
  const longAgo = new Date("2026-01-01");
  for (const name of await readdir(root, { recursive: true })) {
    await utimes(path.join(root, name), longAgo, longAgo);
  }
  // With all columns: the random statements name any of them.
  const counts = views.map((view) => `(SELECT count(*) FROM (SELECT * FROM ${view}))`);
  const inspection = await t.inspect(`SELECT ${counts.join(", ")}`);
  const files = localFiles(await openObjectStore(`file://${root}`));
  const context = {
    sql: full.sql,
    files,
    audiences: filterOf(may),
    unstampedAudience: "public",
    range: noRange,
    admin: null,
  };
  const plan = await planSources(context, inspection);
  const sources = plan.sources(await files.hold(plan.objects, new AbortController().signal));
  const unlimited = { maxResultRows: 0, maxResultBytes: 0 };
  return {
    root,
    directories: sources.directories,
    // As views, which statements of any form read.
    sources: stepsOf({ sql: "VALUES (1)", explain: "none" }, sources, unlimited).steps.slice(0, -1),
    lease: null,
  };
}

interface Answer {
  /** What may not differ: rows as text, sorted, and errors. */
  readonly outcome: string;
  /** Every byte that came out. */
  readonly bytes: string;
}

/** What an engine says to statements that run one after another, whatever becomes of each. */
async function answer(side: Side, sql: readonly string[]): Promise<Answer> {
  const instance = lakeInstance(side.directories);
  const never = new AbortController().signal;
  const lease = (side.lease ??= await t.engines.lease(instance, never));
  const messages: Uint8Array[] = [];
  const first = sql.slice(0, -1).map((one): EngineStep => ({
    kind: "rows",
    sql: one,
    maxBytes: 1 << 20,
    optional: true,
  }));
  const last = sql.at(-1) ?? "";
  // Rows of some leave on the other way.
  const inPlace = /^SELECT\b/iu.test(last) && last.length % 2 === 0;
  const running = lease.run(
    instance,
    [...side.sources, ...first, { kind: "stream", sql: last, inPlace, messageBytes: 1 << 20, maxRows: 10_000 }],
    {
      signal: AbortSignal.timeout(jobMs),
      onData: (message, done) => {
        messages.push(message.slice());
        done();
      },
    },
  );
  const ended = await running;
  if (ended.kind === "lost") {
    lease.release();
    side.lease = null;
    return { outcome: `lost: ${ended.by}`, bytes: "" };
  }
  const told = [JSON.stringify(ended.results), ended.end.error ?? ""];
  return {
    // The two lakes lie in directories whose names differ in one letter, which names may resemble, and
    // the engines are two processes. EXPLAIN ANALYZE tells how long things took, padded to a width.
    outcome: [...rowsOf(messages), ...told]
      .join("\n")
      .replaceAll(/Did you mean.*/gu, "")
      .replaceAll(/\/proc\/\d+\//gu, "/proc/self/")
      .replaceAll(/[jqz]/giu, "")
      .replaceAll(/\d+\.\d+s/gu, "")
      .replaceAll(/ +/gu, " "),
    bytes: [...messages.map((message) => Buffer.from(message).toString("latin1")), ...told].join("\n"),
  };
}

function rowsOf(messages: readonly Uint8Array[]): string[] {
  if (messages.length === 0) {
    return [];
  }
  const table = tableFromIPC(messages.flatMap(ipcOf));
  const rows = Array.from(table, (row) =>
    JSON.stringify(row, (_key, value: unknown) => (typeof value === "bigint" ? String(value) : value)),
  );
  return [String(table.schema), ...rows.toSorted()];
}

/** Runs of each that differ before it counts: of several rows that make a statement fail, any may be the first. */
const repeats = 20;

/** Whether two sides say the same of a statement about `full`, at least now and then. */
async function agree(caller: Caller, sides: readonly [Side, Side], sql: readonly string[]): Promise<boolean> {
  const said = [new Set<string>(), new Set<string>()] as const;
  for (let i = 0; i <= repeats; i++) {
    for (const [k, side] of sides.entries()) {
      const there = sql.map((one) => one.replaceAll(caller.full.root, side.root));
      said[k]?.add((await answer(side, there)).outcome);
    }
    if ([...said[0]].some((outcome) => said[1].has(outcome))) {
      return true;
    }
  }
  return false;
}

/** Files below a directory with their sizes and times, but those below some directories. */
async function filesIn(root: string, but: readonly string[]): Promise<string[]> {
  const names = await readdir(root, { recursive: true });
  const found = names
    .map((name) => path.join(root, name))
    .filter((file) => !but.some((own) => file === own || file.startsWith(`${own}/`)));
  const described = found.map(async (file) => {
    const { size, mtimeMs } = await stat(file);
    return `${file} ${size} ${mtimeMs}`;
  });
  return (await Promise.all(described)).toSorted();
}

/** Statements for one caller; every second one names files. */
function statementsOf({ own, hidden, full: { root } }: Caller, of: number): () => string[] {
  const absolute = (file: string): string => path.join(root, file);
  const files = createRandomFileSql({
    seed: seed + of,
    own: (own.length > 0 ? own : ["none/none.parquet"]).map(absolute).map((file) => ({
      file,
      directory: path.dirname(file),
    })),
    hidden: hidden.map(absolute),
    root,
    outside: path.join(directory, "outside"),
  });
  const queries = createRandomSql({
    seed: seed + of,
    words: ["message 1", "secret", "mine", "a", ""],
    processIds: Object.values(processes),
    trace: sharedTrace,
    paths: [...hidden, ...own].map(absolute),
  });
  let n = 0;
  // The gate takes the catalog off names.
  const query = (): string => queries().sql.replaceAll("telemetry.", "");
  return () => (n++ % 2 === 0 ? [files(), files()] : [query()]);
}

it(`keeps every word of others in ${statements} random statements without a gate (seed ${seed})`, async () => {
  const outside = path.join(directory, "outside");
  await mkdir(outside);
  const counts = { denied: 0, rows: 0, lost: 0, names: 0 };
  const leaks: string[] = [];
  const before = new Map<Caller, string[]>();
  for (const caller of callers) {
    before.set(caller, await filesIn(caller.full.root, caller.full.directories));
  }
  await Promise.all(
    callers.map(async (caller, of) => {
      const next = statementsOf(caller, of);
      const hiddenWords = [
        ...allMarks.filter((mark) => !caller.may.includes(mark)).map((mark) => marks[mark]),
        ...caller.hidden.map((file) => path.basename(file)),
      ];
      for (let n = of; n < statements; n += callers.length) {
        const sql = next();
        const there = sql.map((one) => one.replaceAll(caller.full.root, caller.bare.root));
        const [inFull, inBare] = await Promise.all([answer(caller.full, sql), answer(caller.bare, there)]);
        const text = `${caller.may.join("+")}: ${sql.join("; ")}`;
        if (inFull.bytes.includes("Permission Error")) {
          counts.denied++;
        }
        if (caller.may.some((mark) => inFull.bytes.includes(marks[mark]))) {
          counts.rows++;
        }
        if (inFull.outcome.startsWith("lost")) {
          counts.lost++;
        }
        const word = hiddenWords.find((one) => inFull.bytes.includes(one) && !text.includes(one));
        if (word !== undefined) {
          leaks.push(`${text}\n  says ${word}`);
        }
        const { full: fullSide, bare, twin } = caller;
        if (inFull.outcome === inBare.outcome || (await agree(caller, [fullSide, bare], sql))) {
          continue;
        }
        if (await agree(caller, [bare, twin], sql)) {
          leaks.push(`${text}\n${difference(inFull.outcome, inBare.outcome)}`);
        } else {
          counts.names++;
        }
      }
    }),
  );
  expect(leaks).toEqual([]);
  for (const caller of callers) {
    const { root, directories } = caller.full;
    expect(await filesIn(root, directories)).toEqual(before.get(caller));
  }
  expect(await readdir(outside)).toEqual([]);
  // The statements are worth something: many reach for what they may not open, some see rows, and few end
  // an engine (DuckDB cannot go on when it cannot write a log that it was told to).
  expect(counts.denied).toBeGreaterThan(statements / 10);
  expect(counts.rows).toBeGreaterThanOrEqual(effort(0, statements) / 250);
  expect(counts.lost).toBeLessThan(3 + statements / 25);
  // Hashes of paths, and DuckDB's catalog, which numbers what a process has made.
  expect(counts.names).toBeLessThan(3 + statements / 1000);
}, 1_800_000);

/** The first lines in which two answers differ. */
function difference(inFull: string, inBare: string): string {
  const without = inBare.split("\n");
  const lines = inFull.split("\n");
  const at = lines.findIndex((line, i) => line !== without[i]);
  return `  with: ${lines[at]?.slice(0, 1000)}\n  without: ${without[at]?.slice(0, 1000)}`;
}
