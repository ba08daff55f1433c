import { mkdir } from "node:fs/promises";
import path from "node:path";

import { DuckDBInstance } from "@duckdb/node-api";
import { tableFromIPC } from "apache-arrow";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { emptySource, type FileSource } from "../../src/query/sql/file-source.js";
import { columnsOfTable } from "../../src/lake/tables/duckdb-types.js";
import { quoteText } from "../../src/runtime/text/sql-text.js";
import { ipcOf } from "../helpers/flight/flight-ipc.js";
import { startTestBackend, type TestBackend, type TestSources } from "../helpers/query/query-backend.js";

const fileCount = 150;
const rowsPerFile = 3;

let t: TestBackend;
let whole: string[];
let narrow: string[];

beforeAll(async () => {
  t = await startTestBackend();
  await mkdir(t.lakeDirectory, { recursive: true });
  const instance = await DuckDBInstance.create(":memory:");
  const connection = await instance.connect();
  const given: Readonly<Record<string, string>> = {
    time: "make_timestamp_ns(file.i * 1000 + r)",
    process_id: "'p' || file.i",
    trace_id: "lpad(to_hex(file.i), 32, '0')",
    msg: "'m' || r",
  };
  const columns = columnsOfTable("log_entries").map(
    ([name, type]) => `CAST(${given[name] ?? "NULL"} AS ${type}) AS "${name}"`,
  );
  const write = async (name: string, i: number, select: string): Promise<string> => {
    const file = path.join(t.lakeDirectory, `it's ${name} ${i}.parquet`);
    await connection.run(
      `COPY (SELECT ${select} FROM range(${rowsPerFile}) rows(r), (SELECT ${i} AS i) file)
       TO ${quoteText(file)}`,
    );
    return file;
  };
  whole = [];
  narrow = [];
  for (let i = 0; i < fileCount; i++) {
    whole.push(await write("whole", i, columns.join(", ")));
    // As an older version would have written it.
    narrow.push(await write("narrow", i, `${given["time"]} AS time, 'n' AS process_id`));
  }
  connection.closeSync();
  instance.closeSync();
});

afterAll(async () => {
  await t.stop();
});

function sourcesOf(source: Partial<FileSource>): TestSources {
  const all = {
    ...emptySource,
    groups: [{ audience: "public", paths: whole }],
    ...source,
  };
  return { files: [{ name: "log_entries", view: "log_entries", sources: [all] }], rows: [] };
}

const answers = async (sql: string, sources: TestSources): Promise<unknown[]> =>
  (await t.query(sql, sources)).toArray().map((row) => Object.values(row.toJSON()).map(String));

