/** What development mode prints when it is ready. */
import path from "node:path";

import type { Monolith } from "../monolith.js";

/**
 * Where everything listens and what to try next; never a key.
 * @param workingDirectory paths below it are printed relative to it.
 */
export function announcement(monolith: Monolith, version: string, workingDirectory: string): string {
  const { ingestionUrl, otlpHttpUrl, otlpGrpcUrl, analyticsUri, analyticsHealthUrl, maintenanceHealthUrl } = monolith;
  const { webUrl, developmentAccounts } = monolith;
  const health = [ingestionUrl, analyticsHealthUrl, maintenanceHealthUrl, webUrl].filter((url) => url !== null);
  const otlpHttp = otlpHttpUrl === null ? "" : `  ${otlpHttpUrl}`;
  const lines = [
    `telemetry-service ${version} in development mode`,
    ...(ingestionUrl === null ? [] : [`  OTLP/HTTP    ${ingestionUrl}/ingestion/otlp${otlpHttp}`]),
    ...(otlpGrpcUrl === null ? [] : [`  OTLP/gRPC    ${otlpGrpcUrl}`]),
    ...(analyticsUri === null ? [] : [`  Flight SQL   ${analyticsUri}`]),
    ...(webUrl === null ? [] : [`  Web          ${webUrl}/`]),
    ...(developmentAccounts === null ? [] : [`               ${accountsLine(developmentAccounts)}`]),
    `  Health       ${health.map((url) => `${url}/health`).join("  ")}`,
    `  Data         ${monolith.dataDirectory}`,
  ];
  if (monolith.developmentFile !== null) {
    lines.push(
      "",
      "Try in another shell:",
      `  . ${shellPath(monolith.developmentFile, workingDirectory)}`,
      '  npx -y pnpm@12 --silent telemetry query "SELECT time, level, msg FROM log_entries ORDER BY time DESC LIMIT 20"',
      "An OpenTelemetry SDK started in that shell sends its telemetry here. Ctrl-C stops the service.",
    );
  }
  return `${lines.join("\n")}\n`;
}

function accountsLine({ administrator, guest }: NonNullable<Monolith["developmentAccounts"]>): string {
  return `log in as ${administrator}, an administrator, or ${guest}; there is no password`;
}

/** A path for `.`, which looks a name without a slash up in PATH. */
function shellPath(file: string, workingDirectory: string): string {
  const relative = path.relative(workingDirectory, file);
  const outside = relative.startsWith("..") || path.isAbsolute(relative);
  const shown = outside ? file : relative.includes(path.sep) ? relative : `./${relative}`;
  return /^[\w./-]+$/.test(shown) ? shown : `'${shown.replaceAll("'", String.raw`'\''`)}'`;
}
