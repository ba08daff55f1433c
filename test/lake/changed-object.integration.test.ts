/** What an operator does about an object whose bytes have changed, by what the service itself says. */
import path from "node:path";

import { afterEach, expect, it } from "vitest";

import { mintAnalyticsKey } from "../../src/auth/keys/keys.js";
import { runTask } from "../../src/lake/check/lake-tasks.js";
import { checkLake } from "../../src/lake/check/check-lake.js";
import { parseConfig } from "../../src/runtime/config/parse.js";
import { Scope } from "../../src/runtime/lifecycle.js";
import { createMetrics } from "../../src/runtime/metrics.js";
import { systemClock } from "../../src/runtime/clock.js";
import { startAnalyticsServer } from "../../src/servers/analytics.js";
import { createTappedLogger } from "../helpers/cleartext/cleartext-tap.js";
import { connectRows } from "../helpers/flight/flight-rows.js";
import { changeBytes } from "../helpers/lake/change-bytes.js";
import { startMergeLab } from "../helpers/lake/lake-merge.js";
import { addAged, askErasure, publishedValues, taskContext, taskRow } from "../helpers/lake/lake-tasks.js";

const scope = new Scope("test", createTappedLogger());
afterEach(() => scope.stop());

it("goes by the statement in the error of an erasure, word for word, which then finds what is left", async () => {
  const lab = await startMergeLab();
  scope.defer("lab", () => lab.stop());
  await lab.sql`update lake_state set seen_at = now()`;
  const add = (name: string, audience = "a"): Promise<{ readonly path: string }> =>
    addAged(lab, {
      table: "log_entries",
      audience,
      rowsSql: `SELECT make_timestamp_ns(1) AS time, '${name}-' || s AS msg, s AS service_name, '{}' AS properties
        FROM (VALUES ('shop'), ('bank')) AS t (s)`,
    });
  await add("whole");
  const { path: changed } = await add("changed");
  await add("other", "b");
  await changeBytes(path.join(lab.lake.directory, changed));
  const erase = async (): Promise<string> => {
    const taskId = await askErasure(lab, { audience: "a", where: { service: "shop" } });
    await runTask(taskContext(lab), taskId).catch(() => undefined);
    return taskId;
  };
  const failed = await taskRow(lab, await erase());
  expect(failed).toMatchObject({ state: "failed", rows: 1 });
  // Neither another erasure nor a repair gets past it.
  expect(await taskRow(lab, await erase())).toMatchObject({ state: "failed", rows: 0 });
  const context = { ...taskContext(lab), clock: systemClock };
  expect((await checkLake(context, { repair: true, deep: true })).problems).toMatchObject([
    { kind: "wrong_checksum", path: changed, rows: 2, mended: false },
  ]);
  expect(await publishedValues(lab, "log_entries", "msg")).toContain("changed-shop");

  const { key } = await mintAnalyticsKey(lab.sql, { name: "admin", createdBy: "test" });
  const server = await startAnalyticsServer({
    config: parseConfig("analytics", [], {
      SVC_ANALYTICS_LISTEN: "127.0.0.1:0",
      SVC_ANALYTICS_HEALTH_LISTEN: "127.0.0.1:0",
      SVC_AUTH_CACHE_TTL_SECONDS: "0",
    }),
    connectionString: lab.connectionString,
    objectStoreUri: lab.lake.uri,
    logger: createTappedLogger(),
    metrics: createMetrics(),
  });
  scope.defer("server", () => server.stop());
  const caller = connectRows(server.address.port, key, "admin");
  scope.defer("caller", () => {
    caller.close();
    return Promise.resolve();
  });
  const statement = /run (?<sql>SELECT .*?\)) as/u.exec(String(failed?.error))?.groups?.["sql"] ?? "";
  // Who may not read the audience is told so, as docs/retention.md says.
  await expect(caller.rows(statement)).rejects.toThrow("No partition of an audience that you may read has this path.");
  await lab.sql`insert into audience_grants (audience, kind, member, created_by) values ('a', 'read', '*', 'test')`;
  expect(await caller.rows(statement)).toMatchObject([{ path: changed, row_count: 2n }]);
  expect(await taskRow(lab, await erase())).toMatchObject({ state: "done", rows: 0, error: null });
  const left = await publishedValues(lab, "log_entries", "msg");
  expect(left.toSorted()).toEqual(["other-bank", "other-shop", "whole-bank"]);
});
