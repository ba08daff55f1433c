/** A server of nothing but engines, one of which computes without end; it tells their pids, and waits to be killed. */
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";

import { EngineSupervisor } from "../../../src/engine/supervisor.js";
import { lakeInstance } from "../../../src/query/backend/engine-instances.js";
import { createSilentLogger } from "../../../src/runtime/log/log.js";
import { createMetrics } from "../../../src/runtime/metrics.js";

const engines = await EngineSupervisor.start({
  engines: 2,
  spares: 2,
  memoryBytes: 128 << 20,
  tempBytes: 0,
  tempDirectory: mkdtempSync(path.join(tmpdir(), "telemetry-test-engines-")),
  threads: 1,
  logger: createSilentLogger(),
  metrics: createMetrics(),
});
const instance = lakeInstance([]);
const lease = await engines.lease(instance, new AbortController().signal);
const sql = "SELECT count(*) FROM range(10000000000) a, range(10000000000) b WHERE a.range + b.range = -1";
void lease.run(instance, [{ kind: "rows", sql, maxBytes: 100 }]);
process.stdout.write(JSON.stringify(engines.pids));
process.stdin.resume();
