/**
 * Random objects of several audiences, then random merges and retirements: whatever was done, the rows
 * of each audience are those that were added and not retired, each once.
 */
import path from "node:path";

import * as fc from "fast-check";
import { afterAll, beforeAll, expect, it } from "vitest";

import type { AudienceFilter } from "../../src/db/audience-filter.js";
import { columnsOfTable } from "../../src/lake/tables/duckdb-types.js";
import { mergePartitions } from "../../src/lake/merge/merge.js";
import { levelOfWidth } from "../../src/lake/merge/merge-plan.js";
import { retirePartitions } from "../../src/lake/retire.js";
import { quoteName } from "../../src/runtime/text/sql-text.js";
import { effort } from "../helpers/effort.js";
import { type MergeLab, startMergeLab } from "../helpers/lake/lake-merge.js";
import { addPartition } from "../helpers/lake/lake.js";

type Audience = string | null;
const audiences: readonly Audience[] = ["alpha", "beta", null];
const tables = ["log_entries", "spans"] as const;
const start = 1_763_726_400_000_000_000n;
const second = 1_000_000_000n;

interface AddedRows {
  readonly kind: "add";
  readonly table: (typeof tables)[number];
  readonly audience: Audience;
  readonly times: readonly (bigint | null)[];
  readonly lacking: boolean;
}
interface Merge {
  readonly kind: "merge";
  readonly table: (typeof tables)[number];
  readonly readable: readonly Audience[];
  readonly from: number;
  readonly seconds: number;
  readonly width: number;
  readonly regenerate: boolean;
}
interface Retire {
  readonly kind: "retire";
  readonly table: (typeof tables)[number];
  readonly readable: readonly Audience[];
  readonly from: number;
  readonly seconds: number;
}
type Step = AddedRows | Merge | Retire;

const anyTime: fc.Arbitrary<bigint | null> = fc.oneof(
  {
    weight: 12,
    arbitrary: fc.integer({ min: 0, max: 200_000 }).map((ms) => start + BigInt(ms) * 1_000_000n),
  },
  {
    weight: 3,
    arbitrary: fc.integer({ min: -400_000, max: 400_000 }).map((s) => start + BigInt(s) * second),
  },
  { weight: 1, arbitrary: fc.constantFrom(null) },
  { weight: 1, arbitrary: fc.bigInt({ min: -(2n ** 62n), max: 2n ** 62n }) },
  // Edges of buckets, before 1970 too.
  {
    weight: 3,
    arbitrary: fc.constantFrom(start, start - 1n, 0n, -1n, -60n * second, -61n * second, -3600n * second),
  },
);
const readable = fc.subarray([...audiences], { minLength: 1 });
/** Some hours around the start, or from before 1970 to the far future. */
const anyRange = {
  from: fc.oneof(fc.integer({ min: -500_000, max: 500 }), fc.constant(-1_800_000_000)),
  seconds: fc.oneof(fc.integer({ min: 1, max: 1_000_000 }), fc.constant(4_000_000_000)),
};
const anyStep: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      kind: fc.constantFrom("add" as const),
      table: fc.constantFrom(...tables),
      audience: fc.constantFrom(...audiences),
      times: fc.array(anyTime, { minLength: 1, maxLength: 25 }),
      lacking: fc.boolean(),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constantFrom("merge" as const),
      table: fc.constantFrom(...tables),
      readable,
      ...anyRange,
      width: fc.constantFrom(1, 60, 3600, 86_400, 604_800),
      regenerate: fc.boolean(),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constantFrom("retire" as const),
      table: fc.constantFrom(...tables),
      readable,
      ...anyRange,
    }),
  },
);

let lab: MergeLab;
beforeAll(async () => {
  // Small enough that steps and shared objects come up all the time.
  lab = await startMergeLab({ step: { rows: 60, bytes: 1 << 20, sources: 4 }, objects: 5 });
});
afterAll(() => lab.stop());

function filterOf(names: readonly Audience[]): AudienceFilter {
  return {
    kind: "some",
    audiences: new Set(names.filter((name) => name !== null)),
    unstamped: names.includes(null),
  };
}

