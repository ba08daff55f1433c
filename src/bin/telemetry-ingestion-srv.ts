#!/usr/bin/env node
/** `telemetry-ingestion-srv`: the ingestion server as a process of its own. */
import { startIngestionProcess } from "../servers/ingestion-process.js";
import { runProgram } from "./run-program.js";

await runProgram({
  role: "ingestion",
  name: "telemetry-ingestion-srv",
  summary: "receives OTLP over HTTP and gRPC and stores it in the lake; runs the database migrations.",
  async start({ config, scope, telemetry }) {
    const { logger, metrics, span } = telemetry;
    await startIngestionProcess(scope, { config, logger, metrics, span });
    await telemetry.report(scope, null);
  },
});
