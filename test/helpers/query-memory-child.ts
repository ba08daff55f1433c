/**
 * A query in a process of its own: SQL comes in by standard input, and a line of JSON with the code of its end
 * and the most that the process grew by, in MiB, goes out.
 */
import { readFileSync } from "node:fs";

import { toServiceError } from "../../src/runtime/errors.js";
import { noSources, startTestPool } from "./query-pool.js";

function highWaterMiB(): number {
  const status = readFileSync("/proc/self/status", "utf8");
  return Number(/VmHWM:\s+(?<kb>\d+)/u.exec(status)?.groups?.["kb"] ?? "NaN") / 1024;
}

const sql = readFileSync(0, "utf8");
const t = await startTestPool({ memoryLimitBytes: 256 << 20 });
await t.query("SELECT 1");
const before = highWaterMiB();
let outcome = "OK";
try {
  const { executable } = await t.pool.inspect(sql);
  const messages = t.pool.run(executable, noSources, new AbortController().signal);
  for await (const message of messages) if (message.length === 0) outcome = "EMPTY";
} catch (error) {
  outcome = toServiceError(error).code;
}
process.stdout.write(`${JSON.stringify({ outcome, grownMiB: highWaterMiB() - before })}\n`);
await t.stop();
