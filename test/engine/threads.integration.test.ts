/** Engines on machines of many cores: each thread needs memory of its own, and address space for its stack. */
import { afterEach, expect, it } from "vitest";

import { sizeEngines } from "../../src/query/backend/engine-sizing.js";
import { startTestBackend, type TestBackend } from "../helpers/query/query-backend.js";
import { startEngine, type TestEngine } from "../helpers/query/engine.js";

let backend: TestBackend | null = null;
let engine: TestEngine | null = null;

afterEach(async () => {
  await backend?.stop();
  await engine?.stop();
  backend = null;
  engine = null;
});

it("takes the stacks of threads from no query's memory", async () => {
  backend = await startTestBackend({ engines: 1, memoryBytes: 64 << 20, threads: 32 });
  // The two kinds of instances are open then, and each has its threads.
  await backend.query("SELECT 1");
  const table = await backend.query("SELECT count(DISTINCT 'request ' || i) AS texts FROM range(1000000) r(i)");
  expect(Number(table.get(0)?.["texts"])).toBe(1_000_000);
});

it("groups the rows of a file in as many threads of 64 cores as its memory lasts for", async () => {
  engine = await startEngine();
  const file = `${engine.tempDirectory}/rows.parquet`;
  const instance = { directories: [engine.tempDirectory], tempBytes: 2 ** 31 };
  const rows = `SELECT 'request ' || i || ' took ' || i * 7919 % 1000 || ' ms' AS msg, md5('' || i) AS trace_id
    FROM range(1500000) r(i)`;
  await engine.run([{ kind: "rows", sql: `COPY (${rows}) TO '${file}' (ROW_GROUP_SIZE 30720)`, maxBytes: 1 << 20 }], {
    instance,
  });
  const sql = `SELECT count(DISTINCT msg) AS n, count(DISTINCT trace_id) AS m FROM read_parquet('${file}')`;
  const memoryBytes = 128 << 20;
  const sizing = { maxConcurrent: 1, memoryBytes, processBytes: 0, machineBytes: 2 ** 34, cores: 64 };
  const { threads } = sizeEngines(sizing);
  const { end } = await engine.run([{ kind: "stream", sql, messageBytes: 1 << 20 }], {
    instance: { ...instance, key: "grouping", memoryBytes, threads },
  });
  expect(end).toMatchObject({ error: null, rows: 1 });
  const { end: inAll } = await engine.run([{ kind: "stream", sql, messageBytes: 1 << 20 }], {
    instance: { ...instance, key: "in all", memoryBytes, threads: 64 },
  });
  expect(inAll.error).toMatch(/^Out of Memory Error/u);
});