function rangeOf({ from, seconds }: { from: number; seconds: number }): {
  beginNs: bigint;
  endNs: bigint;
} {
  const beginNs = start + BigInt(from) * second;
  return { beginNs, endNs: beginNs + BigInt(seconds) * second };
}

interface CataloguedObject {
  readonly id: string;
  readonly table: (typeof tables)[number];
  readonly audience: Audience;
  readonly path: string;
  readonly rows: number;
  readonly min: bigint | null;
  readonly max: bigint | null;
  readonly level: number;
  readonly sortOrder: string;
  readonly width: number | null;
}

async function catalogued(): Promise<CataloguedObject[]> {
  return lab.sql<CataloguedObject[]>`
    select partition_id as id, view_set as table, audience, path, row_count::int as rows,
      min_time_ns as min, max_time_ns as max, level, sort_order as "sortOrder", bucket_seconds as width
    from lakehouse_partitions order by partition_id`;
}

/** Rows of objects with all their columns, as text, in file order. */
async function rowsOf(table: (typeof tables)[number], paths: readonly string[]): Promise<string[]> {
  if (paths.length === 0) {
    return [];
  }
  const files = paths.map((one) => `'${path.join(lab.lake.directory, one)}'`).join(", ");
  const columns = columnsOfTable(table).map(([name]) => quoteName(name));
  const rows = await lab.duck(
    `SELECT concat(coalesce(CAST(epoch_ns(time) AS VARCHAR), 'none'), CAST(to_json(row(${columns.join(", ")})) AS VARCHAR)) AS text
     FROM (SELECT CAST(NULL AS VARCHAR) AS service_version WHERE false UNION ALL BY NAME
       SELECT * FROM read_parquet([${files}], union_by_name = true, hive_partitioning = false))`,
  );
  return rows.map(({ text }) => String(text));
}

const groupOf = (table: string, audience: Audience): string => `${table} ${audience ?? "unstamped"}`;

function floorDiv(a: bigint, b: bigint): bigint {
  return a >= 0n ? a / b : (a + 1n) / b - 1n;
}

/** What every merged object has to be. */
async function checkMerged(object: CataloguedObject): Promise<void> {
  const file = path.join(lab.lake.directory, object.path);
  const codecs = await lab.duck(`SELECT DISTINCT compression FROM parquet_metadata('${file}')`);
  expect(codecs).toEqual([{ compression: "ZSTD" }]);
  const directory = object.audience === null ? "unstamped" : `audience=${object.audience}`;
  expect(object.path.startsWith(`${object.table}/${directory}/`)).toBe(true);
  const rows = await lab.duck(
    `SELECT epoch_ns(time) AS time, msg FROM (SELECT time, target AS msg FROM read_parquet('${file}', hive_partitioning = false))`,
  );
  expect(rows).toHaveLength(object.rows);
  const owners = new Set(rows.map(({ msg }) => String(msg).split(":")[0]));
  expect([...owners]).toEqual([object.audience ?? "unstamped"]);
  const times = rows.map(({ time }) => time as bigint | null);
  const known = times.filter((time) => time !== null);
  expect(times).toEqual([
    ...times.filter((time) => time === null),
    ...known.toSorted((a, b) => (a < b ? -1 : a > b ? 1 : 0)),
  ]);
  expect([known[0] ?? null, known.at(-1) ?? null]).toEqual([object.min, object.max]);
  expect(object.sortOrder).toBe("time,insert_time");
  expect(object.level).toBe(levelOfWidth(object.width ?? 0));
}

/** Objects of a step that lie in one bucket, beside at most one that is shared. */
function sharedObjects(created: readonly CataloguedObject[]): CataloguedObject[] {
  return created.filter(({ min, max, width }) => {
    const widthNs = BigInt(width ?? 1) * second;
    return min !== null && max !== null && floorDiv(min, widthNs) !== floorDiv(max, widthNs);
  });
}

let added = 0;

