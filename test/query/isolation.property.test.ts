/**
 * Lakes that a caller should not be able to tell apart: one holds everything, the other only what the caller
 * may read. Random statements of callers with different grants run over both; rows, columns, errors and what
 * the planner counts must be the same, and no word of a hidden row may come out. `pnpm test:long` runs
 * 10,000 of them.
 */
import { randomUUID } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";

import { tableFromIPC } from "apache-arrow";
import { afterAll, beforeAll, expect, it } from "vitest";

import type { AudienceFilter } from "../../src/db/audience-filter.js";
import type { Inspection } from "../../src/query/backend/inspect.js";
import { bindParameters } from "../../src/query/gate/parameters.js";
import { engineDefect } from "../../src/query/backend/scrub.js";
import { planSources } from "../../src/query/plan.js";
import { viewNamesFor } from "../../src/query/sql/views.js";
import { toServiceError } from "../../src/runtime/errors.js";
import { effort } from "../helpers/effort.js";
import { ipcOf } from "../helpers/flight/flight-ipc.js";
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
import { createRandomSql, type RandomStatement } from "../helpers/query/random-sql.js";

const statements = effort(30, 10_000);
const seed = Number(process.env["ISOLATION_SEED"] ?? String(Date.now() % 1_000_000));

/** A world, and an engine that nobody else asks about it: its instance stays open. */
interface Side {
  readonly world: World;
  readonly engine: TestBackend;
}

/** A caller, everything, and the world without anything that the caller may not read. */
interface Caller {
  readonly may: readonly Mark[];
  readonly filter: AudienceFilter;
  readonly full: Side;
  readonly bare: Side;
}

/** Runs without the hidden rows before an outcome counts as theirs. */
const repeats = 200;

/** Worlds without them, in directories of other names, that are asked as well. */
const copies = 24;

let directory: string;
let full: World;
let callers: Caller[];
let planner: TestBackend;
let paths: string[];

async function side(world: World): Promise<Side> {
  return { world, engine: await startTestBackend({ ...sizes, engines: 1 }) };
}

const sizes = { memoryBytes: 512 << 20, threads: 1 };

beforeAll(async () => {
  directory = await mkdtemp(path.join(tmpdir(), "telemetry-test-isolation-"));
  full = await openWorld(directory, "all");
  paths = [];
  for (const mark of allMarks) {
    paths.push(...(await fill(full, mark)));
  }
  callers = [];
  for (const [i, may] of grants.entries()) {
    const bare = await part(full, directory, `bare${i}`, may);
    const sides = { full: await side(full), bare: await side(bare) };
    callers.push({ may, filter: filterOf(may), ...sides });
  }
  planner = await startTestBackend({ ...sizes, engines: 2, spares: 2 });
});

afterAll(async () => {
  await planner.stop();
  for (const caller of callers) {
    await caller.full.engine.stop();
    await caller.bare.engine.stop();
    await caller.bare.world.drop();
  }
  await full.drop();
  await rm(directory, { recursive: true, force: true });
});

interface Answer {
  /** What may not differ: what was planned, and the rows as text, sorted, or the error with its words. */
  readonly outcome: string;
  /** Everything that reaches the caller. */
  readonly shown: string;
  readonly failed: boolean;
  /** Whether it took longer than it was given. */
  readonly isLate: boolean;
}

interface Question {
  readonly filter: AudienceFilter;
  readonly inspection: Inspection;
  /** `query-range-begin` in nanoseconds since the epoch. */
  readonly beginNs: bigint | null;
}

/**
 * The parts of a plan in an order of their own, without the numbers that DuckDB gives to common subplans: words of drawn
 * boxes, lines of an analyzed plan; row counts are in both. DuckDB orders and numbers independent subplans (two windows
 * over one table, all views in one statement: seen) by addresses in memory and by names of files: eight copies of one
 * world in directories of other names gave two orders of the same lines.
 */
function sortedPlan(shown: string): string {
  const unnumbered = shown
    .replaceAll(/(?<=│ ?)\d{3,}(?= ?[│├])/gu, "#")
    .replaceAll(/(?<=(?:CTE|Table) Index: ?)\d+/gu, "#")
    .replaceAll(/(?<=lan_)\d+/gu, "#");
  const ends = shown.includes("──") ? /(?:[\s│─┌┐└┘├┤┬┴┼]|\\n)+/u : /\n|\\n/u;
  return unnumbered.split(ends).toSorted().join("\n");
}

