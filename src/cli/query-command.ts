/** `telemetry query`: reads the command line and calls query.ts. */
import { access } from "node:fs/promises";
import path from "node:path";
import { status } from "@grpc/grpc-js";

import { type AuthProvider, StaticKeyProvider, noToken, readProfile, staticKey } from "telemetry-service-client";
import { FlightSqlError, parseFlightSqlUri } from "telemetry-service-client";
import { helpText } from "../runtime/config/help.js";
import { bool, int, oneOf, text } from "../runtime/config/kinds.js";
import { options } from "../runtime/config/options.js";
import { ConfigError, parseOptions } from "../runtime/config/parse-options.js";
import { row } from "../runtime/config/table.js";
import { type Command, type CommandContext, exitCodes } from "./command.js";
import { type QueryCommand, queryFormats, runQuery } from "./query.js";
import { type Terminal, readAll } from "./terminal.js";
import { parseTime } from "./time-range.js";

const timeText = text({
  takes: "an RFC 3339 time, a date, now, or an offset like -1h (ms, s, m, h, d, w)",
  placeholder: "time",
});

const table = {
  format: row({
    kind: oneOf(...queryFormats),
    default: "table",
    roles: ["cli"],
    help: "How to print the result: an aligned table, JSON Lines (one object per row), CSV (quoted as in RFC 4180), or the bytes of an Arrow IPC stream.",
  }),
  crlf: row({
    kind: bool(),
    default: false,
    roles: ["cli"],
    help: "Ends lines of CSV with CRLF, as in RFC 4180, instead of LF.",
  }),
  begin: row({
    kind: timeText,
    default: null,
    roles: ["cli"],
    help: "Start of the time range: 2026-11-21T10:00:00Z, 2026-11-21, -1h, now.",
  }),
  end: row({
    kind: timeText,
    default: null,
    roles: ["cli"],
    help: "End of the time range (excluded); written like --begin.",
  }),
  limit: row({
    kind: int(0, Number.MAX_SAFE_INTEGER),
    default: null,
    roles: ["cli"],
    help: "Most rows to print; the query is cancelled when they have arrived.",
  }),
  SVC_ANALYTICS_URI: options.SVC_ANALYTICS_URI,
  SVC_ANALYTICS_API_KEY: options.SVC_ANALYTICS_API_KEY,
  SVC_PROFILE: options.SVC_PROFILE,
} as const;

const intro = `telemetry query: runs one SQL statement on the analytics server and prints its result.

Usage: telemetry query [options] "SELECT ..."
       telemetry query [options] -          (reads the statement from standard input)

Exit code 0: the result is complete; 1: it failed; 2: wrong usage; 130: interrupted.
Times are UTC. Nanosecond times and 64-bit integers keep every digit; binary values are hex.
`;

/** `telemetry query "SELECT ..."`. */
export const queryCommand: Command = {
  name: "query",
  summary: "runs a SQL statement and prints its result",
  async run(context) {
    if (context.argv.includes("--help") || context.argv.includes("-h")) {
      const flags = helpText({ name: "", summary: "" }, table).split("\n").slice(2).join("\n");
      context.terminal.stdout.write(`${intro}\n${flags}`);
      return exitCodes.ok;
    }
    const command = await readCommand(context);
    warnAboutPlaintext(command, context.terminal);
    try {
      const end = await runQuery(command, context.terminal);
      return end === "interrupted" ? exitCodes.interrupted : exitCodes.ok;
    } catch (error) {
      throw await withHint(error, command, context);
    }
  },
};

async function readCommand(context: CommandContext): Promise<QueryCommand> {
  const { values, positionals } = parseOptions(table, context.argv, context.env);
  const [statement, ...extra] = positionals;
  if (statement === undefined) {
    throw new ConfigError(['a statement is missing: telemetry query "SELECT ...", or - for stdin']);
  }
  if (extra.length > 0) {
    throw new ConfigError(["there is more than one statement; put the SQL into quotes"]);
  }
  if (values.crlf && values.format !== "csv") {
    throw new ConfigError(["--crlf is for --format csv"]);
  }
  const nowMs = context.terminal.now();
  const begin = readTime("--begin", values.begin, nowMs);
  const end = readTime("--end", values.end, nowMs);
  if (begin !== null && end !== null && begin >= end) {
    throw new ConfigError(["--begin takes a time before --end"]);
  }
  const token = await chooseToken(values.analyticsApiKey, values.profile, context);
  const sql = statement === "-" ? await readAll(context.terminal.stdin) : statement;
  if (sql.trim() === "") {
    throw new ConfigError(["the statement is empty"]);
  }
  return {
    sql,
    format: values.format,
    crlf: values.crlf,
    begin,
    end,
    limit: values.limit,
    analyticsUri: values.analyticsUri,
    token,
  };
}

function readTime(flag: string, given: string | null, nowMs: number): bigint | null {
  if (given === null) {
    return null;
  }
  const time = parseTime(given, nowMs);
  if (time === null) {
    throw new ConfigError([`${flag} takes ${timeText.takes}; got ${JSON.stringify(given)}`]);
  }
  return time;
}

/**
 * The key of the variable, else the key file of the profile, else no credential.
 * @throws CredentialError when a profile is named that does not exist, even where it is not needed.
 */
async function chooseToken(
  key: string | null,
  profileName: string | null,
  context: CommandContext,
): Promise<AuthProvider> {
  const directory = path.join(context.homeDirectory, ".telemetry");
  const profile = profileName === null ? null : await readProfile(path.join(directory, "config.json"), profileName);
  if (key !== null) {
    return staticKey(key);
  }
  const file = profile?.apiKeyFile ?? null;
  return file === null ? noToken : new StaticKeyProvider(path.resolve(directory, file));
}

function warnAboutPlaintext(command: QueryCommand, terminal: Terminal): void {
  const address = parseFlightSqlUri(command.analyticsUri);
  if (command.token !== noToken && !address.tls && !address.loopback) {
    terminal.stderr.write("telemetry: the key travels unencrypted over grpc://; use grpc+tls:// beyond this machine\n");
  }
}

/**
 * Adds what to do to a refusal that has a usual cause. The file is only named, never read: a query
 * must not go to another server because of the directory it was typed in.
 */
async function withHint(failure: unknown, command: QueryCommand, context: CommandContext): Promise<unknown> {
  if (!(failure instanceof FlightSqlError)) {
    return failure;
  }
  const noKey = failure.status === status.UNAUTHENTICATED && command.token === noToken;
  const unset = context.env["SVC_ANALYTICS_URI"] === undefined && failure.status === status.UNAVAILABLE;
  if (!noKey && !unset) {
    return failure;
  }
  const file = path.join("data", "dev.env");
  const found = await exists(path.resolve(context.workingDirectory, file));
  const advice = found
    ? `run ". ${file}" first to use the development server started here`
    : noKey
      ? "set SVC_ANALYTICS_API_KEY"
      : "set SVC_ANALYTICS_URI";
  return new FlightSqlError(failure.status, `${failure.message}; ${advice}`, { cause: failure });
}

async function exists(file: string): Promise<boolean> {
  try {
    await access(file);
    return true;
  } catch {
    // Missing or out of reach: in both cases there is nothing to point to.
    return false;
  }
}
