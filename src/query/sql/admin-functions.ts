/**
 * The admin functions: their parameters and results. For a non-admin they do not exist: the gate does not look
 * them up. They are called after FROM and run before the query, which then reads their rows.
 */
import type { RowColumns } from "../../lake/tables/duckdb-types.js";

/** What a parameter takes: a view over files, text, a time, or a whole number. */
export type ParameterKind = "view" | "text" | "time" | "integer";

/** One admin function. */
interface AdminFunction {
  readonly parameters: readonly (readonly [name: string, kind: ParameterKind])[];
  readonly columns: RowColumns;
  /** It changes something, or no rule of the deny list applies: it runs exactly once, as the only thing after FROM. */
  readonly changes: boolean;
}

const retired: RowColumns = [
  ["view_set", "VARCHAR"],
  ["partition_id", "VARCHAR"],
  ["path", "VARCHAR"],
  ["row_count", "BIGINT"],
  ["file_bytes", "BIGINT"],
];

/** A merge's result: what it made, and what that took the place of. */
const merged: RowColumns = [["action", "VARCHAR"], ...retired];

const denials: RowColumns = [
  ["rule_id", "VARCHAR"],
  ["match_expr", "VARCHAR"],
  ["reason", "VARCHAR"],
  ["created_at", "TIMESTAMP_NS"],
  ["created_by", "VARCHAR"],
];

const rangeOfView = [
  ["view", "view"],
  ["begin", "time"],
  ["end", "time"],
  ["delta_seconds", "integer"],
] as const;

const rangeOfInstance = [
  ["view", "view"],
  ["instance", "text"],
  ["begin", "time"],
  ["end", "time"],
] as const;

/** The functions by name. */
export const adminFunctions = {
  materialize_partitions: { parameters: rangeOfView, columns: merged, changes: true },
  regenerate_partitions: { parameters: rangeOfView, columns: merged, changes: true },
  retire_partitions: { parameters: rangeOfInstance, columns: retired, changes: true },
  retire_partition_by_file: { parameters: [["path", "text"]], columns: retired, changes: true },
  retire_partition_by_metadata: { parameters: rangeOfInstance, columns: retired, changes: true },
  apply_retention: {
    parameters: [
      ["view", "view"],
      ["older_than_days", "integer"],
    ],
    columns: retired,
    changes: true,
  },
  list_query_denials: { parameters: [], columns: denials, changes: false },
  deny_queries: {
    parameters: [
      ["match_expr", "text"],
      ["reason", "text"],
    ],
    columns: denials,
    changes: true,
  },
  remove_query_denial: { parameters: [["rule_id", "text"]], columns: denials, changes: true },
  test_query_denial: {
    parameters: [
      ["match_expr", "text"],
      ["sql", "text"],
      ["user", "text"],
      ["email", "text"],
      ["client", "text"],
    ],
    columns: [["matches", "BOOLEAN"]],
    changes: true,
  },
} as const satisfies Record<string, AdminFunction>;

/** Name of an admin function. */
export type AdminFunctionName = keyof typeof adminFunctions;

/** Whether a name in lower case is an admin function's. */
export function isAdminFunction(name: string): name is AdminFunctionName {
  return Object.hasOwn(adminFunctions, name);
}

/** A parameter's value: nanoseconds since the epoch for a time. */
export type AdminArgument<Kind extends ParameterKind = ParameterKind> = Kind extends "time"
  ? bigint
  : Kind extends "integer"
    ? number
    : string;

type ParameterOf<Name extends AdminFunctionName> = (typeof adminFunctions)[Name]["parameters"][number];

/** A call in a query, of the function `Name`. Plain data. */
export type AdminFunctionCall = {
  readonly [Name in AdminFunctionName]: {
    /** The table that holds the rows of the call in the executed query. */
    readonly table: string;
    readonly name: Name;
    readonly values: {
      readonly [Parameter in ParameterOf<Name> as Parameter[0]]: AdminArgument<Parameter[1]>;
    };
  };
}[AdminFunctionName];

/** How a function is called, for messages. */
export function signatureOf(name: AdminFunctionName): string {
  const { parameters }: AdminFunction = adminFunctions[name];
  return `${name}(${parameters.map(([parameter]) => parameter).join(", ")})`;
}
