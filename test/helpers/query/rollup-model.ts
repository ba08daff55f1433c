/**
 * A lake of random logs, metrics and spans of several audiences, merged, erased, retired and kept for so long in between,
 * and random looks at it, by roll-ups where they are exact and by rows alone.
 */
import * as fc from "fast-check";
import { expect } from "vitest";

import type { AudienceFilter } from "../../../src/db/audience-filter.js";
import type { LakeFiles } from "../../../src/lake/cache/lake-files.js";
import { runTask } from "../../../src/lake/check/lake-tasks.js";
import { mergePartitions } from "../../../src/lake/merge/merge.js";
import { applyRetention } from "../../../src/lake/retention/retention.js";
import { retirePartitions } from "../../../src/lake/retire.js";
import { trim } from "../../../src/lake/rewrite/trim.js";
import type { ScanBounds } from "../../../src/query/backend/scan-bounds.js";
import { planSources } from "../../../src/query/plan.js";
import {
  attributesOfView,
  createFileViewSql,
  type FileView,
  fileViews,
  isOfProcesses,
} from "../../../src/query/sql/views.js";
import { sqlMacros } from "../../../src/query/sql/sql-macros.js";
import { exactTime } from "../../../src/query/sql/file-view.js";
import type { MergeLab } from "../lake/lake-merge.js";
import { type AgedPartition, askErasure, taskContext } from "../lake/lake-tasks.js";

/** Where it happens. */
interface RollupWorld {
  readonly lab: MergeLab;
  /** Of the lab's store. */
  readonly files: LakeFiles;
  /** An object as a file, whatever is read in its place. */
  readonly fileOf: (path: string) => string;
  readonly add: (partition: AgedPartition) => Promise<unknown>;
}

const tables = ["log_entries", "measures", "histograms", "spans"] as const;
const views = ["log_stats", "metric_series", "metric_catalogue", "service_latencies"] as const satisfies FileView[];
const audiences = ["alpha", "beta", null] as const;
/** Process, and its service. */
const processes = [
  ["11111111-1111-4111-8111-111111111111", "'shop'"],
  ["22222222-2222-4222-8222-222222222222", "'payment'"],
  ["33333333-3333-4333-8333-333333333333", "NULL"],
] as const;
const start = 1_763_726_400_000_000_000n;
const second = 1_000_000_000n;

interface Rows {
  readonly at: number;
  readonly every: number;
  readonly count: number;
  readonly process: number;
  /** Of the level, the target, the series. */
  readonly kind: number;
}
type Table = (typeof tables)[number];
type Step =
  | {
      readonly kind: "add";
      readonly table: Table;
      readonly audience: (typeof audiences)[number];
      /** When the first and the last of its rows were received. */
      readonly daysAgo: readonly [number, number];
      readonly rows: readonly Rows[];
    }
  | { readonly kind: "merge"; readonly table: Table; readonly width: number; readonly regenerate: boolean }
  | { readonly kind: "erase"; readonly audience: "alpha" | "beta"; readonly process: number; readonly from: number }
  | { readonly kind: "keep"; readonly days: number }
  | { readonly kind: "retire"; readonly table: Table; readonly from: number; readonly seconds: number };

const anyStep: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant("add" as const),
      table: fc.constantFrom(...tables),
      audience: fc.constantFrom(...audiences),
      daysAgo: fc.constantFrom<readonly [number, number]>([0, 0], [0, 0], [60, 0], [60, 40]),
      rows: fc.array(
        fc.record({
          at: fc.integer({ min: 0, max: 600 }),
          every: fc.constantFrom(0, 1, 1, 7),
          count: fc.integer({ min: 1, max: 40 }),
          process: fc.nat(2),
          kind: fc.nat(5),
        }),
        { minLength: 1, maxLength: 4 },
      ),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant("merge" as const),
      table: fc.constantFrom(...tables),
      width: fc.constantFrom(60, 300, 86_400),
      regenerate: fc.boolean(),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant("erase" as const),
      audience: fc.constantFrom("alpha", "beta"),
      process: fc.nat(2),
      from: fc.integer({ min: 0, max: 600 }),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant("keep" as const), days: fc.constantFrom(30, 50) }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant("retire" as const),
      table: fc.constantFrom(...tables),
      from: fc.integer({ min: 0, max: 600 }),
      seconds: fc.integer({ min: 1, max: 300 }),
    }),
  },
);

const anyLook = fc.record({
  view: fc.constantFrom(...views),
  readable: fc.option(fc.subarray([...audiences], { minLength: 1 })),
  begin: fc.option(fc.integer({ min: 0, max: 700 })),
  end: fc.option(fc.integer({ min: 0, max: 1000 })),
  /** The range is the session's, else a condition of the query on `time`. */
  ofSession: fc.boolean(),
  process: fc.option(fc.nat(2), { freq: 3 }),
});
type Look = typeof anyLook extends fc.Arbitrary<infer T> ? T : never;

