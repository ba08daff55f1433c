/** The monolith as benches run it. */
import { type Program, startProgram } from "./run/program.js";

/** A running one. */
export interface Monolith extends Program {
  readonly analytics: string;
  readonly ingestionUrl: string;
}

/** Starts one with these variables on free ports, and waits until it is ready. */
export async function startMonolith(environment: Readonly<Record<string, string>>): Promise<Monolith> {
  const program = await startProgram("telemetry-monolith", {
    environment: {
      SVC_INGESTION_LISTEN: "127.0.0.1:0",
      SVC_OTLP_HTTP_LISTEN: "",
      SVC_OTLP_GRPC_LISTEN: "",
      SVC_ANALYTICS_LISTEN: "127.0.0.1:0",
      SVC_ANALYTICS_HEALTH_LISTEN: "127.0.0.1:0",
      ...environment,
    },
    until: /"msg":"ready"/u,
  });
  const address = (pattern: RegExp): string => pattern.exec(program.output())?.[1] ?? "";
  return {
    ...program,
    analytics: address(/grpc:\/\/(127\.0\.0\.1:\d+)/u),
    ingestionUrl: address(/OTLP\/HTTP on (http:\/\/127\.0\.0\.1:\d+)/u),
  };
}
