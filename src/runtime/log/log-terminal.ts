import type { DestinationStream } from "pino";
import { escapeControls } from "telemetry-service-client/shared/escape-controls";

const reset = "\u001b[0m";
const dim = "\u001b[2m";
const levelColours: Readonly<Record<string, string>> = {
  trace: "\u001b[90m",
  debug: "\u001b[36m",
  info: "\u001b[32m",
  warn: "\u001b[33m",
  error: "\u001b[31m",
  fatal: "\u001b[35m",
};

/** Turns the logger's JSON lines into one readable line each (an error's stack follows below it). */
export function createTerminalDestination(out: { write(text: string): unknown }): DestinationStream {
  return {
    write(line: string) {
      out.write(formatTerminalLine(line));
    },
  };
}

/**
 * Formats one JSON line of the logger for a person; anything that is not such a line is left as it is. What callers have
 * written, such as the text of a query, stays on its line and steers no terminal.
 */
export function formatTerminalLine(line: string): string {
  const record = parseRecord(line);
  if (record === null) {
    return line;
  }
  const { level, time, service, msg, err, ...rest } = record;
  const label = asText(level);
  const clock = asText(time).slice(11, 23);
  const fields = Object.entries(rest)
    .map(([name, value]) => `${name}=${asText(value)}`)
    .join(" ");
  const head = `${dim}${clock}${reset} ${levelColours[label] ?? ""}${label.padEnd(5)}${reset} ${dim}${asText(service)}${reset}`;
  const body = fields === "" ? asText(msg) : `${asText(msg)} ${dim}${fields}${reset}`;
  return `${head} ${body}\n${errorLines(err)}`;
}

function errorLines(err: unknown): string {
  if (typeof err !== "object" || err === null) {
    return "";
  }
  const stack = "stack" in err && typeof err.stack === "string" ? err.stack : JSON.stringify(err);
  const cause = "cause" in err ? errorLines(err.cause) : "";
  const indented = stack.split("\n").map(escapeControls).join("\n    ");
  return `    ${dim}${indented}${reset}\n${cause === "" ? "" : `    caused by\n${cause}`}`;
}

function parseRecord(line: string): Record<string, unknown> | null {
  if (!line.startsWith("{")) {
    return null;
  }
  try {
    return JSON.parse(line) as Record<string, unknown>;
  } catch {
    // Not one of the logger's lines; the caller shows it unchanged.
    return null;
  }
}

function asText(value: unknown): string {
  return escapeControls(typeof value === "string" ? value : value === undefined ? "" : JSON.stringify(value));
}
