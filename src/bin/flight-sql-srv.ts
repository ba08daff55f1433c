#!/usr/bin/env node
/** `flight-sql-srv`: the analytics server as a process of its own. */
import { ServiceError } from "../runtime/errors.js";
import { startAnalyticsServer } from "../servers/analytics.js";
import { objectStoreUriOf } from "../servers/object-store-uri.js";
import { runProgram } from "./run-program.js";

await runProgram({
  role: "analytics",
  name: "flight-sql-srv",
  summary: "answers SQL over Arrow Flight SQL.",
  async start({ config, scope, telemetry }) {
    const { logger, metrics, span } = telemetry;
    const connectionString = config.sqlConnectionString;
    if (connectionString === null) {
      throw new ServiceError(
        "NOT_CONFIGURED",
        "SVC_SQL_CONNECTION_STRING must name the telemetry database; the ingestion server or the monolith creates it.",
      );
    }
    const objectStoreUri = objectStoreUriOf(config);
    await scope.start("analytics server", () =>
      startAnalyticsServer({ config, connectionString, objectStoreUri, logger, metrics, span }),
    );
    await telemetry.report(scope, null);
  },
});
