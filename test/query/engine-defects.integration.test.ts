/** Statements that DuckDB cannot work out because of a defect of its own. */
import { status } from "@grpc/grpc-js";
import { beforeAll, describe, expect, it } from "vitest";

import { lakeInstance } from "../../src/query/backend/engine-instances.js";
import { engineDefect } from "../../src/query/backend/scrub.js";
import { toServiceError } from "../../src/runtime/errors.js";
import { startTestBackend, type TestBackend } from "../helpers/query/query-backend.js";
import { startTestAnalytics, type TestAnalytics } from "../helpers/servers/analytics.js";

/** A window that is ordered by a lambda, within a lambda: its optimizer meets a reference that it does not expect. */
const defective = (from: string): string =>
  `SELECT list_transform(['a'], lambda x: x || CAST(dense_rank() OVER (ORDER BY [y FOR y IN [t] IF y > 'p']) AS VARCHAR)) AS v FROM ${from}`;
const defectiveRows = defective("(SELECT 'x' AS t)");

describe("a statement that DuckDB has a defect about", () => {
  let t: TestAnalytics;

  beforeAll(async () => {
    t = await startTestAnalytics();
    return () => t.stop();
  });

  it("is INTERNAL in words, with a request id and nothing of the inside, however often it comes", async () => {
    for (let i = 0; i < 4; i++) {
      const sql = defective("(SELECT target AS t FROM log_stats)");
      const failure = await t.caller.failure(sql);
      expect(failure.status).toBe(status.INTERNAL);
      expect(failure.message).toMatch(/internal error of its own .*rephrase/u);
      expect(failure.message).toMatch(/^[a-z ;]+; request id [0-9a-f-]{36}$/u);
      expect(await t.caller.rows("SELECT 7 AS n")).toEqual([{ n: 7 }]);
    }
    expect(await t.metrics.text()).not.toMatch(/^query_engine_losses_total\{.*\} [1-9]/mu);
  });
});

describe("an engine that meets a defect of DuckDB's", () => {
  let t: TestBackend;

  beforeAll(async () => {
    t = await startTestBackend({ engines: 1 });
    return () => t.stop();
  });

  it("says so while it runs, too, and serves on", async () => {
    const [pid] = t.engines.pids;
    const read = async (): Promise<number> => {
      let messages = 0;
      for await (const message of t.run({ sql: defectiveRows, explain: "none" })) {
        messages += message.length > 0 ? 1 : 0;
      }
      return messages;
    };
    const failure = await read().then(() => null, toServiceError);
    expect(failure).toMatchObject({ code: "INTERNAL", publicMessage: engineDefect });
    expect((await t.query("SELECT 7 AS n")).get(0)?.toJSON()).toEqual({ n: 7 });
    expect(t.engines.pids).toEqual([pid]);
  });

  const told = { error: expect.stringMatching(/^INTERNAL Error: [^\n]*$/u) as unknown };

  it.each([
    ["a step that may fail", true, { results: [told], end: { error: null } }],
    ["any other", false, { results: [], end: { kind: "duckdb" } }],
  ])("in %s opens another instance for who comes next", async (_what, optional, expected) => {
    const instance = lakeInstance([t.lakeDirectory]);
    const lease = await t.engines.lease(instance, new AbortController().signal);
    await lease.run(instance, [{ kind: "execute", sql: "CREATE TABLE seen (i INTEGER)" }]);
    const outcome = await lease.run(instance, [{ kind: "rows", sql: defectiveRows, maxBytes: 1000, optional }]);
    expect(outcome).toMatchObject(expected);
    const after = await lease.run(instance, [{ kind: "rows", sql: "SELECT count(*) FROM seen", maxBytes: 1000 }]);
    lease.release();
    expect(after).toMatchObject({
      end: { error: expect.stringContaining("does not exist") as unknown },
    });
  });
});
