/** `telemetry trace <id>`: the spans of a trace as a waterfall. */
import { connect } from "../flight/flight-sql-client.js";
import { escapeControls, escapeControlsOfJson } from "../shared/escape-controls.js";
import { parseRfc3339Ns } from "../shared/rfc3339.js";
import { type CellValue, cellJson, cellText } from "../values/arrow-values.js";
import { type Define, UsageError, exitCodes } from "./context.js";
import { textWidth, truncate } from "./formats/text-width.js";
import { connectionSettings, warnAboutPlaintext, withHint } from "./query-command.js";
import { addSettings, readSettings, shared } from "./settings.js";
import { chosenAuth } from "./sign-in.js";
import { createOutput } from "./terminal.js";

const settings = { json: shared.json, ...connectionSettings } as const;

/** One span of a trace. */
export interface TraceSpan {
  /** 0 for a root. */
  readonly depth: number;
  readonly id: string;
  readonly parentId: string | null;
  readonly name: string;
  readonly service: string;
  /** Nanoseconds since the Unix epoch. */
  readonly begin: bigint;
  readonly durationNs: bigint;
  readonly failed: boolean;
}

/** `telemetry trace <id>`. */
export const defineTrace: Define = (command, runs, context) => {
  command.argument("<trace-id>", "32 hexadecimal digits");
  addSettings(command, settings);
  runs(command, async ([id = ""]) => {
    const values = readSettings(command, context.env, settings);
    if (!/^[0-9a-f]{32}$/i.test(id)) {
      throw new UsageError(`a trace id has 32 hexadecimal digits; got ${JSON.stringify(id.slice(0, 100))}`);
    }
    const { terminal } = context;
    const auth = await chosenAuth(values, context);
    const { analyticsUri } = values;
    warnAboutPlaintext({ analyticsUri, auth }, terminal);
    const client = connect({ uri: analyticsUri, auth, clientName: "telemetry-cli" });
    try {
      const result = await client.query(
        "SELECT depth, span_id, parent_span_id, name, service_name, time, duration_ns, is_error FROM trace_tree(?)",
        { parameters: [id], signal: terminal.interrupted },
      );
      const spans: TraceSpan[] = [];
      for await (const row of result.rows()) {
        spans.push(spanOf(row));
      }
      if (spans.length === 0) {
        terminal.stderr.write(`telemetry: there is no span of trace ${id}, or you may not read it\n`);
        return exitCodes.failed;
      }
      const output = createOutput(terminal);
      const colours = terminal.stdout.isTTY === true;
      const shown = values.json ? spansJson(spans) : waterfall(spans, terminal.stdout.columns ?? 120, colours);
      await output.write(shown);
      await output.flush();
      return exitCodes.ok;
    } catch (error) {
      if (terminal.interrupted.aborted) {
        return exitCodes.interrupted;
      }
      throw await withHint(error, { auth, analyticsUri }, context);
    } finally {
      client.close();
    }
  });
};

function spanOf(row: Readonly<Record<string, CellValue>>): TraceSpan {
  const text = (name: string): string | null => cellText(row[name] ?? null);
  return {
    depth: Number(row["depth"] ?? 0),
    id: text("span_id") ?? "",
    parentId: text("parent_span_id"),
    name: text("name") ?? "",
    service: text("service_name") ?? "-",
    begin: parseRfc3339Ns(text("time") ?? "") ?? 0n,
    durationNs: BigInt(text("duration_ns") ?? 0),
    failed: row["is_error"] === true,
  };
}

/** A list with a line per span. Durations are numbers with all digits; the begin is text. */
export function spansJson(spans: readonly TraceSpan[]): string {
  const lines = spans.map((span) => escapeControlsOfJson(cellJson({ ...span, begin: String(span.begin) })));
  return `[\n  ${lines.join(",\n  ")}\n]\n`;
}

/**
 * One line per span: its name under that of its parent, its service, its duration, and a bar in the time of the trace.
 * @param spans depth first
 */
export function waterfall(spans: readonly TraceSpan[], columns: number, colours: boolean): string {
  const begin = spans.reduce((least, span) => (span.begin < least ? span.begin : least), spans[0]?.begin ?? 0n);
  const end = spans.reduce((most, span) => {
    const own = span.begin + (span.durationNs > 0n ? span.durationNs : 0n);
    return own > most ? own : most;
  }, begin);
  const barWidth = Math.max(20, Math.floor(columns / 3));
  const widest = spans.reduce((width, { service }) => Math.max(width, textWidth(escapeControls(service))), 0);
  const serviceWidth = Math.min(20, widest);
  const nameWidth = Math.max(20, columns - barWidth - serviceWidth - 16);
  const scale = (ns: bigint): number => (end === begin ? 0 : Number(ns) / Number(end - begin));
  const text = spans.map((span) => {
    // Deeper ones would have no room for their names.
    const indent = "  ".repeat(Math.min(span.depth, Math.floor(nameWidth / 4)));
    const name = padded(`${indent}${escapeControls(span.name)}${span.failed ? " ✗" : ""}`, nameWidth);
    const from = Math.min(barWidth - 1, Math.floor(scale(span.begin - begin) * barWidth));
    const length = Math.max(1, Math.min(barWidth - from, Math.round(scale(span.durationNs) * barWidth)));
    const bar = `${" ".repeat(from)}${"█".repeat(length)}`.padEnd(barWidth);
    const shown = span.failed && colours ? `\u001b[31m${name}\u001b[0m` : name;
    const service = padded(escapeControls(span.service), serviceWidth);
    return `${shown} ${service} ${formatDuration(span.durationNs).padStart(10)} ${bar}`.trimEnd();
  });
  const services = new Set(spans.map(({ service }) => service)).size;
  const failed = spans.filter((span) => span.failed).length;
  const counts = `${spans.length} spans of ${services} services, ${formatDuration(end - begin)}`;
  return `${text.join("\n")}\n${counts}${failed === 0 ? "" : `, ${failed} failed`}\n`;
}

function padded(text: string, width: number): string {
  const cut = truncate(text, width);
  return cut + " ".repeat(Math.max(0, width - textWidth(cut)));
}

/** For the eye: three digits and a unit. */
function formatDuration(ns: bigint): string {
  const value = Number(ns);
  const [unit, size] = Math.abs(value) >= 1e9 ? ["s", 1e9] : Math.abs(value) >= 1e6 ? ["ms", 1e6] : ["µs", 1e3];
  const number = value / size;
  return `${Math.abs(number) >= 100 ? number.toFixed(0) : number.toPrecision(3)} ${unit}`;
}