/** One view of each kind, whole. */
const everything = (["log_stats", "metric_series", "service_latencies"] as const).map((view): Look => ({
  view,
  readable: null,
  begin: null,
  end: null,
  ofSession: false,
  process: null,
}));

const nsOf = (seconds: number): bigint => start + BigInt(seconds) * second;

/** So that each span has a number of its own. */
let spansMade = 0;

const spanIdSql = (number: string): string => `format('{:016x}', ${number})`;

/** Spans of one trace. The parent of most came before them, here or in another object, or is gone. */
function spansSql(count: number): string {
  const number = `(${spansMade} + i)`;
  spansMade += count;
  return `'00000000000000000000000000000001' AS trace_id, ${spanIdSql(number)} AS span_id,
    CASE WHEN i % 7 > 0 THEN ${spanIdSql(`greatest(0, ${number} - 1 - ${number} * 7 % 53)`)} END AS parent_span_id,
    CAST(1 + ${number} % 5 AS INTEGER) AS kind, CAST(${number} % 3 AS INTEGER) AS status_code,
    ${number} * 1000 AS duration_ns, CASE ${number} % 6 WHEN 0 THEN '{"db.system":"postgresql"}'
      WHEN 1 THEN '{"messaging.system":"kafka"}' WHEN 2 THEN '{"server.address":"mail","k":1}'
      WHEN 3 THEN '{"http.url":"http://pay:80/"}' ELSE '{}' END AS properties`;
}

function rowsSql(table: Table, rows: readonly Rows[], [first, last]: readonly [number, number], nowMs: number): string {
  const received = [first, last].map((days) => BigInt(nowMs - days * 86_400_000) * 1_000_000n);
  const selects = rows.map(({ at, every, count, process, kind }) => {
    const [id = "", service = "NULL"] = processes[process] ?? [];
    const common = `make_timestamp_ns(${nsOf(at)} + i * ${BigInt(table === "spans" ? every * 60 : every) * second} + ${kind}) AS time, '${id}' AS process_id,
      make_timestamp_ns(CASE WHEN i % 2 = 0 THEN ${received[0]} ELSE ${received[1]} END) AS insert_time,
      CAST(${service} AS VARCHAR) AS service_name, 'scope ' || ${kind % 2} AS target, 'host of ${id}' AS host_name`;
    const own =
      table === "log_entries"
        ? `CAST(nullif(${kind}, 0) AS INTEGER) AS level`
        : table === "spans"
          ? spansSql(count)
          : `'metric ' || ${kind % 3} AS name, CAST(nullif('unit ' || ${kind % 2}, 'unit 0') AS VARCHAR) AS unit,
           'says ' || (i % 2) AS description, 'cumulative' AS temporality,
           '${table === "measures" ? "sum" : "histogram"}' AS metric_type, '{"k":"' || ${kind} || '"}' AS properties,
           ${process === 0 ? "'one'" : "CAST(NULL AS VARCHAR)"} AS service_instance_id,
           '{"container":"' || ${process === 0 ? 0 : "i % 2"} || '"}' AS process_properties
           ${table === "measures" ? ", i % 3 = 0 AS is_monotonic" : ""}`;
    return `SELECT ${common}, ${own} FROM range(${count}) t(i)`;
  });
  return selects.join(" UNION ALL ");
}

function filterOf(readable: Look["readable"]): AudienceFilter {
  return readable === null
    ? { kind: "all" }
    : {
        kind: "some",
        audiences: new Set(readable.filter((name) => name !== null)),
        unstamped: readable.includes(null),
      };
}

async function change({ lab, add }: RollupWorld, step: Step): Promise<void> {
  if (step.kind === "add") {
    const { table, audience, daysAgo } = step;
    const nowMs = Date.now();
    await add({ table, audience, daysAgo, nowMs, rowsSql: rowsSql(table, step.rows, daysAgo, nowMs) });
  } else if (step.kind === "merge") {
    await mergePartitions(lab.context, {
      viewSet: step.table,
      audiences: { kind: "all" },
      beginNs: -(2n ** 62n),
      endNs: 2n ** 62n,
      widthSeconds: step.width,
      regenerate: step.regenerate,
    });
  } else if (step.kind === "erase") {
    const taskId = await askErasure(lab, {
      audience: step.audience,
      where: { process: processes[step.process]?.[0] ?? "" },
      begin_ns: String(nsOf(step.from)),
      end_ns: null,
    });
    await runTask(taskContext(lab), taskId);
  } else if (step.kind === "keep") {
    const policy = { defaultDays: step.days, unstampedAudience: "public", overrides: [] };
    await applyRetention({ sql: lab.sql, policy, cancelled: () => false });
    await trim(lab.context, policy);
  } else {
    const beginNs = nsOf(step.from);
    const endNs = nsOf(step.from + step.seconds);
    const range = { kind: "range", viewSet: step.table, processId: null, beginNs, endNs } as const;
    await retirePartitions(lab.sql, { kind: "all" }, range);
  }
}

