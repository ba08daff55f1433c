/** Queries that fail say so, also late; what they held comes back with them, not when V8 next collects. */
import { mkdir, readFile, utimes, writeFile } from "node:fs/promises";
import path from "node:path";

import { DuckDBInstance } from "@duckdb/node-api";
import { beforeAll, describe, expect, it } from "vitest";

import { type ServiceError, toServiceError } from "../../src/runtime/errors.js";
import { emptySource } from "../../src/query/sql/file-source.js";
import { effort } from "../helpers/effort.js";
import { noSources, startTestBackend, type TestBackend, type TestSources } from "../helpers/query/query-backend.js";

let t: TestBackend;

beforeAll(async () => {
  t = await startTestBackend({ memoryBytes: 64 << 20 });
  return () => t.stop();
});

const rows = Array.from({ length: 20 }, (_, i) => ({ a: `x${i}`, b: i, c: "y" }));
const sources: TestSources = {
  files: [],
  rows: ["p", "q"].map((name) => ({
    name,
    columns: [
      ["a", "VARCHAR"],
      ["b", "BIGINT"],
      ["c", "VARCHAR"],
    ],
    chunks: [JSON.stringify(rows)],
  })),
};

const late = (value: string): string => `SELECT ${value} AS v FROM range(1000000) t(i)`;

/** Reads a query that fails: the error that its reader gets, and what is known of it in the end. */
async function failureOf(sql: string, from: TestSources = noSources) {
  const stream = t.run({ sql, explain: "none" }, from);
  const read = async (): Promise<ServiceError | null> => {
    try {
      let messages = 0;
      for await (const message of stream) {
        messages += message.length > 0 ? 1 : 0;
      }
      return null;
    } catch (error) {
      return toServiceError(error);
    }
  };
  const told = await read();
  return { told, ...(await stream.ended) };
}

describe("a query that fails after many rows", () => {
  it.each([
    ["an error of its own", "CASE WHEN i = 900000 THEN error('boom') ELSE i::VARCHAR END", "boom"],
    [
      "a cast",
      "repeat('x', 200) || CAST(CASE WHEN i = 999999 THEN 'abc' ELSE '1' END AS INTEGER)",
      "Could not convert string 'abc'",
    ],
  ])("by %s fails with DuckDB's words", async (_by, value, words) => {
    const { told, failure, summary } = await failureOf(late(value));
    expect(told?.code).toBe("BAD_REQUEST");
    expect(told?.message).toContain(words);
    expect(failure?.code).toBe("BAD_REQUEST");
    expect(summary.rows).toBeGreaterThan(100_000);
    expect(summary.rows).toBeLessThan(1_000_000);
    expect(summary.bytes).toBeGreaterThan(100_000);
  });

  it("never tells of the interrupt that ends DuckDB's other threads then", async () => {
    const value = "repeat('x', 200) || CAST(CASE WHEN i = 999999 THEN 'abc' ELSE '1' END AS INTEGER)";
    const codes = new Set<string | undefined>();
    // One in twenty was.
    for (let i = 0; i < effort(10, 60); i++) {
      const both = await Promise.all([failureOf(late(value)), failureOf(late(value))]);
      for (const { told } of both) {
        codes.add(told?.code);
      }
    }
    expect([...codes]).toEqual(["BAD_REQUEST"]);
  }, 1_200_000);

  it("by a damaged object behind good ones fails", async () => {
    await mkdir(t.lakeDirectory, { recursive: true });
    const instance = await DuckDBInstance.create(":memory:");
    const connection = await instance.connect();
    const files = Array.from({ length: 40 }, (_, i) =>
      path.join(t.lakeDirectory, `${String(i).padStart(2, "0")}.parquet`),
    );
    for (const file of files) {
      await connection.run(
        `COPY (SELECT make_timestamp_ns(i) AS time, repeat(md5(i::VARCHAR), 5) AS msg FROM range(5000) t(i)) TO '${file}'`,
      );
    }
    connection.closeSync();
    instance.closeSync();
    const damaged = files.at(-1)!;
    const bytes = await readFile(damaged);
    // Behind the magic number and before the footer.
    await writeFile(damaged, bytes.fill(0xff, 100, Math.floor(bytes.length * 0.8)));
    const source = {
      ...emptySource,
      groups: [{ audience: "public", paths: files }],
    };
    const { told, summary } = await failureOf("SELECT time, msg FROM log_entries", {
      files: [{ name: "log_entries", view: "log_entries", sources: [source] }],
      rows: [],
    });
    expect(told?.code).toBe("INTERNAL");
    expect(summary.rows).toBeLessThan(200_000);
  });

  it("at one row of many objects fails with DuckDB's words, and nothing before them", async () => {
    const directory = path.join(t.lakeDirectory, "one-row");
    await mkdir(directory, { recursive: true });
    const instance = await DuckDBInstance.create(":memory:");
    const connection = await instance.connect();
    const paths = Array.from({ length: 10 }, (_, i) => path.join(directory, `${i}.parquet`));
    for (const [i, file] of paths.entries()) {
      await connection.run(
        `COPY (SELECT make_timestamp_ns(i) AS time, CASE WHEN i > 0 OR ${i} <> 1 THEN '1' ELSE 'x' END AS msg
         FROM range(3000) t(i)) TO '${file}'`,
      );
    }
    connection.closeSync();
    instance.closeSync();
    const source = { ...emptySource, groups: paths.map((file) => ({ audience: "public", paths: [file] })) };
    const sources: TestSources = {
      files: [{ name: "log_entries", view: "log_entries", sources: [source] }],
      rows: [],
    };
    const sql = "SELECT time, msg FROM log_entries WHERE CAST(msg AS INTEGER) > 0";
    const told = new Set<string | undefined>();
    for (let i = 0; i < 20; i++) {
      told.add((await failureOf(sql, sources)).told?.message.split("\n")[0]);
    }
    expect([...told]).toEqual([
      "Conversion Error: Could not convert string 'x' to INT32 when casting from source column msg",
    ]);
  });

  it("is whole when nothing fails", async () => {
    const sql = late("CASE WHEN i = 1000000 THEN error('boom') ELSE i::VARCHAR END");
    expect((await t.query(sql)).numRows).toBe(1_000_000);
  });
});

