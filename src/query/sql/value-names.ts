/** Names of the numbers that a column holds: what the computed columns show, and what comparisons accept. */

/** Levels of log entries by number. */
export const levelNames: ReadonlyMap<number, string> = new Map([
  [1, "fatal"],
  [2, "error"],
  [3, "warn"],
  [4, "info"],
  [5, "debug"],
  [6, "trace"],
]);

/** Kinds of spans by number, as OTLP numbers them. */
export const kindNames: ReadonlyMap<number, string> = new Map([
  [0, "unspecified"],
  [1, "internal"],
  [2, "server"],
  [3, "client"],
  [4, "producer"],
  [5, "consumer"],
]);

/** Statuses of spans by number, as OTLP numbers them. */
export const statusNames: ReadonlyMap<number, string> = new Map([
  [0, "unset"],
  [1, "ok"],
  [2, "error"],
]);

/** SQL of the name of a column's number; null for a number without a name. */
export function nameSql(column: string, names: ReadonlyMap<number, string>): string {
  return `CASE ${column} ${[...names].map(([value, name]) => `WHEN ${value} THEN '${name}'`).join(" ")} END`;
}