/** What most answers need a hundredth of, and what one may take that waited for another, or on a busy machine. */
const patienceMs = { first: 20_000, again: 200_000 };

async function answer(
  { world, engine }: Side,
  { filter, inspection, beginNs }: Question,
  waitMs = patienceMs.first,
): Promise<Answer> {
  try {
    const plan = await planSources(
      {
        sql: world.sql,
        files: world.files,
        audiences: filter,
        unstampedAudience: "public",
        range: { beginNs, endNs: null },
        admin: null,
      },
      inspection,
    );
    const parts: Uint8Array[] = [];
    const signal = AbortSignal.timeout(waitMs);
    const sources = plan.sources(await world.files.hold(plan.objects, signal));
    for await (const message of engine.run(inspection.executable, sources, { signal })) {
      parts.push(...ipcOf(message));
    }
    const table = tableFromIPC(parts);
    const rows = Array.from(table, (row) =>
      JSON.stringify(row, (_key, value: unknown) => (typeof value === "bigint" ? String(value) : value)),
    );
    // EXPLAIN ANALYZE tells how long things took, padded to a width.
    const shown = [String(table.schema), ...rows.toSorted()]
      .join("\n")
      .replaceAll(/\d+\.\d+s/gu, "")
      .replaceAll(/ +/gu, " ");
    return {
      outcome: `${plan.objects.length} ${/──|Total Time:/u.test(shown) ? sortedPlan(shown) : shown}`,
      shown,
      failed: false,
      isLate: false,
    };
  } catch (error) {
    const { code, publicMessage } = toServiceError(error);
    return {
      outcome: `${code} ${publicMessage}`,
      shown: publicMessage,
      failed: true,
      isLate: code === "CANCELLED",
    };
  }
}

/** Of both worlds. Where one alone is late, which happens to any statement, it is given more time. */
async function answers({ full: whole, bare }: Caller, question: Question): Promise<[Answer, Answer]> {
  const [inFull, inBare] = await Promise.all([answer(whole, question), answer(bare, question)]);
  if (inFull.isLate === inBare.isLate) {
    return [inFull, inBare];
  }
  return inFull.isLate
    ? [await answer(whole, question, patienceMs.again), inBare]
    : [inFull, await answer(bare, question, patienceMs.again)];
}

/**
 * Reads every file on every thread. DuckDB guesses how many rows a file has until it has read its footer, so
 * that plans would depend on what was asked before.
 */
async function warmUp(caller: Caller): Promise<void> {
  for (const column of [
    "max(msg) FROM log_entries",
    "max(unit) FROM measures",
    "max(unit) FROM histograms",
    "max(name) FROM spans",
  ]) {
    const inspection = await planner.inspect(`SELECT ${column}`);
    const question = { filter: caller.filter, inspection, beginNs: null };
    for (const one of [caller.full, caller.bare]) {
      await Promise.all(Array.from({ length: 8 }, () => answer(one, question)));
    }
  }
}

/**
 * Whether a world without the hidden rows says the same once its directory has another name: of two parts of a statement
 * that fail, DuckDB meets the one or the other first by the names of its files (three copies of twelve, seen, the same in
 * every run of each).
 */
async function saidUnderAnotherName(caller: Caller, question: Question, outcome: string): Promise<boolean> {
  for (let i = 0; i < copies; i++) {
    const world = await part(full, directory, `copy-${randomUUID()}`, caller.may);
    const renamed = { ...caller, bare: await side(world) };
    try {
      await warmUp(renamed);
      if ((await answer(renamed.bare, question)).outcome === outcome) {
        return true;
      }
    } finally {
      await renamed.bare.engine.stop();
      await world.drop();
    }
  }
  return false;
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
  if (values.length === 0) {
    return planner.inspect(sql);
  }
  const { parameters } = await planner.inspect(sql, { parameters: "declare" });
  const texts = values.map((text) => ({ type: "VARCHAR", text }));
  return planner.inspect(sql, { parameters: bindParameters(parameters, texts) });
}

