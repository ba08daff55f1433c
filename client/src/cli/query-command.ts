/** `telemetry query`: reads the command line and calls query.ts. */
import { status } from "@grpc/grpc-js";

import { noToken } from "../auth/auth-provider.js";
import { parseFlightSqlUri } from "../flight/flight-address.js";
import { FlightSqlError } from "../flight/flight-sql-error.js";
import { type CommandContext, type Define, UsageError, exitCodes } from "./context.js";
import { queryFormats } from "./formats/names.js";
import { type QueryCommand, runQuery } from "./query.js";
import {
  type Setting,
  type Values,
  addSettings,
  flag,
  loginSettings,
  oneOf,
  readSettings,
  shared,
  text,
  whole,
} from "./settings.js";
import { chosenAuth, developmentHint } from "./sign-in.js";
import { type Terminal, readAll } from "./terminal.js";
import { parseTime } from "./time-range.js";

/** A point in time; what it means depends on when the command runs. */
function timeSetting(name: string, help: string): Setting<string | null> {
  return text(name, {
    takes: "an RFC 3339 time, a date, now, or an offset like -1h (ms, s, m, h, d, w)",
    placeholder: "time",
    fallback: null,
    help,
  });
}

/** Where a query goes, and as whom. */
export const connectionSettings = {
  analyticsUri: shared.analyticsUri,
  analyticsApiKey: shared.analyticsApiKey,
  ...loginSettings,
} as const;

const settings = {
  format: oneOf("format", queryFormats, {
    fallback: "table",
    help: "aligned table, a line per value, JSON Lines, CSV, or an Arrow IPC stream",
  }),
  json: flag("json", "the same as --format json"),
  crlf: flag("crlf", "ends lines of CSV with CRLF, as in RFC 4180, instead of LF"),
  begin: timeSetting("begin", "start of the time range: 2026-11-21T10:00:00Z, 2026-11-21, -1h, now"),
  end: timeSetting("end", "end of the time range (excluded); written like --begin"),
  limit: whole("limit", {
    min: 0,
    fallback: null,
    help: "most rows to print; the query is cancelled when they have arrived",
  }),
  ...connectionSettings,
} as const;

/** `telemetry query "SELECT ..."`. */
export const defineQuery: Define = (command, runs, context) => {
  command
    .argument("[statement]", "SQL, or - to read it from standard input")
    .allowExcessArguments(true)
    .addHelpText(
      "after",
      "\nTimes are UTC. Nanosecond times and 64-bit integers keep every digit; binary values are hex." +
        "\nCSV holds values as they are: a spreadsheet may run cells that begin with =, +, - or @ as formulas.",
    );
  addSettings(command, settings);
  runs(command, async (args) => {
    const query = await readCommand(args, readSettings(command, context.env, settings), context);
    warnAboutPlaintext(query, context.terminal);
    try {
      const end = await runQuery(query, context.terminal);
      return end === "interrupted" ? exitCodes.interrupted : exitCodes.ok;
    } catch (error) {
      throw await withHint(error, query, context);
    }
  });
};

async function readCommand(
  [statement, ...extra]: readonly string[],
  values: Values<typeof settings>,
  context: CommandContext,
): Promise<QueryCommand> {
  if (statement === undefined) {
    throw new UsageError('a statement is missing: telemetry query "SELECT ...", or - for stdin');
  }
  if (extra.length > 0) {
    throw new UsageError("there is more than one statement; put the SQL into quotes");
  }
  const format = values.json ? "json" : values.format;
  if (values.crlf && format !== "csv") {
    throw new UsageError("--crlf is for --format csv");
  }
  const nowMs = context.terminal.now();
  const begin = readTime(settings.begin, values.begin, nowMs);
  const end = readTime(settings.end, values.end, nowMs);
  if (begin !== null && end !== null && begin >= end) {
    throw new UsageError("--begin takes a time before --end");
  }
  const auth = await chosenAuth(values, context);
  const sql = statement === "-" ? await readAll(context.terminal) : statement;
  if (sql.trim() === "") {
    throw new UsageError("the statement is empty");
  }
  const { crlf, limit, analyticsUri } = values;
  return { sql, format, crlf, begin, end, limit, analyticsUri, auth };
}

/** Nanoseconds since the Unix epoch. @throws UsageError */
function readTime(setting: Setting<string | null>, given: string | null, nowMs: number): bigint | null {
  if (given === null) {
    return null;
  }
  const time = parseTime(given, nowMs);
  if (time === null) {
    throw new UsageError(`--${setting.flag} takes ${setting.takes}; got ${JSON.stringify(given)}`);
  }
  return time;
}

/** Says when a credential leaves the machine unencrypted. */
export function warnAboutPlaintext(o: Pick<QueryCommand, "analyticsUri" | "auth">, terminal: Terminal): void {
  const address = parseFlightSqlUri(o.analyticsUri);
  if (o.auth !== noToken && !address.tls && !address.loopback) {
    terminal.stderr.write("telemetry: the key travels unencrypted over grpc://; use grpc+tls:// beyond this machine\n");
  }
}

/** Adds what to do to a refusal that has a usual cause. */
export async function withHint(
  failure: unknown,
  o: Pick<QueryCommand, "auth" | "analyticsUri">,
  context: CommandContext,
): Promise<unknown> {
  if (!(failure instanceof FlightSqlError)) {
    return failure;
  }
  const noKey = failure.status === status.UNAUTHENTICATED && o.auth === noToken;
  const unset =
    context.env["SVC_ANALYTICS_URI"] === undefined &&
    o.analyticsUri === shared.analyticsUri.fallback &&
    failure.status === status.UNAVAILABLE;
  const said = failure.status === status.UNAUTHENTICATED || failure.unreachable ? failure.advice : null;
  const advice =
    noKey || unset
      ? ((await developmentHint(context)) ??
        (noKey ? "set SVC_ANALYTICS_API_KEY, or run: telemetry login" : "set SVC_ANALYTICS_URI"))
      : said;
  if (advice === null) {
    return failure;
  }
  return new FlightSqlError(failure.status, `${failure.message}; ${advice}`, { cause: failure });
}
