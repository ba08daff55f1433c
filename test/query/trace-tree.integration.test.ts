/** `trace_tree` against a second implementation, over trees made by hand and by chance. */
import { beforeAll, describe, expect, it } from "vitest";

import { startTestAnalytics, type TestAnalytics } from "../helpers/servers/analytics.js";
import { addPartition } from "../helpers/lake/lake.js";
import { seededRandom } from "../helpers/seeded-random.js";
import { noon } from "../helpers/noon.js";

/** A span; times in milliseconds after noon. */
interface Span {
  readonly id: string;
  readonly parent: string | null;
  readonly begin: number;
  readonly end: number;
  readonly name?: string;
}

let t: TestAnalytics;

beforeAll(async () => {
  t = await startTestAnalytics();
  return () => t.stop();
});

let traces = 0;

const spanId = (id: string): string => Buffer.from(id.padStart(8)).toString("hex");

/** Stores the spans as a trace. @returns its id */
async function store(spans: readonly Span[]): Promise<string> {
  traces++;
  const trace = traces.toString(16).padStart(32, "a");
  const rows = spans.map(({ id, parent, begin, end, name = id }) => {
    const parentId = parent === null ? "NULL" : `'${spanId(parent)}'`;
    return `(${begin}, ${end}, '${spanId(id)}', ${parentId}, '${name}')`;
  });
  const at = (column: string): string => `make_timestamp_ns(${noon} + CAST(${column} * 1000000 AS BIGINT))`;
  await addPartition(t.lake, t.sql, {
    table: "spans",
    audience: "public",
    rowsSql: `SELECT ${at("b")} AS time, ${at("e")} AS end_time, CAST((e - b) * 1000000 AS BIGINT) AS duration_ns, '${trace}' AS trace_id, s AS span_id, p AS parent_span_id, n AS name, 'svc ' || n AS service_name, '{}' AS properties, 1 AS kind, 2 AS status_code
      FROM (VALUES ${rows.join(", ")}) AS v(b, e, s, p, n)`,
  });
  return trace;
}

interface Row {
  readonly name: unknown;
  readonly depth: unknown;
  readonly path: unknown;
  readonly self_ms: unknown;
  readonly is_orphan: unknown;
}

async function treeOf(trace: string): Promise<Row[]> {
  const rows = await t.plainRows(`SELECT name, depth, path, self_ms, is_orphan FROM trace_tree('${trace}')`);
  return rows as unknown as Row[];
}

/** The tree as it should be: by recursion, and by counting milliseconds. */
function expected(spans: readonly Span[]): Row[] {
  const ordered = spans.toSorted((a, b) => a.begin - b.begin || (spanId(a.id) < spanId(b.id) ? -1 : 1));
  const byId = new Map(ordered.toReversed().map((span) => [span.id, span]));
  const parents = new Map(ordered.map((span) => [span, span.parent === null ? undefined : byId.get(span.parent)]));
  for (const span of ordered) {
    // The earliest of a circle is met first, and opens it.
    const seen = new Set<Span>();
    let up = parents.get(span);
    while (up !== undefined && up !== span && !seen.has(up)) {
      seen.add(up);
      up = parents.get(up);
    }
    if (up === span) {
      parents.set(span, undefined);
    }
  }
  const rows: Row[] = [];
  const visit = (span: Span, names: readonly string[]): void => {
    const name = span.name ?? span.id;
    const children = ordered.filter((child) => parents.get(child) === span);
    let own = 0;
    for (let ms = span.begin; ms < span.end; ms++) {
      own += children.some((child) => child.begin <= ms && child.end > ms) ? 0 : 1;
    }
    const shown = names.length > 16 ? ["...", ...names.slice(-16)] : names;
    rows.push({
      name,
      depth: names.length,
      path: [...shown, name].join(" > "),
      self_ms: own,
      is_orphan: parents.get(span) === undefined && span.parent !== null,
    });
    for (const child of children) {
      visit(child, [...names, name]);
    }
  };
  for (const root of ordered.filter((span) => parents.get(span) === undefined)) {
    visit(root, []);
  }
  return rows;
}

