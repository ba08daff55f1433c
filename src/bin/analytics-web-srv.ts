#!/usr/bin/env node
/** `analytics-web-srv`: the web server as a process of its own. */
import { startWebServer } from "../servers/web.js";
import { runProgram } from "./run-program.js";

await runProgram({
  role: "web",
  name: "analytics-web-srv",
  summary: "serves the web application; administers keys, grants and groups over HTTP.",
  async start({ config, scope, telemetry }) {
    const { logger, metrics } = telemetry;
    const connectionString = config.sqlConnectionString;
    await scope.start("web server", () => startWebServer({ config, connectionString, logger, metrics }));
    await telemetry.report(scope, null);
  },
});
