/** Statements whose trees are large are looked at in a thread of their own: the server goes on meanwhile. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import type { GateThread, GateWork } from "../../src/query/backend/gate-trees.js";
import { createGateThread } from "../../src/workers/gate-client.js";
import { createMetrics } from "../../src/runtime/metrics.js";
import { createTappedLogger } from "../helpers/cleartext/cleartext-tap.js";
import { startTestBackend, type TestBackend } from "../helpers/query/query-backend.js";

const metrics = createMetrics();
const thread = createGateThread({ logger: createTappedLogger(), metrics });
/** Turns of the event loop during the last work, and what was asked of the thread so far. */
let turns = 0;
let works = 0;
const counting: GateThread = async (work, signal) => {
  works++;
  turns = 0;
  let over = false;
  const turn = (): void => {
    turns++;
    if (turns % 100 === 0) {
      void metrics.text();
    }
    if (!over) {
      setImmediate(turn);
    }
  };
  turn();
  try {
    return await thread(work, signal);
  } finally {
    over = true;
  }
};

let threaded: TestBackend;
let plain: TestBackend;
beforeAll(async () => {
  [threaded, plain] = await Promise.all([
    startTestBackend({ engines: 1, memoryBytes: 2 ** 30, gateThread: counting }),
    startTestBackend({ engines: 1 }),
  ]);
});
afterAll(async () => {
  await threaded.stop();
  await plain.stop();
});

const numbers = (count: number): string => Array.from({ length: count }, (_, i) => i).join(",");

describe("a statement with very many constants", () => {
  it("is looked at while the server goes on, to the same end", async () => {
    const sql = `SELECT attr(properties, 'http.route') AS route, count(*) AS n FROM spans
      WHERE time >= TIMESTAMP '2026-01-01' AND duration_ns IN (${numbers(20_000)}) AND process_id = 'p' GROUP BY ALL`;
    const inspection = await threaded.inspect(sql);
    expect(turns).toBeGreaterThan(100);
    // Its metrics were read meanwhile.
    expect(await metrics.text()).toMatch(/^task_pool_threads_up\{pool="gate"\} 0$/mu);
    const [scan] = inspection.scans;
    expect(scan?.minTimeNs).toBe(1_767_225_600_000_000_000n - 1000n);
    expect(scan?.attributes.length).toBe(1);
    const { executable, ...rest } = await plain.inspect(sql);
    expect({ ...rest, sql: named(executable.sql) }).toEqual({
      ...inspection,
      executable: undefined,
      sql: named(inspection.executable.sql),
    });
  });

  it("declares its parameters", async () => {
    const sql = `SELECT 1 AS one WHERE $1::DATE > DATE '2026-01-01' AND $2 IN (${numbers(20_000)})`;
    const declared = await threaded.inspect(sql, { parameters: "declare" });
    expect(declared.parameters).toEqual((await plain.inspect(sql, { parameters: "declare" })).parameters);
    expect(declared.parameters.map(({ field }) => field.type.kind)).toEqual(["date32", "int"]);
  });

  it("is refused with the same sentence", async () => {
    const sql = `SELECT read_text('x') AS t WHERE 1 IN (${numbers(20_000)})`;
    const refusal = { code: "BAD_REQUEST", message: 'The function "read_text" is not available.' };
    await expect(threaded.inspect(sql)).rejects.toMatchObject(refusal);
    await expect(plain.inspect(sql)).rejects.toMatchObject(refusal);
  });

  it("is refused when its tree is larger than an engine may tell", async () => {
    await expect(threaded.inspect(`SELECT 1 WHERE 1 IN (${"0,".repeat(500_000)}0)`)).rejects.toMatchObject({
      code: "BAD_REQUEST",
      message: "The query is too large.",
    });
  });
});

it("a statement as most are is looked at without a thread", async () => {
  const before = works;
  await threaded.inspect(`SELECT count(*) AS n FROM spans WHERE duration_ns IN (${numbers(1000)})`);
  expect(works).toBe(before);
});

it("gives a work up when nobody waits for it, and its thread ends", async () => {
  const gone = new AbortController();
  const working = thread(workOf(1_000_000), gone.signal);
  gone.abort();
  await expect(working).rejects.toMatchObject({ code: "CANCELLED" });
  expect(await metrics.text()).toMatch(/^task_pool_threads_up\{pool="gate"\} 0$/mu);
});

it("a tree that takes more memory than a thread has is too large", async () => {
  const small = createGateThread({ logger: createTappedLogger(), metrics, maxHeapMb: 32 });
  await expect(small(workOf(1_000_000), new AbortController().signal)).rejects.toMatchObject({
    code: "BAD_REQUEST",
    message: "The query is too large.",
  });
});

/** Of a text with so many statements. */
function workOf(statements: number): GateWork {
  const tree = JSON.stringify({ error: false, statements: Array.from({ length: statements }, () => ({ node: {} })) });
  const uses = [{ parameters: "none", templates: null }] as const;
  return { text: "", isExplained: false, admin: false, standIns: false, tree, timeFrame: "{}", templates: [], uses };
}

/** Placeholders and the like that are random. */
function named(sql: string): string {
  return sql.replaceAll(/svc_[0-9a-f]{16,}/gu, "svc");
}