describe("trace_tree", () => {
  it("shows spans depth first, by start, with their own time", async () => {
    const trace = await store([
      { id: "root", parent: null, begin: 0, end: 100 },
      { id: "late", parent: "root", begin: 40, end: 70 },
      { id: "early", parent: "root", begin: 10, end: 50 },
      { id: "leaf", parent: "early", begin: 15, end: 20 },
      { id: "async", parent: "root", begin: 90, end: 150 },
    ]);
    expect(await treeOf(trace)).toEqual([
      { name: "root", depth: 0, path: "root", self_ms: 30, is_orphan: false },
      { name: "early", depth: 1, path: "root > early", self_ms: 35, is_orphan: false },
      { name: "leaf", depth: 2, path: "root > early > leaf", self_ms: 5, is_orphan: false },
      { name: "late", depth: 1, path: "root > late", self_ms: 30, is_orphan: false },
      { name: "async", depth: 1, path: "root > async", self_ms: 60, is_orphan: false },
    ]);
    expect(
      await t.plainRows(`SELECT start_ms, duration_ms, service_name, status, is_error, kind_name, audience, trace_id
        FROM trace_tree('${trace.toUpperCase()}') WHERE name = 'early'`),
    ).toEqual([
      {
        start_ms: 10,
        duration_ms: 40,
        service_name: "svc early",
        status: "error",
        is_error: true,
        kind_name: "internal",
        audience: "public",
        trace_id: trace,
      },
    ]);
  });

  it("makes roots of spans whose parent is missing, and of the earliest of a circle", async () => {
    const trace = await store([
      { id: "orphan", parent: "nobody", begin: 5, end: 6 },
      { id: "child", parent: "orphan", begin: 5, end: 6 },
      { id: "self", parent: "self", begin: 7, end: 9 },
      { id: "b", parent: "c", begin: 1, end: 2 },
      { id: "c", parent: "b", begin: 0, end: 3 },
      { id: "tail", parent: "b", begin: -1, end: 0 },
    ]);
    expect((await treeOf(trace)).map(({ name, depth, is_orphan: orphan }) => [name, depth, orphan])).toEqual([
      ["c", 0, true],
      ["b", 1, false],
      ["tail", 2, false],
      ["orphan", 0, true],
      ["child", 1, false],
      ["self", 0, true],
    ]);
  });

  it("gives a span of negative duration no own time", async () => {
    const trace = await store([{ id: "back", parent: null, begin: 5, end: 2 }]);
    expect(await t.plainRows(`SELECT duration_ms, self_ms FROM trace_tree('${trace}')`)).toEqual([
      { duration_ms: -3, self_ms: 0 },
    ]);
  });

  it("shows spans of one id, of which the earliest has the children", async () => {
    const trace = await store([
      { id: "root", parent: null, begin: 0, end: 10 },
      { id: "twin", parent: "root", begin: 1, end: 9, name: "first" },
      { id: "twin", parent: "root", begin: 2, end: 8, name: "second" },
      { id: "child", parent: "twin", begin: 3, end: 4 },
    ]);
    expect((await treeOf(trace)).map(({ path }) => path)).toEqual([
      "root",
      "root > first",
      "root > first > child",
      "root > second",
    ]);
  });

  const seed = Date.now() % 1_000_000;
  it(`is that of a second implementation (seed ${seed})`, async () => {
    const random = seededRandom(seed);
    const below = (n: number): number => Math.floor(random() * n);
    for (const size of [1, 2, 3, 5, 8, 13, 40, 40, 40, 120]) {
      const deep = random() < 0.4;
      const spans = Array.from({ length: size }, (_, i): Span => {
        const begin = below(60);
        // Now and then nobody, itself, or any other, which makes circles.
        const other = random() < 0.05 ? below(size + 2) : deep ? i - 1 : below(Math.max(1, i));
        const parent = i === 0 && random() < 0.8 ? null : `s${other}`;
        return { id: `s${i}`, parent, begin, end: begin + below(40) };
      });
      expect(await treeOf(await store(spans))).toEqual(expected(spans));
    }
  });

  it("shows chains of many thousand spans", async () => {
    const size = 100_000;
    await addPartition(t.lake, t.sql, {
      table: "spans",
      audience: "public",
      rowsSql: `SELECT make_timestamp_ns(${noon} - i * 1000) AS time, make_timestamp_ns(${noon}) AS end_time, i * 1000 AS duration_ns, '${"c".repeat(32)}' AS trace_id, printf('%016x', i) AS span_id, if(i = ${size - 1}, NULL, printf('%016x', i + 1)) AS parent_span_id, 's' AS name FROM range(${size}) t(i)`,
    });
    const [row] = await t.plainRows(
      `SELECT count(*)::INTEGER AS n, max(depth) AS deepest, count(DISTINCT depth)::INTEGER AS depths, sum(round(self_ms * 1e6))::BIGINT AS own FROM trace_tree('${"c".repeat(32)}')`,
    );
    expect(row).toEqual({ n: size, deepest: size - 1, depths: size, own: (size - 1) * 1000 });
  });

  it("shows 10,000 spans at once", async () => {
    const trace = "e".repeat(32);
    await addPartition(t.lake, t.sql, {
      table: "spans",
      audience: "public",
      rowsSql: `SELECT make_timestamp_ns(${noon} + i * 1000) AS time, make_timestamp_ns(${noon} + i * 1000 + 500000) AS end_time, 500000 AS duration_ns, '${trace}' AS trace_id, printf('%016x', i + 1) AS span_id, if(i = 0, NULL, printf('%016x', (i - 1) // 8 + 1)) AS parent_span_id, 'operation ' || i % 50 AS name, 'service ' || i % 7 AS service_name FROM range(10000) t(i)`,
    });
    expect(
      await t.plainRows(`SELECT count(*)::INTEGER AS n, max(depth) AS deepest FROM trace_tree('${trace}')`),
    ).toEqual([{ n: 10_000, deepest: 5 }]);
  });

  it("refuses what is no trace id, and traces beyond all measure", async () => {
    for (const call of [
      "trace_tree('abc')",
      "trace_tree()",
      "trace_tree(NULL)",
      "trace_tree('a', 'b')",
      "trace_tree(5)",
    ]) {
      await expect(t.plainRows(`SELECT 1 FROM ${call}`)).rejects.toThrow(
        "trace_tree takes a trace id, 32 hexadecimal digits, as text",
      );
    }
    await addPartition(t.lake, t.sql, {
      table: "spans",
      audience: "public",
      rowsSql: `SELECT make_timestamp_ns(${noon}) AS time, '${"d".repeat(32)}' AS trace_id FROM range(250001)`,
    });
    await expect(t.plainRows(`SELECT count(*) FROM trace_tree('${"d".repeat(32)}')`)).rejects.toThrow(
      "at most 250000 spans",
    );
  });

  it("has no rows for a trace that there is not", async () => {
    expect(await t.plainRows(`SELECT * FROM trace_tree('${"0".repeat(32)}')`)).toEqual([]);
  });
});
