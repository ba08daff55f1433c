#!/usr/bin/env node
/** `object-cache-srv`: a cache of objects that several servers share. */
import { startObjectCacheServer } from "../servers/object-cache.js";
import { runProgram } from "./run-program.js";

await runProgram({
  role: "object-cache",
  name: "object-cache-srv",
  summary: "keeps objects of an object store near the servers that read them.",
  async start({ config, scope, telemetry }) {
    const { logger, metrics } = telemetry;
    await scope.start("object cache", () => startObjectCacheServer({ config, logger, metrics }));
    await telemetry.report(scope, null);
  },
});
