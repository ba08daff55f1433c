/** The object cache, which kills itself at a step of a fill: the step, and at which of its times. */
import { createMetrics } from "../../../src/runtime/metrics.js";
import { createDefaultDestination, createLogger } from "../../../src/runtime/log/log.js";
import { processEnvironment } from "../../../src/runtime/config/environment.js";
import { parseConfig } from "../../../src/runtime/config/parse.js";
import { startObjectCacheServer } from "../../../src/servers/object-cache.js";

const [point = "", nth = ""] = process.argv.slice(2);
let left = Number(nth);
await startObjectCacheServer({
  config: parseConfig("object-cache", [], processEnvironment()),
  logger: createLogger({ level: "info", service: "cache-child", destination: createDefaultDestination() }),
  metrics: createMetrics(),
  at: (reached) => {
    if (reached !== point || --left > 0) {
      return Promise.resolve();
    }
    process.kill(process.pid, "SIGKILL");
    // It does not return from here.
    return new Promise(() => undefined);
  },
});
