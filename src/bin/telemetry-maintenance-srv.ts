#!/usr/bin/env node
/** `telemetry-maintenance-srv`: maintenance of the lake as a process of its own. */
import { startMaintenance } from "../servers/maintenance.js";
import { sharedStores } from "../servers/stores.js";
import { runProgram } from "./run-program.js";

await runProgram({
  role: "maintenance",
  name: "telemetry-maintenance-srv",
  summary: "merges, trims, erases and checks what the lake holds.",
  async start({ config, scope, telemetry }) {
    const { logger, metrics } = telemetry;
    await scope.start("maintenance", () =>
      startMaintenance({ ...sharedStores(config), config, logger, metrics, alone: true }),
    );
    await telemetry.report(scope, null);
  },
});
