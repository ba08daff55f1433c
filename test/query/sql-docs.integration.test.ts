/** What docs/ says about SQL, and the columns that it leaves to docs/schema.md, are what the code does. */
import { readFile } from "node:fs/promises";
import { afterAll, beforeAll, expect, it } from "vitest";

import { type AdminFunctionName, adminFunctions, signatureOf } from "../../src/query/sql/admin-functions.js";
import { inspect } from "../../src/query/backend/inspect.js";
import { rangeFunctions } from "../../src/query/sql/range-functions.js";
import { columnsOfView, informationSchema, listings, type ViewName, viewNamesFor } from "../../src/query/sql/views.js";
import { options } from "../../src/runtime/config/options.js";
import { openTestEngine, type TestEngine } from "../helpers/query/query-engine.js";
import { readSqlGuide } from "../helpers/query/sql-guide.js";

let engine: TestEngine;
let sqlDoc: string;
let schemaDoc: string;

beforeAll(async () => {
  engine = await openTestEngine();
  sqlDoc = await readSqlGuide();
  schemaDoc = await readFile(new URL("../../../docs/schema.md", import.meta.url), "utf8");
});

afterAll(async () => {
  await engine.close();
});

/** The text under a heading of any level, up to the next heading. */
function section(text: string, heading: string): string {
  const lines = text.split("\n");
  const from = lines.findIndex((line) => line.replace(/^#+ /u, "") === heading);
  expect(from, `a heading ${heading}`).not.toBe(-1);
  const to = lines.findIndex((line, i) => i > from && /^#+ /u.test(line));
  return lines.slice(from + 1, to === -1 ? undefined : to).join("\n");
}

/** Texts in backticks. */
function quoted(text: string): string[] {
  return [...text.matchAll(/`([^`]+)`/gu)].map(([, name = ""]) => name);
}

/** The cells of the table whose first heading is `name`. */
function table(text: string, name: string): string[][] {
  const lines = text.split("\n");
  const from = lines.findIndex((line) => line.startsWith(`| ${name} `));
  expect(from, `a table of ${name}`).not.toBe(-1);
  const rest = lines.slice(from + 2);
  const end = rest.findIndex((line) => !line.startsWith("|"));
  return rest
    .slice(0, end === -1 ? undefined : end)
    .map((line) => line.split("|").slice(1, -1))
    .map((cells) => cells.map((cell) => cell.trim()));
}

/** Names and types of a table of columns, of which a row may name several. */
function documented(text: string, heading: string): [string, string][] {
  return table(section(text, heading), "Column").flatMap(([names = "", type = ""]) =>
    quoted(names).map((name): [string, string] => [name, type]),
  );
}

it("names every view, and no other", () => {
  const names = table(section(sqlDoc, "Views"), "View").flatMap(([name = ""]) => quoted(name));
  expect(names.toSorted()).toEqual(viewNamesFor(true));
});

it.each([
  "log_stats",
  "counter_increases",
  "histogram_increases",
  "metric_catalogue",
  "metric_series",
  "traces",
  "service_calls",
  "service_latencies",
  "exceptions",
  "attribute_samples",
  "span_events",
  "span_links",
  "processes",
  "streams",
  "blocks",
  "usage",
  "query_log",
] as const)("has the columns of %s in order", (view) => {
  expect(documented(sqlDoc, `\`${view}\``)).toEqual(columnsOfView(view));
});

it.each(["service_edges", "attribute_keys"] as const)("has the columns of %s in order", (name) => {
  expect(documented(sqlDoc, `\`${name}\``)).toEqual(rangeFunctions[name].columns);
});

it("has the columns of trace_tree in order", () => {
  expect(documented(sqlDoc, "`trace_tree`")).toEqual(columnsOfView("trace_tree"));
});

it.each(["list_view_sets", "list_partitions"] as const)("has the columns of %s in order", (name) => {
  expect(documented(sqlDoc, `\`${name}\``)).toEqual(listings[`svc_${name}`]);
});

it.each(["tables", "columns"] as const)("has the columns of information_schema.%s in order", (name) => {
  expect(documented(sqlDoc, `\`information_schema.${name}\``)).toEqual(listings[informationSchema[name]]);
});

it.each(["log_entries", "measures", "histograms", "spans"] as const)(
  "finds the columns of %s in docs/schema.md, and those that are computed",
  (view: ViewName) => {
    const shared = section(schemaDoc, "Columns of every table")
      .split("\n")
      .flatMap((line) => quoted(/^\| (`[^|]*)/u.exec(line)?.[1] ?? ""));
    const exemplars = ["time", "value", "value_int", "trace_id", "span_id", "properties"];
    expect(shared.splice(-exemplars.length)).toEqual(exemplars);
    const own = documented(schemaDoc, `\`${view}\``).map(([name]) => name);
    const computed = table(section(sqlDoc, "Computed columns"), "Column")
      .filter(([, , views = ""]) => quoted(views).includes(view))
      .flatMap(([name = ""]) => quoted(name));
    expect([...own, ...shared, "audience", ...computed].toSorted()).toEqual(
      columnsOfView(view)
        .map(([name]) => name)
        .toSorted(),
    );
  },
);

it("has the signatures and results of the admin functions", () => {
  const names = Object.keys(adminFunctions) as AdminFunctionName[];
  const text = section(sqlDoc, "Administration");
  expect(table(text, "Function").flatMap(([name = ""]) => quoted(name))).toEqual(
    names.map((name) => signatureOf(name)),
  );
  const parameters = names.flatMap((name) => adminFunctions[name].parameters.map(([parameter]) => parameter));
  expect(table(text, "Argument").flatMap(([name = ""]) => quoted(name))).toEqual(expect.arrayContaining(parameters));
  const [merged, retired, denials] = table(text, "Functions").map(([, columns = ""]) =>
    [...columns.matchAll(/`([a-z_]+)` ([A-Z_]+)/gu)].map(([, name, type]) => [name, type]),
  );
  expect([...(merged ?? []), ...(retired ?? [])]).toEqual(adminFunctions.materialize_partitions.columns);
  expect(retired).toEqual(adminFunctions.apply_retention.columns);
  expect(denials).toEqual(adminFunctions.list_query_denials.columns);
});

it("names every macro of the engine", async () => {
  const rows = await engine.rows(
    "SELECT DISTINCT function_name FROM duckdb_functions() WHERE function_type = 'macro' AND NOT internal",
  );
  const prose = sqlDoc.replaceAll(/^```sql\n[\s\S]*?^```$/gmu, "");
  const names = new Set(quoted(prose).map((text) => text.replace(/\(.*/u, "")));
  // The gate refuses those that begin so: only the server's own SQL calls them.
  const macros = rows.map(([name]) => String(name)).filter((name) => !name.startsWith("svc_"));
  expect(macros.length).toBeGreaterThan(10);
  expect(macros.filter((name) => !names.has(name))).toEqual([]);
});

it("names options that exist", () => {
  const named = sqlDoc.match(/SVC_[A-Z_]+/gu) ?? [];
  expect(named.length).toBeGreaterThan(5);
  expect(named.filter((name) => !Object.hasOwn(options, name))).toEqual([]);
});

it("has examples that the gate lets through and DuckDB binds", async () => {
  const examples = [...sqlDoc.matchAll(/^```sql\n([\s\S]*?)^```$/gmu)].map(([, sql = ""]) => sql);
  expect(examples.length).toBeGreaterThan(10);
  for (const sql of examples) {
    const { fields } = await inspect(engine, sql, { admin: true });
    expect(fields.length).toBeGreaterThan(0);
  }
});
