/** `attr` and its kin: one attribute of a row as text, number or truth. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { quoteText } from "../../src/runtime/text/sql-text.js";
import { startTestAnalytics, type TestAnalytics } from "../helpers/servers/analytics.js";
import { addPartition } from "../helpers/lake/lake.js";

/** JSON of a value, and what `attr`, `attr_int` (digits), `attr_double` and `attr_bool` make of it. */
const cases: readonly (readonly [string, string | null, string | null, number | null, boolean | null])[] = [
  ["7", "7", "7", 7, null],
  ["-5", "-5", "-5", -5, null],
  ["0", "0", "0", 0, false],
  ["1", "1", "1", 1, true],
  ["9223372036854775807", "9223372036854775807", "9223372036854775807", 2 ** 63, null],
  ["9223372036854775808", "9223372036854775808", null, 2 ** 63, null],
  ["2.0", "2.0", "2", 2, null],
  ["1.5", "1.5", null, 1.5, null],
  ["2.5e-7", "2.5e-7", null, 2.5e-7, null],
  ['"NaN"', "NaN", null, Number.NaN, null],
  ['"-Infinity"', "-Infinity", null, Number.NEGATIVE_INFINITY, null],
  ["true", "true", null, null, true],
  ["false", "false", null, null, false],
  ['"TRUE"', "TRUE", null, null, true],
  ['"200"', "200", "200", 200, null],
  ['"20x"', "20x", null, null, null],
  ['""', "", null, null, null],
  ['"a \\"quoted\\" word"', 'a "quoted" word', null, null, null],
  ["null", null, null, null, null],
  ["[1,2]", "[1,2]", null, null, null],
  ['{"a":1}', '{"a":1}', null, null, null],
];

const names = ["k", "http.route", "a/b~c", "$.k", "it's", 'say "hi"', "a[0]", "*", "0", ""];

let t: TestAnalytics;

beforeAll(async () => {
  t = await startTestAnalytics();
  const rows = cases.map(([json], i) => `(${i}, ${quoteText(`{"other": 1, "k": ${json}}`)})`);
  const named = Object.fromEntries(names.map((name, i) => [name, `value ${i}`]));
  await addPartition(t.lake, t.sql, {
    table: "log_entries",
    audience: "public",
    rowsSql: `SELECT make_timestamp_ns(i) AS time, properties, ${quoteText(JSON.stringify(named))} AS process_properties FROM (VALUES ${rows.join(", ")}) v(i, properties)`,
  });
});

afterAll(async () => {
  await t.stop();
});

describe("an attribute", () => {
  it("is text, a number or a truth, else null", async () => {
    expect(
      await t.plainRows(
        `SELECT attr(properties, 'k') AS text, CAST(attr_int(properties, 'k') AS VARCHAR) AS int,
           attr_double(properties, 'k') AS double, attr_bool(properties, 'k') AS bool
         FROM log_entries ORDER BY time`,
      ),
    ).toEqual(cases.map(([, text, int, double, bool]) => ({ text, int, double, bool })));
  });

  it("has the type that its function says", async () => {
    expect(
      await t.plainRows(
        `SELECT DISTINCT typeof(attr(properties, 'k')) AS a, typeof(attr_int(properties, 'k')) AS b,
           typeof(attr_double(properties, 'k')) AS c, typeof(attr_bool(properties, 'k')) AS d FROM log_entries`,
      ),
    ).toEqual([{ a: "VARCHAR", b: "BIGINT", c: "DOUBLE", d: "BOOLEAN" }]);
  });

  it("that there is not is null, and so is one of nothing", async () => {
    expect(
      await t.plainRows(
        `SELECT DISTINCT attr(properties, 'nothing') AS a, attr_int(properties, 'K') AS b,
           attr_double(NULL, 'k') AS c, attr_bool(properties, NULL) AS d FROM log_entries`,
      ),
    ).toEqual([{ a: null, b: null, c: null, d: null }]);
  });

  it.each(names.map((name, i) => [name, i] as const))("has whatever name: %j", async (name, i) => {
    const wanted = [{ a: `value ${i}`, b: `value ${i}` }];
    const of = (text: string): string =>
      `SELECT DISTINCT attr(process_properties, ${text}) AS a, property_get(process_properties, ${text}) AS b FROM log_entries`;
    expect(await t.plainRows(of(quoteText(name)))).toEqual(wanted);
    // A name that is not known before the query runs.
    expect(await t.plainRows(of(`${quoteText(name)} || left(body_type, 0)`))).toEqual(wanted);
  });

  it("is the same by ->>, unless its name may be a path", async () => {
    for (const name of names.filter((name) => /^[^$/*]+$/u.test(name))) {
      expect(
        await t.plainRows(
          `SELECT DISTINCT process_properties->>${quoteText(name)} = attr(process_properties, ${quoteText(name)}) AS same FROM log_entries`,
        ),
      ).toEqual([{ same: true }]);
    }
  });

  it("filters and groups", async () => {
    expect(
      await t.plainRows(
        "SELECT attr_bool(properties, 'k') AS b, count(*)::INTEGER AS n FROM log_entries WHERE attr_int(properties, 'k') BETWEEN 0 AND 7 GROUP BY ALL ORDER BY b",
      ),
    ).toEqual([
      { b: false, n: 1 },
      { b: true, n: 1 },
      { b: null, n: 2 },
    ]);
  });
});