/** What a caller sees, by roll-ups where they are exact, and by rows alone; and how many roll-ups were read. */
async function seen({ lab, files, fileOf }: RollupWorld, look: Look) {
  const { view, readable, begin, end, ofSession, process } = look;
  const beginNs = begin === null ? null : nsOf(begin);
  const endNs = end === null ? null : nsOf(end);
  const bounded = !ofSession && (view === "log_stats" || view === "service_latencies");
  // As the gate widens it: rows of the minute's rest count, and the other ends of calls.
  const { slackBeforeNs, slackAfterNs } = fileViews[view].time ?? exactTime;
  const scan: ScanBounds = {
    name: process === null ? view : "svc_instance",
    view,
    processId: process === null || !isOfProcesses(view) ? null : (processes[process]?.[0] ?? null),
    ofTrace: null,
    traceIds: null,
    minTimeNs: bounded && beginNs !== null ? beginNs - slackBeforeNs : null,
    maxTimeNs: bounded && endNs !== null ? endNs + slackAfterNs : null,
    attributes: attributesOfView(view),
    comparedWithNs: null,
    columns: null,
  };
  const context = {
    sql: lab.sql,
    files,
    audiences: filterOf(readable),
    unstampedAudience: "public",
    range: ofSession ? { beginNs, endNs } : { beginNs: null, endNs: null },
    admin: null,
  };
  const plan = await planSources(context, {
    executable: { explain: "none", sql: "" },
    fields: [],
    scans: [scan],
    listings: [],
    calls: [],
    fingerprint: "",
    rowsEnough: null,
    parameters: [],
  });
  const held = await files.hold(plan.objects, new AbortController().signal);
  const answers: unknown[] = [];
  for (const sources of [plan.sources(held), plan.sources({ fileOf: ({ path }) => fileOf(path) }, false)]) {
    const [source] = sources.files;
    await lab.duck(createFileViewSql("seen", view, source?.sources ?? []));
    const within = [
      ...(bounded && beginNs !== null ? [`time >= make_timestamp_ns(${beginNs})`] : []),
      ...(bounded && endNs !== null ? [`time <= make_timestamp_ns(${endNs})`] : []),
    ];
    const condition = within.length === 0 ? "" : ` WHERE ${within.join(" AND ")}`;
    answers.push(await lab.duck(`SELECT * FROM seen${condition} ORDER BY ALL`));
    await lab.duck("DROP VIEW seen");
  }
  held.release(false);
  const rollups = plan.objects.filter(({ path }) => path.includes(".rollup")).length;
  return { byRollups: answers[0], byRows: answers[1], rollups, rest: plan.objects.length - rollups };
}

/** Roll-ups of the store that neither a partition nor the list of what is to be removed names. */
async function forgotten({ lab }: RollupWorld): Promise<string[]> {
  const named = await lab.sql<{ path: string }[]>`
    select rollup_path as path from lakehouse_partitions union all select path from retired_objects`;
  const known = new Set(named.map(({ path }) => path));
  const found: string[] = [];
  for await (const { path } of lab.context.store.list("")) {
    if (path.includes(".rollup") && !known.has(path)) {
      found.push(path);
    }
  }
  return found;
}

/** Each table has something to sum up. */
const begun = tables.flatMap((table): Step[] => {
  const added = (["alpha", "beta"] as const).map((audience, process): Step => {
    const rows = [{ at: 0, every: 1, count: 40, process, kind: 1 }];
    return { kind: "add", table, audience, daysAgo: [0, 0], rows };
  });
  return [...added, { kind: "merge", table, width: 86_400, regenerate: true }];
});

/** What was looked at in all looks together. */
interface RollupUse {
  rollups: number;
  /** Looks that read roll-ups and objects together. */
  together: number;
}

/** Whatever was merged, erased, retired and past, and however a range cuts: roll-ups say what the rows say. */
export async function expectNumbersOfRows(world: RollupWorld, numRuns: number): Promise<RollupUse> {
  const used: RollupUse = { rollups: 0, together: 0 };
  for (const macro of sqlMacros) {
    await world.lab.duck(`CREATE OR REPLACE MACRO ${macro}`);
  }
  await fc.assert(
    fc.asyncProperty(
      fc.array(anyStep, { minLength: 4, maxLength: 12 }),
      fc.array(anyLook, { minLength: 8, maxLength: 8 }),
      async (steps, looks) => {
        await world.lab.sql`delete from lakehouse_partitions`;
        spansMade = 0;
        for (const step of [...begun, ...steps]) {
          await change(world, step);
        }
        for (const look of [...everything, ...looks]) {
          const { byRollups, byRows, rollups, rest } = await seen(world, look);
          used.rollups += rollups;
          used.together += rollups > 0 && rest > 0 ? 1 : 0;
          expect(byRollups).toEqual(byRows);
        }
        expect(await forgotten(world)).toEqual([]);
      },
    ),
    { numRuns },
  );
  return used;
}
