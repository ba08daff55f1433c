/** `telemetry tail`: new log records as they come. */
import { setTimeout as delay } from "node:timers/promises";

import { status } from "@grpc/grpc-js";

import { type FlightSqlClient, connect } from "../flight/flight-sql-client.js";
import { FlightSqlError } from "../flight/flight-sql-error.js";
import { escapeControls, escapeControlsOfJson } from "../shared/escape-controls.js";
import { formatRfc3339Ns, parseRfc3339Ns } from "../shared/rfc3339.js";
import { type CellValue, cellJson, cellText } from "../values/arrow-values.js";
import { type CommandContext, type Define, exitCodes } from "./context.js";
import { connectionSettings, warnAboutPlaintext, withHint } from "./query-command.js";
import { addSettings, oneOf, readSettings, shared, text, whole } from "./settings.js";
import { chosenAuth } from "./sign-in.js";
import { createOutput } from "./terminal.js";

const levels = ["fatal", "error", "warn", "info", "debug", "trace"] as const;
/** How far back each look goes: requests that were received earlier may appear later. */
const overlapNs = 10_000_000_000n;
/** Records are looked for among those whose own time is at most this much older, so that a look reads little. */
const latenessNs = 3_600_000_000_000n;
const levelColours: Readonly<Record<number, string>> = { 1: "\u001b[1;31m", 2: "\u001b[31m", 3: "\u001b[33m" };

const settings = {
  service: text("service", { placeholder: "name", fallback: null, help: "records of this service only" }),
  level: oneOf("level", levels, { fallback: null, help: "records of this level and of worse ones only" }),
  grep: text("grep", { placeholder: "text", fallback: null, help: "records whose message contains this text" }),
  where: text("where", {
    placeholder: "sql",
    fallback: null,
    help: "records for which this condition on log_entries holds",
  }),
  lines: whole("lines", { min: 0, fallback: 10, help: "records to begin with that are there already (default: 10)" }),
  interval: whole("interval", { min: 1, max: 86_400, fallback: 1, help: "seconds between two looks (default: 1)" }),
  json: shared.json,
  ...connectionSettings,
} as const;

/** `telemetry tail`. */
export const defineTail: Define = (command, runs, context) => {
  addSettings(command, settings);
  command.addHelpText("after", "\nRecords whose own time is more than an hour older than the newest are left out.");
  runs(command, async () => {
    const values = readSettings(command, context.env, settings);
    const auth = await chosenAuth(values, context);
    const { analyticsUri } = values;
    warnAboutPlaintext({ analyticsUri, auth }, context.terminal);
    const client = connect({ uri: analyticsUri, auth, clientName: "telemetry-cli" });
    try {
      return await follow(client, values, context);
    } catch (error) {
      throw await withHint(error, { auth, analyticsUri }, context);
    } finally {
      client.close();
    }
  });
};

/** What to follow. */
interface Followed {
  readonly service: string | null;
  readonly level: (typeof levels)[number] | null;
  readonly grep: string | null;
  readonly where: string | null;
  readonly lines: number;
  readonly interval: number;
  readonly json: boolean;
}

type Row = Readonly<Record<string, CellValue>>;

/**
 * Looks again and again at what was received lately, and prints what it has not seen. A block is one resource's share of
 * a request and appears as a whole, though not always in the order in which requests were received.
 */
export async function follow(
  client: Pick<FlightSqlClient, "query">,
  values: Followed,
  { terminal }: Pick<CommandContext, "terminal">,
): Promise<number> {
  const { interrupted: signal, stdout, stderr } = terminal;
  const output = createOutput(terminal);
  const print = async (rows: readonly Row[]): Promise<void> => {
    for (const row of rows) {
      await output.write(values.json ? jsonLine(row) : textLine(row, stdout.isTTY === true));
    }
    await output.flush();
  };
  try {
    const source = createSource(client, conditionsOf(values), signal);
    let since = (await source.newest(undefined)) ?? 0n;
    const seen = createSeen(await source.blocks(since - overlapNs));
    if (values.lines > 0) {
      const last = await source.last(values.lines, since);
      await print(last);
      // It may have come since.
      seen.add(last);
    }
    let isAway = false;
    while (!output.closed.aborted) {
      await delay(values.interval * 1000, undefined, { signal });
      try {
        // Of blocks of others, too: each look would go back further while nothing comes that is asked for.
        const received = (await source.newest(since - latenessNs)) ?? since;
        const fresh = seen.without(await source.received(since));
        await print(fresh);
        seen.add(fresh);
        since = received > since ? received : since;
        seen.forget(since - 2n * overlapNs);
        isAway = false;
      } catch (error) {
        if (!(error instanceof FlightSqlError) || error.status !== status.UNAVAILABLE) {
          throw error;
        }
        if (!isAway) {
          stderr.write(`telemetry: ${escapeControls(error.message)}; still trying\n`);
        }
        isAway = true;
      }
    }
  } catch (error) {
    if (!signal.aborted && !output.closed.aborted) {
      throw error;
    }
  }
  return signal.aborted ? exitCodes.interrupted : exitCodes.ok;
}