it("plans a statement over all views alike with and without what a caller may not read", async () => {
  const columns = viewNamesFor(false).map((view) => `(SELECT count(*) FROM ${view}) AS ${view}`);
  const inspection = await planner.inspect(
    `EXPLAIN SELECT count(DISTINCT streams) FROM (SELECT ${columns.join(", ")})`,
  );
  for (const caller of callers) {
    await warmUp(caller);
    const question = { filter: caller.filter, inspection, beginNs: null };
    const inFull = await answer(caller.full, question);
    expect(inFull.failed).toBe(false);
    expect(inFull.outcome).toBe((await answer(caller.bare, question)).outcome);
  }
}, 300_000);

it(`shows nothing of other audiences in ${statements} random statements (seed ${seed})`, async () => {
  const next = createRandomSql({
    seed,
    words: [...Object.values(marks), "message 1", "secret", "mine", "a", ""],
    processIds: Object.values(processes),
    trace: sharedTrace,
    paths: [...paths, path.join(directory, "lake", "*", "**"), "/etc/passwd"],
  });
  for (const caller of callers) {
    await warmUp(caller);
  }
  const counts = { ran: 0, failed: 0, refused: 0, rowsSeen: 0, bound: 0, defects: 0 };
  const leaks: string[] = [];
  const check = async (n: number): Promise<void> => {
    const statement = next();
    const caller = callers[n % callers.length];
    if (caller === undefined) {
      throw new Error("no callers");
    }
    const label = `${caller.may.join("+")}: ${statement.sql} ${JSON.stringify(statement.values)}`;
    let inspection: Inspection;
    try {
      inspection = await inspected(statement);
    } catch (error) {
      const { code, publicMessage } = toServiceError(error);
      if (publicMessage === engineDefect) {
        counts.defects++;
      } else {
        counts.refused++;
      }
      if (code !== "BAD_REQUEST" && publicMessage !== engineDefect) {
        leaks.push(`${code} ${publicMessage}: ${label}`);
      }
      return;
    }
    if (statement.values.length > 0) {
      counts.bound++;
    }
    const beginNs = n % 7 === 0 ? 1_763_726_400_000_005_000n : null;
    const question = { filter: caller.filter, inspection, beginNs };
    const [inFull, inBare] = await answers(caller, question);
    if (caller.may.some((mark) => inFull.shown.includes(marks[mark]))) {
      counts.rowsSeen++;
    }
    if (inFull.shown === engineDefect) {
      counts.defects++;
    } else if (inFull.failed) {
      counts.failed++;
    } else {
      counts.ran++;
    }
    // A caller may say the word; then it comes back, but in both.
    const leaked = allMarks.some(
      (mark) => !caller.may.includes(mark) && inFull.shown.includes(marks[mark]) && !inBare.shown.includes(marks[mark]),
    );
    if (!leaked && inFull.outcome === inBare.outcome) {
      return;
    }
    // Two parts of a statement may race for which of them fails first (one in thirty, seen), so that one
    // run of each says nothing: what counts is whether the one world ever says what the other never does.
    const saidBare = [inBare];
    for (let i = 0; i < repeats && !saidBare.some((a) => a.outcome === inFull.outcome); i++) {
      saidBare.push(await answer(caller.bare, question));
    }
    if (saidBare.some((a) => a.outcome === inFull.outcome)) {
      return;
    }
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
    if (varies && !wordLeaked) {
      return;
    }
    if (!(await saidUnderAnotherName(caller, question, inFull.outcome))) {
      leaks.push(`${label}\n${difference(inFull.outcome, inBare.outcome)}`);
    }
  };
  let started = 0;
  await Promise.all(
    Array.from({ length: 6 }, async () => {
      while (started < statements) {
        await check(started++);
      }
    }),
  );
  expect(leaks).toEqual([]);
  // The statements are worth something: many run, many see rows, many fail on a row, many are refused.
  const enough = effort(0, statements);
  expect(counts.ran).toBeGreaterThan(statements / 10);
  expect(counts.rowsSeen).toBeGreaterThanOrEqual(enough / 50);
  expect(counts.failed).toBeGreaterThanOrEqual(enough / 50);
  expect(counts.refused).toBeGreaterThanOrEqual(enough / 20);
  expect(counts.bound).toBeGreaterThanOrEqual(enough / 100);
  // What DuckDB cannot do because of a defect of its own is told as that, in both worlds, and is rare.
  expect(counts.defects).toBeLessThanOrEqual(3 + statements / 100);
}, 1_800_000);
