#!/usr/bin/env node
/** `telemetry-maintenance-srv`: maintenance of the lake as a process of its own. */
import { ServiceError } from "../runtime/errors.js";
import { startMaintenance } from "../servers/maintenance.js";
import { objectStoreUriOf } from "../servers/object-store-uri.js";
import { runProgram } from "./run-program.js";

await runProgram({
  role: "maintenance",
  name: "telemetry-maintenance-srv",
  summary: "merges, trims, erases and checks what the lake holds.",
  async start({ config, scope, telemetry }) {
    const { logger, metrics } = telemetry;
    const connectionString = config.sqlConnectionString;
    if (connectionString === null) {
      throw new ServiceError(
        "NOT_CONFIGURED",
        "SVC_SQL_CONNECTION_STRING must name the telemetry database; the ingestion server or the monolith creates it.",
      );
    }
    const objectStoreUri = objectStoreUriOf(config);
    await scope.start("maintenance", () =>
      startMaintenance({ config, connectionString, objectStoreUri, logger, metrics, alone: true }),
    );
    await telemetry.report(scope, null);
  },
});
