/**
 * Random objects at every level, then random erasures, merges and retirements in between: what is left is what a filter
 * over the rows leaves, each once, and the counts are those of the filter.
 */
import { randomUUID } from "node:crypto";

import * as fc from "fast-check";
import { afterAll, beforeAll, expect, it } from "vitest";

import { runTask } from "../../src/lake/check/lake-tasks.js";
import { mergePartitions } from "../../src/lake/merge/merge.js";
import { quoteText } from "../../src/runtime/text/sql-text.js";
import { effort } from "../helpers/effort.js";
import { type MergeLab, mergeAll, startMergeLab } from "../helpers/lake/lake-merge.js";
import { addAged, askErasure, publishedValues, taskContext, taskRow } from "../helpers/lake/lake-tasks.js";

const processes = [randomUUID(), randomUUID()];
const services = ["shop", "shop'; --", null] as const;
const traces = ["aa".repeat(16), "bb".repeat(16), null] as const;
const keys = ["user.id", 'quo"te', "a/b~c", "ünï", "$.x", "x y"] as const;
const values = ["7", "7.5", "true", 'it\'s \\ "x"', "", "日本"] as const;

interface Row {
  readonly audience: string | null;
  readonly time: number | null;
  readonly service: (typeof services)[number];
  readonly process: string;
  readonly trace: (typeof traces)[number];
  readonly attributes: readonly (readonly [string, string])[];
  /** Of the process, not of the record. */
  readonly inProcess: boolean;
}
interface Where {
  readonly service?: string;
  readonly process?: string;
  readonly trace?: string;
  readonly attribute?: { readonly key: string; readonly value: string };
}
interface Erase {
  readonly kind: "erase";
  readonly audience: string;
  readonly where: Where;
  readonly begin: number | null;
  readonly end: number | null;
}
type Step =
  | {
      readonly kind: "add";
      readonly level: 0 | 1 | 2 | 3;
      readonly audience: string | null;
      readonly rows: readonly Row[];
    }
  | { readonly kind: "merge" }
  | Erase;

const attribute = fc.tuple(fc.constantFrom(...keys), fc.constantFrom(...values));
const anyTime = fc.option(fc.integer({ min: -3, max: 6 }), { freq: 6 });
const anyAudience = fc.constantFrom("a", "public", null);
const anyRow = fc.record({
  audience: fc.constant(null),
  time: anyTime,
  service: fc.constantFrom(...services),
  process: fc.constantFrom(...processes),
  trace: fc.constantFrom(...traces),
  attributes: fc.array(attribute, { maxLength: 3 }),
  inProcess: fc.boolean(),
});
const anyStep: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      kind: fc.constant("add" as const),
      level: fc.constantFrom(0 as const, 0 as const, 1 as const, 3 as const),
      audience: anyAudience,
      rows: fc.array(anyRow, { minLength: 1, maxLength: 12 }),
    }),
  },
  { weight: 1, arbitrary: fc.constant({ kind: "merge" as const }) },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant("erase" as const),
      audience: fc.constantFrom("a", "public"),
      where: fc.oneof(
        fc.constantFrom("shop", "shop'; --").map((service) => ({ service })),
        fc.constantFrom(...processes).map((process) => ({ process })),
        fc.constantFrom("aa".repeat(16), "bb".repeat(16)).map((trace) => ({ trace })),
        attribute.map(([key, value]) => ({ attribute: { key, value } })),
      ),
      begin: fc.option(fc.integer({ min: -3, max: 3 })),
      end: fc.option(fc.integer({ min: 4, max: 7 })),
    }),
  },
);

/** The model: whether a row goes. */
function goes(row: Row, { audience, where, begin, end }: Erase): boolean {
  const { service, process, trace, attribute: wanted } = where;
  const matches =
    wanted === undefined
      ? service === row.service || process === row.process || trace === row.trace
      : row.attributes.some(([key, value]) => key === wanted.key && value === wanted.value);
  const within =
    (begin === null || (row.time !== null && row.time >= begin)) &&
    (end === null || (row.time !== null && row.time < end));
  // Rows without an audience are read as public.
  return (row.audience ?? "public") === audience && matches && within;
}

const text = (value: string | null): string => (value === null ? "NULL" : quoteText(value));
/** JSON in which a key may stand twice. */
const json = (pairs: Row["attributes"]): string =>
  text(`{${pairs.map(([key, value]) => `${JSON.stringify(key)}:${JSON.stringify(value)}`).join(",")}}`);

let lab: MergeLab;
beforeAll(async () => {
  lab = await startMergeLab();
});
afterAll(() => lab.stop());

it("leaves exactly the rows that a filter leaves, whatever was merged in between", async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(anyStep, { minLength: 3, maxLength: 9 }), async (steps) => {
      await lab.sql`delete from lakehouse_partitions`;
      let standing = new Map<string, Row>();
      /** Rows that went as the task says, and as the filter says. */
      const removed: (readonly [number | undefined, number])[] = [];
      for (const step of steps) {
        if (step.kind === "merge") {
          await mergePartitions(lab.context, { ...mergeAll, widthSeconds: 60 });
        } else if (step.kind === "add") {
          const rows = step.rows.map((row) => [randomUUID(), { ...row, audience: step.audience }] as const);
          const selects = rows.map(
            ([id, row]) => `(${row.time === null ? "NULL::TIMESTAMP_NS" : `make_timestamp_ns(${row.time})`}, '${id}',
              ${text(row.service)}::VARCHAR, '${row.process}', ${text(row.trace)}::VARCHAR,
              ${json(row.inProcess ? [] : row.attributes)}, ${json(row.inProcess ? row.attributes : [])})`,
          );
          const rowsSql = `SELECT * FROM (VALUES ${selects.join(", ")})
            AS t (time, msg, service_name, process_id, trace_id, properties, process_properties)`;
          await addAged(lab, { table: "log_entries", audience: step.audience, level: step.level, rowsSql });
          standing = new Map([...standing, ...rows]);
        } else {
          const left = new Map([...standing].filter(([, row]) => !goes(row, step)));
          const taskId = await askErasure(lab, {
            audience: step.audience,
            where: { ...step.where },
            begin_ns: step.begin === null ? null : String(step.begin),
            end_ns: step.end === null ? null : String(step.end),
          });
          await runTask(taskContext(lab), taskId);
          removed.push([(await taskRow(lab, taskId))?.rows, standing.size - left.size]);
          standing = left;
        }
        expect(await publishedValues(lab, "log_entries", "msg")).toEqual([...standing.keys()].toSorted());
      }
      expect(removed.filter(([told, filtered]) => told !== filtered)).toEqual([]);
    }),
    { numRuns: effort(5, 24) },
  );
}, 1_200_000);