describe("a query over many files", () => {
  const rows = fileCount * rowsPerFile;
  const cases: readonly (readonly [string, string, readonly string[][]])[] = [
    ["aggregates", "SELECT count(*), count(DISTINCT process_id) FROM log_entries", [[`${rows}`, `${fileCount}`]]],
    ["counts alone", "SELECT count(*) FROM log_entries", [[`${rows}`]]],
    ["rows", "SELECT process_id FROM log_entries WHERE process_id = 'p149' AND msg = 'm1'", [["p149"]]],
    [
      "a join of the view with itself",
      "SELECT count(*) FROM log_entries a JOIN log_entries b USING (process_id, msg)",
      [[`${rows}`]],
    ],
    [
      "a view in a CTE, a subquery and a union",
      `WITH c AS (SELECT * FROM log_entries)
       SELECT (SELECT count(*) FROM c) AS a, count(*) AS b
       FROM (SELECT msg FROM log_entries UNION ALL SELECT msg FROM c)`,
      [[`${rows}`, `${2 * rows}`]],
    ],
    [
      "a recursive CTE",
      `WITH RECURSIVE up(n) AS (SELECT min(time) FROM log_entries UNION ALL SELECT NULL FROM up WHERE n IS NOT NULL)
       SELECT count(*), (SELECT count(*) FROM log_entries) FROM up`,
      [["2", `${rows}`]],
    ],
    [
      "a CTE that has the name of the view",
      `WITH log_entries AS (SELECT * FROM log_entries WHERE process_id = 'p7'), other AS (SELECT * FROM log_entries)
       SELECT count(*), (SELECT count(*) FROM other) FROM Log_Entries`,
      [[`${rowsPerFile}`, `${rowsPerFile}`]],
    ],
    [
      "a CTE that has it within a subquery",
      `SELECT count(*), (WITH log_entries AS (SELECT * FROM log_entries LIMIT 2) SELECT count(*) FROM log_entries)
       FROM log_entries`,
      [[`${rows}`, "2"]],
    ],
    [
      "behind comments in comments",
      "/* /* */ WITH */ WITH a AS (FROM log_entries) SELECT count(*) FROM a",
      [[`${rows}`]],
    ],
    ["a CTE called recursive", "WITH recursive AS (FROM log_entries) SELECT count(*) FROM recursive", [[`${rows}`]]],
    [
      "columns with their schema",
      `SELECT count(main.log_entries.msg), max(telemetry."main".Log_Entries.process_id) FROM main.log_entries
       WHERE main.log_entries.msg <> 'main.x'`,
      [[`${rows}`, "p99"]],
    ],
    [
      "a struct called like the schema",
      "SELECT max(main.log_entries.n) FROM (SELECT {log_entries: {n: 7}} AS main FROM log_entries)",
      [["7"]],
    ],
    ["behind a comment", "-- a (\n/* WITH */ SELECT count(*) FROM log_entries; -- all", [[`${rows}`]]],
    ["in brackets", "(SELECT count(*) FROM log_entries)", [[`${rows}`]]],
    ["from VALUES", "VALUES ((SELECT count(*) FROM log_entries))", [[`${rows}`]]],
    [
      "a constant beside it",
      "SELECT 1 AS one WHERE EXISTS (SELECT * FROM log_entries WHERE process_id = 'p149')",
      [["1"]],
    ],
  ];
  for (const [name, sql, expected] of cases) {
    it(`reads all of them: ${name}`, async () => {
      expect(await answers(sql, sourcesOf({}))).toEqual(expected);
    });
  }

  it("reads all groups, those that lack columns too", async () => {
    const sql = "SELECT count(*), count(msg), count(DISTINCT process_id) FROM log_entries";
    expect(await answers(sql, sourcesOf({ groups: [{ audience: "public", paths: narrow }] }))).toEqual([
      [`${rows}`, "0", "1"],
    ]);
    expect(
      await answers(
        sql,
        sourcesOf({
          groups: [
            { audience: "public", paths: narrow },
            { audience: "public", paths: whole },
          ],
        }),
      ),
    ).toEqual([[`${2 * rows}`, `${rows}`, `${fileCount + 1}`]]);
  });

  it("tells of an error in the line where it is", async () => {
    const sql = (select: string): string => `SELECT 1,\n  CAST(${select} AS INTEGER)\nFROM log_entries`;
    for (const text of [sql("msg"), `WITH a AS (FROM log_entries)\n${sql("msg").slice(0, -"log_entries".length)}a`]) {
      const line = text.split("\n").findIndex((one) => one.includes("CAST")) + 1;
      const told = `\n\nLINE ${line}:   CAST(msg AS INTEGER)\n${" ".repeat(`LINE ${line}:   `.length)}^`;
      await expect(answers(text, sourcesOf({}))).rejects.toThrow(told);
    }
  });

  it("reads views that are unions behind WITH RECURSIVE", async () => {
    const sql = `WITH RECURSIVE up(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM up WHERE n < 2)
      SELECT (SELECT count(*) FROM up), count(*) FROM attribute_samples`;
    const [logs] = sourcesOf({}).files[0]?.sources ?? [];
    if (logs === undefined) {
      throw new Error("no source");
    }
    const sources = [emptySource, logs, emptySource, emptySource];
    const files = [{ name: "attribute_samples", view: "attribute_samples" as const, sources }];
    expect(await answers(sql, { files, rows: [] })).toEqual([["2", `${rows}`]]);
  });

  it("reads all of each view of several", async () => {
    const [source] = sourcesOf({}).files[0]?.sources ?? [];
    if (source === undefined) {
      throw new Error("no source");
    }
    const files = ["a", "b", "c"].map((name, i) => ({
      name,
      view: "log_entries" as const,
      sources: [{ ...source, groups: [{ audience: "public", paths: whole.slice(i * 20) }] }],
    }));
    const sql = "SELECT count(*) FROM log_entries";
    const { executable } = await t.inspect(sql);
    const counts = ["a", "b", "c"].map((name) => `(SELECT count(*) FROM ${name}) AS ${name}`);
    const stream = t.run({ ...executable, sql: `SELECT ${counts.join(", ")}` }, { files, rows: [] });
    const parts: Uint8Array[] = [];
    for await (const message of stream) {
      parts.push(...ipcOf(message));
    }
    expect(tableFromIPC(parts).get(0)?.toArray().map(Number)).toEqual(
      files.map(({ sources }) => (sources[0]?.groups[0]?.paths.length ?? 0) * rowsPerFile),
    );
  });

  it("reads what it looks for by trace", async () => {
    const traceIds = [0, 149].map((i) => i.toString(16).padStart(32, "0"));
    const byTrace = { traceIds, groups: [{ audience: "public", paths: whole }] };
    expect(
      await answers("SELECT DISTINCT process_id FROM log_entries ORDER BY 1", sourcesOf({ groups: [], byTrace })),
    ).toEqual([["p0"], ["p149"]]);
  });

  it("is explained with all of them, and without their names", async () => {
    const [row] = await answers("EXPLAIN ANALYZE SELECT max(msg) FROM log_entries", sourcesOf({}));
    const text = String(row);
    expect(text).toContain(`Total Files Read: ${fileCount}`);
    expect(text).not.toContain("whole");
  });

  it("leaves the next query of the thread its own files", async () => {
    const sql = "SELECT count(*) FROM log_entries";
    const lists = [whole, whole.slice(0, 100), whole.slice(0, 2), narrow];
    const counts = await Promise.all(
      lists.map(
        async (files) => (await answers(sql, sourcesOf({ groups: [{ audience: "public", paths: files }] })))[0],
      ),
    );
    expect(counts).toEqual(lists.map((files) => [`${files.length * rowsPerFile}`]));
  });
});
