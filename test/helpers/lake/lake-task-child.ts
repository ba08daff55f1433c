/**
 * Does a task, or runs a merge, retention, trimming or the removal of retired objects, and kills itself at a point:
 * connection string, store, temp directory, the work as JSON, the point, and at which of its times.
 */
import { fileURLToPath } from "node:url";

import { connect } from "../../../src/db/sql.js";
import { runTask } from "../../../src/lake/check/lake-tasks.js";
import { mergePartitions } from "../../../src/lake/merge/merge.js";
import { applyRetention } from "../../../src/lake/retention/retention.js";
import { sweepRetired } from "../../../src/lake/retire.js";
import { trim } from "../../../src/lake/rewrite/trim.js";
import { openObjectStore } from "../../../src/lake/store/open-store.js";
import { systemClock } from "../../../src/runtime/clock.js";
import { createSilentLogger } from "../../../src/runtime/log/log.js";
import { watchFiles } from "./file-points.js";
import { killAt } from "./kill-at.js";
import { mergeLimits } from "./lake-merge-limits.js";
import { mergeRequest, type MergeWork } from "./merge-work.js";

const [connectionString = "", uri = "", tempDirectory = "", work = "", point = "", nth = ""] = process.argv.slice(2);
const sql = connect({
  connectionString,
  maxConnections: 2,
  applicationName: "task-child",
  logger: createSilentLogger(),
});
const at = killAt(point, Number(nth));
const asked = JSON.parse(work) as {
  readonly task?: string;
  readonly retentionDays?: number;
  readonly trimDays?: number;
  readonly merge?: MergeWork;
  readonly sweep?: true;
};
const policyOf = (defaultDays: number) => ({ defaultDays, unstampedAudience: "public", overrides: [] });
const context = {
  sql,
  store: await openObjectStore(uri),
  root: fileURLToPath(uri),
  limits: mergeLimits(tempDirectory),
  clock: systemClock,
  cancelled: () => false,
  unstampedAudience: "public",
  at,
};
watchFiles((reached) => void at(reached));
if (asked.task !== undefined) {
  await runTask(context, asked.task);
} else if (asked.merge !== undefined) {
  await mergePartitions(context, mergeRequest(asked.merge));
} else if (asked.sweep !== undefined) {
  await sweepRetired(sql, context.store, 0);
} else if (asked.trimDays !== undefined) {
  await trim(context, policyOf(asked.trimDays));
} else {
  await applyRetention({ sql, policy: policyOf(asked.retentionDays ?? 0), cancelled: () => false, at });
}
await sql.end({ timeout: 5 });
