import { mkdir } from "node:fs/promises";
import path from "node:path";

import { DuckDBInstance } from "@duckdb/node-api";
import { beforeAll, expect, it } from "vitest";

import { emptySource } from "../../src/query/sql/file-source.js";
import { startTestBackend, type TestBackend } from "../helpers/query/query-backend.js";

let t: TestBackend;

beforeAll(async () => {
  t = await startTestBackend();
  return () => t.stop();
});

it("EXPLAIN ANALYZE counts files and rows, and names no piece of a path", async () => {
  const directory = path.join(t.lakeDirectory, "log_entries", "a-directory-with-a-long-name");
  await mkdir(directory, { recursive: true });
  const file = path.join(directory, "object-of-many-words.parquet");
  const instance = await DuckDBInstance.create(":memory:");
  const connection = await instance.connect();
  await connection.run(
    `COPY (SELECT 'p' AS process_id, make_timestamp_ns(i) AS time, 'm' || i AS msg FROM range(20) t(i)) TO '${file}'`,
  );
  connection.closeSync();
  instance.closeSync();
  const source = {
    ...emptySource,
    groups: [{ audience: "public", paths: [file] }],
  };
  const table = await t.query("EXPLAIN ANALYZE SELECT max(msg) FROM log_entries", {
    files: [{ name: "log_entries", view: "log_entries", sources: [source] }],
    rows: [],
  });
  const text = String(table.getChild("explain_value")?.get(0));
  expect(text).toMatch(/^Total Time: \d+\.\d+s\n/u);
  expect(text).toMatch(/READ_PARQUET \(20 rows, /u);
  expect(text).toContain("Total Files Read: 1");
  for (const piece of directory.split(/[/-]/u).filter((word) => word.length > 4)) {
    expect(text).not.toContain(piece);
  }
  expect(text).not.toContain(".parquet");
});

it("tells no numbers that DuckDB gives to tables: they depend on the names of files", async () => {
  const query = "WITH c AS MATERIALIZED (SELECT range AS i FROM range(9)) SELECT count(*) FROM c a JOIN c b USING (i)";
  for (const how of ["EXPLAIN", "EXPLAIN ANALYZE"]) {
    const text = String((await t.query(`${how} ${query}`)).getChild("explain_value")?.get(0));
    expect(text).toContain("CTE_SCAN");
    expect(text).not.toMatch(/(?:Table|CTE) Index/u);
  }
});
