/**
 * Telemetry may hold text that Postgres refuses: U+0000, and (out of OTLP/JSON) halves of surrogate
 * pairs. One such resource must not fail the whole commit it is part of, so both become U+FFFD in the
 * catalogue. Parquet keeps what was sent.
 */

/** Text for a `text` column. */
export function databaseText(text: string): string {
  return text.replace(/[\0\p{Surrogate}]/gu, "\ufffd");
}

/** JSON text for a `jsonb` column; returned as it is unless it holds something Postgres refuses. */
export function databaseJson(json: string): string {
  if (!/\\u(?:0000|d[89a-f])|[\0\p{Surrogate}]/iu.test(json)) return json;
  return JSON.stringify(databaseValue(JSON.parse(databaseText(json))));
}

function databaseValue(value: unknown): unknown {
  if (typeof value === "string") return databaseText(value);
  if (Array.isArray(value)) return value.map(databaseValue);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [databaseText(key), databaseValue(inner)]),
  );
}