/** What is asked of the server. @param conditions of the records that are followed */
function createSource(client: Pick<FlightSqlClient, "query">, conditions: readonly Bound[], signal: AbortSignal) {
  const ask = async (sql: string, parameters: readonly (string | number)[], begin?: bigint): Promise<Row[]> => {
    const result = await client.query(sql, { signal, begin, ...(parameters.length === 0 ? {} : { parameters }) });
    const rows: Row[] = [];
    for await (const row of result.rows()) {
      rows.push(row);
    }
    return rows;
  };
  const records = (all: readonly Bound[], rest: string, begin: bigint | undefined): Promise<Row[]> => {
    const where = all.length === 0 ? "" : ` WHERE ${all.map(({ sql }) => sql).join(" AND ")}`;
    const parameters = all.flatMap(({ value }) => (value === undefined ? [] : [value]));
    const sql = `SELECT block_id, insert_time, time, level, service_name, msg FROM log_entries${where} ${rest}`;
    return ask(sql, parameters, begin);
  };
  const after = (ns: bigint): Bound => ({ sql: "insert_time > ?::TIMESTAMP_NS", value: formatRfc3339Ns(ns) });
  return {
    /** When the newest block was received. */
    newest: async (begin: bigint | undefined): Promise<bigint | null> => {
      const [row] = await ask("SELECT max(insert_time) AS t FROM blocks", [], begin);
      return timeOf(row?.["t"]);
    },
    /** The blocks that were received after a moment. */
    blocks: (ns: bigint) =>
      ask("SELECT block_id, insert_time FROM blocks WHERE insert_time > ?::TIMESTAMP_NS", [formatRfc3339Ns(ns)]),
    /** The newest records, in the order of time. */
    last: async (count: number, since: bigint): Promise<Row[]> => {
      const newestFirst = `ORDER BY time DESC, insert_time DESC LIMIT ${count}`;
      const lately = await records(conditions, newestFirst, since - latenessNs);
      const all = lately.length < count ? await records(conditions, newestFirst, undefined) : lately;
      return all.toReversed();
    },
    received: (since: bigint) =>
      records([...conditions, after(since - overlapNs)], "ORDER BY insert_time, time", since - latenessNs),
  };
}

/** Remembers blocks by their ids, with when they were received. */
function createSeen(blocks: readonly Row[]) {
  const seen = new Map<string, bigint>();
  const idOf = (row: Row): string => cellText(row["block_id"] ?? null) ?? "";
  const add = (rows: readonly Row[]): void => {
    for (const row of rows) {
      seen.set(idOf(row), timeOf(row["insert_time"]) ?? 0n);
    }
  };
  add(blocks);
  return {
    add,
    without: (rows: readonly Row[]): Row[] => rows.filter((row) => !seen.has(idOf(row))),
    forget: (before: bigint): void => {
      for (const [block, received] of seen) {
        if (received < before) {
          seen.delete(block);
        }
      }
    },
  };
}

/** A condition of SQL, with the value of its parameter. */
interface Bound {
  readonly sql: string;
  readonly value?: string | number;
}

function conditionsOf({ service, level, grep, where }: Followed): Bound[] {
  return [
    ...(service === null ? [] : [{ sql: "service_name = ?", value: service }]),
    ...(level === null ? [] : [{ sql: "level <= ?", value: levels.indexOf(level) + 1 }]),
    ...(grep === null ? [] : [{ sql: "contains(msg, ?)", value: grep }]),
    // It may end with a comment.
    ...(where === null ? [] : [{ sql: `(${where}\n)` }]),
  ];
}

function timeOf(value: CellValue | undefined): bigint | null {
  return typeof value === "string" ? parseRfc3339Ns(value) : null;
}

function textLine(row: Row, colours: boolean): string {
  const level = Number(row["level"] ?? 0);
  const word = (levels[level - 1] ?? "-").padEnd(5);
  const colour = colours ? levelColours[level] : undefined;
  const shown = colour === undefined ? word : `${colour}${word}\u001b[0m`;
  const [time, service, message] = ["time", "service_name", "msg"].map((name) =>
    escapeControls(cellText(row[name] ?? null) ?? "-"),
  );
  // Milliseconds are enough for the eye.
  return `${(time ?? "").replace(/(\.\d{3})\d*Z$/, "$1Z")} ${shown} ${service} ${message}\n`;
}

function jsonLine(row: Row): string {
  const shown = Object.fromEntries(Object.entries(row).filter(([name]) => name !== "block_id"));
  return `${escapeControlsOfJson(cellJson(shown))}\n`;
}