async function add(step: AddedRows, model: Map<string, string[]>): Promise<void> {
  const owner = step.audience ?? "unstamped";
  const values = step.times.map((time, i) => {
    const id = `${owner}:${added}:${i}`;
    const at = time === null ? "CAST(NULL AS TIMESTAMP_NS)" : `make_timestamp_ns(${time})`;
    return `(${at}, '${id}', md5('${id}'), 'p${i % 3}', make_timestamp_ns(${start + BigInt(added)}))`;
  });
  added++;
  const before = new Set((await catalogued()).map(({ id }) => id));
  await addPartition(lab.lake, lab.sql, {
    table: step.table,
    audience: step.audience,
    rowsSql: `SELECT *, CAST(NULL AS VARCHAR) AS service_version FROM (VALUES ${values.join(", ")}) t(time, target, trace_id, process_id, insert_time)`,
    ...(step.lacking ? { without: ["service_version"] } : {}),
  });
  const paths = (await catalogued()).filter(({ id }) => !before.has(id)).map((one) => one.path);
  const group = groupOf(step.table, step.audience);
  model.set(group, [...(model.get(group) ?? []), ...(await rowsOf(step.table, paths))]);
}

async function retire(step: Retire, model: Map<string, string[]>): Promise<void> {
  const before = await catalogued();
  const gone = await retirePartitions(lab.sql, filterOf(step.readable), {
    kind: "range",
    viewSet: step.table,
    processId: null,
    ...rangeOf(step),
  });
  for (const { path: gonePath } of gone) {
    const object = before.find((one) => one.path === gonePath);
    if (object === undefined) {
      throw new Error("retired what was not there");
    }
    const group = groupOf(object.table, object.audience);
    const left = [...(model.get(group) ?? [])];
    for (const row of await rowsOf(object.table, [gonePath])) {
      const at = left.indexOf(row);
      if (at < 0) {
        throw new Error("retired a row that was not there");
      }
      left.splice(at, 1);
    }
    model.set(group, left);
  }
}

async function merge(step: Merge): Promise<void> {
  const before = await catalogued();
  const range = rangeOf(step);
  const wanted = before.filter(
    (one) =>
      one.table === step.table &&
      step.readable.includes(one.audience) &&
      one.min !== null &&
      one.max !== null &&
      one.max >= range.beginNs &&
      one.min < range.endNs &&
      (step.regenerate || (one.width ?? 0) < step.width),
  );
  const result = await mergePartitions(lab.context, {
    viewSet: step.table,
    audiences: filterOf(step.readable),
    ...range,
    widthSeconds: step.width,
    regenerate: step.regenerate,
  });
  const after = await catalogued();
  const ids = new Set(after.map(({ id }) => id));
  const replaced = before.filter(({ id }) => !ids.has(id));
  expect(replaced.map(({ id }) => id)).toEqual(wanted.map(({ id }) => id));
  const old = new Set(before.map(({ id }) => id));
  const created = after.filter(({ id }) => !old.has(id));
  expect(
    result
      .filter(({ action }) => action === "created")
      .map((one) => one.partitionId)
      .toSorted(),
  ).toEqual(created.map(({ id }) => id));
  for (const object of created) {
    expect(object.width).toBe(step.width);
    await checkMerged(object);
  }
  expect(sharedObjects(created).length).toBeLessThanOrEqual(wanted.length);
}

it("leaves every row of every audience where it can be read, once, whatever is merged and retired", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(anyStep, { minLength: 4, maxLength: 14 }), async (steps) => {
      await lab.sql`delete from lakehouse_partitions`;
      const model = new Map<string, string[]>();
      for (const step of steps) {
        if (step.kind === "add") {
          await add(step, model);
        } else if (step.kind === "retire") {
          await retire(step, model);
        } else {
          await merge(step);
        }
        const objects = await catalogued();
        for (const table of tables) {
          for (const audience of audiences) {
            const paths = objects
              .filter((one) => one.table === table && one.audience === audience)
              .map((one) => one.path);
            expect((await rowsOf(table, paths)).toSorted()).toEqual(
              (model.get(groupOf(table, audience)) ?? []).toSorted(),
            );
          }
        }
      }
    }),
    { numRuns: effort(4, 20) },
  );
}, 1_200_000);
