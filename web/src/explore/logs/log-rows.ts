/** Log records of a list: those of a query, and before them those that came in since. */
import type { QueryResult } from "../../api/query.js";
import { type Column, textValue, timeValue, type Value } from "../../arrow/column.js";
import type { FilterColumns } from "../../ui/filters/filters.js";
import { propertiesOf } from "../property.js";

const ids = ["trace_id", "span_id", "process_id"] as const;
const origin = [
  "service_version",
  "service_instance_id",
  "host_name",
  "target",
  "event_name",
  "severity_text",
] as const;

/** What the panel of a record shows beside its attributes. */
export const shownFields = ["service_name", ...origin, ...ids] as const;

const listed = [
  "time",
  "level_name",
  "service_name",
  "msg",
  ...ids,
  "block_id",
  "properties",
  ...origin,
  "observed_time",
  "insert_time",
  "audience",
] as const;

/** What the page's filters may name. */
export const logColumns: FilterColumns = {
  text: ["level_name", "service_name", "msg", ...origin, ...ids],
  number: ["level"],
  expressions: { pattern: "log_pattern(msg)" },
  attributes: "properties",
  listed,
};

type LogColumn = (typeof listed)[number];

export const isLogColumn = (name: string): name is LogColumn => (listed as readonly string[]).includes(name);

/** Of every list of records. */
export const logSelect = `SELECT ${listed.join(", ")} FROM log_entries`;

export type LogEntry = Readonly<Record<LogColumn, Value>>;

export interface LogRows {
  readonly count: number;
  readonly value: (row: number, column: LogColumn) => Value;
}

/**
 * @param fresh newest first, in front of those of the result; a result that was asked for later may have them as well, and
 *   has all of a block then
 */
export function logRows(fresh: readonly LogEntry[], result: QueryResult | null): LogRows {
  const columns = new Map<string, Column>(result?.columns.map((column) => [column.name, column]));
  const asked: LogRows = {
    count: result?.rows ?? 0,
    value: (row, column) => columns.get(column)?.value(row) ?? null,
  };
  if (fresh.length === 0) {
    return asked;
  }
  const blocks = blocksOf(asked);
  const first = fresh.filter(({ block_id: block }) => !blocks.has(textValue(block)));
  return {
    count: first.length + asked.count,
    value: (row, column) =>
      row < first.length ? (first[row]?.[column] ?? null) : asked.value(row - first.length, column),
  };
}

/** The blocks that rows are of: all of a block become readable at once. */
export function blocksOf(rows: LogRows): ReadonlySet<string | null> {
  return new Set(Array.from({ length: rows.count }, (_, row) => textValue(rows.value(row, "block_id"))));
}

export function logEntry(rows: LogRows, row: number): LogEntry {
  return Object.fromEntries(listed.map((name) => [name, rows.value(row, name)])) as Record<LogColumn, Value>;
}

/** An attribute as filters compare it; null: it has none. */
export function attributeText(properties: Value, key: string): string | null {
  if (typeof properties !== "string" || !properties.includes(JSON.stringify(key))) {
    return null;
  }
  return propertiesOf(properties).find(({ name }) => name === key)?.value ?? null;
}

/** Names a record in an address: its time, and a hash of what else tells it from others. */
export function entryKey(entry: LogEntry): string {
  let hash = 2166136261; // FNV-1a
  for (const part of [entry.block_id, entry.span_id, entry.msg, entry.properties]) {
    const text = typeof part === "string" ? part : "";
    for (let i = 0; i < text.length; i++) {
      hash = Math.imul(hash ^ text.charCodeAt(i), 16777619);
    }
  }
  return `${timeValue(entry.time)}-${(hash >>> 0).toString(36)}`;
}

/** The row of {@link entryKey}; null: it is not among them. */
export function rowOf(rows: LogRows, key: string): number | null {
  const time = /^(\d{1,19})-/.exec(key)?.[1];
  const wanted = time === undefined ? null : BigInt(time);
  if (wanted === null) {
    return null;
  }
  for (let row = 0; row < rows.count; row++) {
    if (rows.value(row, "time") === wanted && entryKey(logEntry(rows, row)) === key) {
      return row;
    }
  }
  return null;
}
