/** A process that starts and stops query threads over and over, each time in the middle of something else. */
import { setTimeout as sleep } from "node:timers/promises";

import { endless } from "./endless.js";
import { noSources, startTestPool, type TestPool } from "./query-pool.js";

const statements = [
  endless,
  "SELECT i, repeat('x', 100) AS s FROM range(100000000) t(i)",
  "SELECT hash(i) AS h FROM range(100000000) t(i) ORDER BY h",
  "SELECT 1",
];

/** Reads a query, whatever becomes of it. */
async function read(t: TestPool, sql: string): Promise<void> {
  try {
    const { executable } = await t.pool.inspect(sql);
    for await (const message of t.pool.run(executable, noSources, new AbortController().signal)) {
      if (message.length === 0) return;
    }
  } catch (error) {
    const { code } = error as { code?: string };
    if (code !== "CANCELLED" && code !== "UNAVAILABLE" && code !== "PAYLOAD_TOO_LARGE") throw error;
  }
}

const rounds = Number(process.argv[2]);
for (let round = 0; round < rounds; round++) {
  const t = await startTestPool({ threads: 2, queriesPerThread: 8 });
  const reading = statements.concat(statements).map((sql) => read(t, sql));
  await sleep(round * 7);
  await t.stop();
  await Promise.all(reading);
}
console.log(`${rounds} stops`);
