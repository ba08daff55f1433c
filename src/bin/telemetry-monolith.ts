#!/usr/bin/env node
/** `telemetry-monolith`: several roles in one process. */
import { announcement } from "../servers/development/announcement.js";
import { startMonolith } from "../servers/monolith.js";
import { sqlConnectionOf } from "../servers/sql-connection.js";
import { runProgram } from "./run-program.js";

await runProgram({
  role: "monolith",
  name: "telemetry-monolith",
  summary: "plays several roles of the telemetry service in one process.",
  async print(config) {
    return config.printSqlConnection ? `${await sqlConnectionOf(config)}\n` : null;
  },
  async start({ config, scope, telemetry, version }) {
    const monolith = await startMonolith({ config, telemetry, scope });
    telemetry.logger.info({ roles: monolith.roles.join(","), version }, "ready");
    if (config.development) {
      process.stdout.write(`\n${announcement(monolith, version, process.cwd())}\n`);
    }
  },
});
