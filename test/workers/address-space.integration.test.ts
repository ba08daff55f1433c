/** A process that may not reserve what WebAssembly takes. */
import { spawnSync } from "node:child_process";

import { expect, test } from "vitest";

test("a start that lacks address space says so, and what to do", ({ skip }) => {
  skip(process.platform !== "linux", "address space is limited as Linux does");
  const script = `
    import { startEncodePool } from ${JSON.stringify(new URL("../../src/workers/encode-client.js", import.meta.url).href)};
    import { createSilentLogger } from ${JSON.stringify(new URL("../../src/runtime/log/log.js", import.meta.url).href)};
    import { createMetrics } from ${JSON.stringify(new URL("../../src/runtime/metrics.js", import.meta.url).href)};
    import { systemClock } from ${JSON.stringify(new URL("../../src/runtime/clock.js", import.meta.url).href)};
    await startEncodePool({ threads: 1, objectStoreUri: "file:///tmp", maxInflatedBytes: 1, maxDepth: 100, compression: "none",
      batchBytes: 1, clock: systemClock, logger: createSilentLogger(), metrics: createMetrics() })
      .then((pool) => pool.stop(), (error) => console.log(error.message));`;
  const run = (limit: string): string =>
    spawnSync("bash", ["-c", `ulimit -v ${limit}; exec "${process.execPath}" --input-type=module -e "$0"`, script], {
      encoding: "utf8",
    }).stdout;
  expect(run("unlimited")).toBe("");
  expect(run("8000000")).toBe(
    "the threads of encode cannot be started: the system gives no address space for WebAssembly, which reserves 10 GiB for each thread that decodes: lift the limit (ulimit -v)\n",
  );
});
