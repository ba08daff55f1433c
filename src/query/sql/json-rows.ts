/** Rows as JSON text that DuckDB reads into a table: nanoseconds are digits, which no JavaScript number loses. */

/** A value of a row. */
export type RowField = string | number | bigint | boolean | Date | null;

/** A row as a JSON object; a date becomes nanoseconds since the epoch. */
export function jsonObject(fields: Readonly<Record<string, RowField>>): string {
  const parts = Object.entries(fields).map(([name, value]) => {
    if (typeof value === "bigint") {
      return `"${name}":${value}`;
    }
    if (value instanceof Date) {
      return `"${name}":${nanosOf(value.getTime())}`;
    }
    return `"${name}":${JSON.stringify(value)}`;
  });
  return `{${parts.join(",")}}`;
}

/** Nanoseconds of milliseconds since the epoch. */
export function nanosOf(milliseconds: number): bigint {
  return BigInt(Math.round(milliseconds)) * 1_000_000n;
}
