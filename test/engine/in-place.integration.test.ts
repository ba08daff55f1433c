/** Rows that are taken where they are computed: that all of them come, once, and that whatever ends them is told. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

import { type Table, tableFromIPC } from "apache-arrow";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import type { EngineStep, JobEnd } from "../../src/engine/protocol.js";
import { ipcOf } from "../helpers/flight/flight-ipc.js";
import { type JobOutcome, startEngine, type TestEngine } from "../helpers/query/engine.js";

let engine: TestEngine;

beforeAll(async () => {
  engine = await startEngine();
  return () => engine.stop();
});

type StreamStep = EngineStep & { readonly kind: "stream" };

function stepOf(sql: string, columns: string, more: Partial<StreamStep> = {}): StreamStep {
  const names = columns.split(" ").map((name) => ({ name, children: [] }));
  return { kind: "stream", inPlace: true, sql, names, messageBytes: 10_000, ...more };
}

async function query(sql: string, columns: string): Promise<Table> {
  const { messages, end } = await engine.run([stepOf(sql, columns)]);
  expect(end.error).toBe(null);
  return tableFromIPC(messages.flatMap(ipcOf));
}

const texts = "SELECT i, 'row ' || i AS t FROM range(100000) r(i)";

describe("rows taken in place", () => {
  it("all come, in their order", async () => {
    const table = await query(texts, "i t");
    expect(Array.from(table.getChild("i") ?? [], Number)).toEqual(Array.from({ length: 100_000 }, (_, i) => i));
    expect(table.getChild("t")?.get(99_999)).toBe("row 99999");
  });

  it("all come where columns are NULL, constant, alike or have the same name", async () => {
    const table = await query(
      "SELECT NULL::VARCHAR AS none, 'always' AS one, i AS same, i AS same FROM range(5000) r(i)",
      "none one a b",
    );
    expect(table.numRows).toBe(5000);
    expect(table.getChild("none")?.nullCount).toBe(5000);
    expect(table.getChild("one")?.get(4999)).toBe("always");
    expect([table.getChild("a")?.get(4999), table.getChild("b")?.get(4999)]).toEqual([4999n, 4999n]);
    expect((await query("SELECT NULL::VARCHAR AS none", "none")).toArray().map(String)).toEqual(['{"none": null}']);
  });

  it("come sorted, grouped, limited, and of statements with comments and WITH", async () => {
    const sorted = await query("SELECT 'x' || i AS t FROM range(3000) r(i) ORDER BY i DESC", "t");
    expect([sorted.getChild("t")?.get(0), sorted.getChild("t")?.get(2999)]).toEqual(["x2999", "x0"]);
    const few = await query(
      "WITH w AS (FROM range(10)) SELECT range % 2 AS k, count(*) FROM w GROUP BY k ORDER BY k -- so",
      "k n",
    );
    expect(few.toArray().map(String)).toEqual(['{"k": 0, "n": 5}', '{"k": 1, "n": 5}']);
    expect((await query(`${texts} LIMIT 3 OFFSET 7`, "i t")).getChild("t")?.toArray()).toEqual([
      "row 7",
      "row 8",
      "row 9",
    ]);
  });

  it("have a schema when there are none", async () => {
    const table = await query(`${texts} LIMIT 0`, "i t");
    expect([table.numRows, table.schema.fields.map(({ name }) => name)]).toEqual([0, ["i", "t"]]);
  });

  it("end behind the most rows, and fail beyond the most bytes", async () => {
    const ended = async (more: Partial<StreamStep>): Promise<JobEnd> =>
      (await engine.run([stepOf(texts, "i t", more)])).end;
    expect(await ended({ maxRows: 4999 })).toMatchObject({ error: null, rows: 4999, truncated: true });
    expect(await ended({ maxRows: 100_000 })).toMatchObject({ error: null, rows: 100_000 });
    expect((await ended({ maxRows: 100_000 })).truncated).toBe(undefined);
    const { kind, bytes } = await ended({ maxBytes: 50_000 });
    expect(kind).toBe("limit");
    expect(bytes).toBeLessThanOrEqual(50_000);
  });

  it("fail as DuckDB says, before the first or later, and never end short", async () => {
    const odd =
      "SELECT CASE WHEN i = 99999 THEN CAST('x' || i AS INTEGER) ELSE i END AS v, 't' AS t FROM range(100000) r(i)";
    const { end, messages } = await engine.run([stepOf(odd, "v t")]);
    expect(end).toMatchObject({
      kind: "duckdb",
      error: expect.stringMatching(/^Conversion Error: .*'x99999'/u) as unknown,
    });
    expect(messages.length).toBeGreaterThan(3);
    expect((await engine.run([stepOf("SELECT error('no') FROM range(5)", "e")])).end.error).toBe(
      "Invalid Input Error: no",
    );
    expect((await engine.run([stepOf("SELECT 1 AS fine, 1::UHUGEINT AS odd", "fine odd")])).end.error).toMatch(
      /^Not implemented Error: column "odd" is UHUGEINT/u,
    );
    const second = stepOf("SELECT nothing", "a", { orElse: "SELECT 5 AS a" });
    expect((await engine.run([second])).end).toMatchObject({ error: null, rows: 1 });
  });

  it("are given up when nobody asks for them, or while they are computed", async () => {
    const given = async (job: Promise<JobOutcome>): Promise<string | undefined> => {
      engine.interrupt();
      return (await job).end.kind;
    };
    expect(await given(engine.run([stepOf(texts, "i t")], { credits: 0 }))).toBe("cancelled");
    expect(await given(engine.run([stepOf(texts, "i t")], { credits: 3 }))).toBe("cancelled");
    const long = "SELECT a.range FROM range(10000000) a, range(10000000) b WHERE hash(a.range + b.range) = 1";
    expect(await given(engine.run([stepOf(long, "a")]))).toBe("cancelled");
    expect((await query(texts, "i t")).numRows).toBe(100_000);
  });

  it("see what the steps before made, and the values of parameters", async () => {
    const { messages } = await engine.run([
      { kind: "execute", sql: "CREATE TEMP TABLE made AS SELECT 'made' AS t" },
      stepOf("SELECT t || $1 FROM made", "t", { values: [{ type: "VARCHAR", text: "!" }] }),
    ]);
    expect(tableFromIPC(messages.flatMap(ipcOf)).getChild("t")?.get(0)).toBe("made!");
  });
});

describe("files of rows taken in place", () => {
  let directory: string;

  beforeAll(() => {
    directory = mkdtempSync(join(tmpdir(), "svc-in-place-"));
    for (const name of ["mine", "other"]) {
      mkdirSync(join(directory, name));
      writeFileSync(join(directory, name, "a.csv"), `x\n${name}\n`);
    }
  });

  afterAll(() => {
    rmSync(directory, { recursive: true, force: true });
  });

  const file = (name: string): string => join(directory, name, "a.csv");

  /** What an instance that has the files of `key` says of those of `name`. */
  async function read(key: string, name: string, inPlace: boolean): Promise<unknown> {
    const step = stepOf(`SELECT x FROM read_csv('${file(name)}')`, "x", { inPlace });
    const { messages, end } = await engine.run([step], { instance: { key, directories: [join(directory, key)] } });
    return end.error ?? tableFromIPC(messages.flatMap(ipcOf)).getChild("x")?.get(0);
  }

  it("are those of the instance, whichever way was taken before", async () => {
    for (const [key, other] of [
      ["mine", "other"],
      ["other", "mine"],
      ["mine", "other"],
    ] as const) {
      for (const inPlace of [true, false, true]) {
        expect(await read(key, key, inPlace)).toBe(key);
        expect(await read(key, other, inPlace)).toMatch(/^Permission Error/u);
      }
    }
  });

  it.each(["SET threads = 4", "SET enable_external_access = true", "SELECT svc_take_rows(1)"])(
    "are behind the same lock, where nothing but a statement's own rows is taken: %s",
    async (sql) => {
      const instance = { key: "mine", directories: [join(directory, "mine")] };
      const others = await engine.run([{ kind: "execute", sql }], { instance });
      expect(others.end.error).toMatch(/^(?:Invalid Input|Catalog) Error/u);
      const first = stepOf("SELECT 'a' AS a", "a");
      const { messages } = await engine.run([{ kind: "rows", sql, maxBytes: 100, optional: true }, first], {
        instance,
      });
      expect(tableFromIPC(messages.flatMap(ipcOf)).toArray().map(String)).toEqual(['{"a": "a"}']);
    },
  );
});