describe("an object that was damaged and has been put in order", () => {
  it.each([
    ["fetched", "SELECT count(DISTINCT msg) AS n FROM log_entries", 1],
    ["taken in place", "SELECT msg FROM log_entries", 5000],
  ])("is read anew by the engine that failed on it, its rows %s", async (_how, sql, rows) => {
    const one = await startTestBackend({ engines: 1 });
    try {
      await mkdir(one.lakeDirectory, { recursive: true });
      const file = path.join(one.lakeDirectory, "a.parquet");
      const copy = (from: number): Promise<void> =>
        written(
          file,
          `SELECT make_timestamp_ns(i) AS time, md5(i::VARCHAR) AS msg FROM range(${from}, ${from + 5000}) t(i)`,
        );
      await copy(0);
      const good = await readFile(file);
      await writeFile(file, Buffer.from(good).fill(0xff, 100, Math.floor(good.length * 0.8)));
      // DuckDB goes by the second in which a file was changed.
      await utimes(file, 1, 1);
      const source = { ...emptySource, groups: [{ audience: "public", paths: [file] }] };
      const from: TestSources = { files: [{ name: "log_entries", view: "log_entries", sources: [source] }], rows: [] };
      const unreadable = { code: "INTERNAL", publicMessage: expect.stringContaining("cannot be read") as string };
      await expect(one.query(sql, from)).rejects.toMatchObject(unreadable);
      const before = one.engines.pids;
      await writeFile(file, good);
      const { numRows } = await one.query(sql, from);
      expect({ numRows, engines: one.engines.pids }).toEqual({ numRows: rows, engines: before });
      // Another file under its name, and what an engine remembers is the first one's.
      await utimes(file, 2, 2);
      await copy(7000);
      const last = await one.query("SELECT max(time) AS t FROM log_entries WHERE epoch_ns(time) > 10000", from);
      expect(Number(last.getChild("t")?.get(0))).toBeGreaterThan(0);
    } finally {
      await one.stop();
    }
  });
});

/** Writes the rows of a query to a file. */
async function written(file: string, sql: string): Promise<void> {
  const instance = await DuckDBInstance.create(":memory:");
  const connection = await instance.connect();
  await connection.run(`COPY (${sql}) TO '${file}'`);
  connection.closeSync();
  instance.closeSync();
}

async function outcome(sql: string): Promise<string> {
  try {
    let messages = 0;
    const stream = t.run({ sql, explain: "none" }, sources);
    for await (const message of stream) {
      messages += message.length > 0 ? 1 : 0;
    }
    return `${messages} messages`;
  } catch (error) {
    return toServiceError(error).code;
  }
}

it("that fail, however many, leave no memory taken", async () => {
  const outcomes = new Set<string>();
  for (let i = 0; i < 200; i++) {
    outcomes.add(await outcome("SELECT CAST(a AS INTEGER) FROM p UNION ALL SELECT b FROM q"));
  }
  expect([...outcomes]).toEqual(["BAD_REQUEST"]);
  expect(await outcome("SELECT a FROM p")).toBe("2 messages");
});
