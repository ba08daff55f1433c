#!/usr/bin/env node
/** `flight-sql-srv`: the analytics server as a process of its own. */
import { startAnalyticsServer } from "../servers/analytics.js";
import { sharedStores } from "../servers/stores.js";
import { runProgram } from "./run-program.js";

await runProgram({
  role: "analytics",
  name: "flight-sql-srv",
  summary: "answers SQL over Arrow Flight SQL.",
  async start({ config, scope, telemetry }) {
    const { logger, metrics, span } = telemetry;
    await scope.start("analytics server", () =>
      startAnalyticsServer({ ...sharedStores(config), config, logger, metrics, span }),
    );
    await telemetry.report(scope, null);
  },
});
