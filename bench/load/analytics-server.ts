/** The analytics server, as benches of queries run it. */
import { type Program, startProgram } from "../run/program.js";

/** A running one. */
export interface AnalyticsServer extends Program {
  /** `host:port` of Flight SQL. */
  readonly address: string;
}

/** Starts one on free ports, and waits until it says where it listens. @param nodeArguments of its process */
export async function startAnalytics(
  environment: Readonly<Record<string, string>>,
  nodeArguments: readonly string[] = [],
): Promise<AnalyticsServer> {
  const program = await startProgram("flight-sql-srv", {
    environment: {
      SVC_ANALYTICS_LISTEN: "127.0.0.1:0",
      SVC_ANALYTICS_HEALTH_LISTEN: "127.0.0.1:0",
      ...environment,
    },
    until: /grpc:\/\/(127\.0\.0\.1:[1-9]\d*)/u,
    nodeArguments,
  });
  return { ...program, address: program.said[1] ?? "" };
}
