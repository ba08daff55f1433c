/**
 * Text that Postgres refuses: U+0000, which telemetry may hold, and halves of surrogate pairs. One such resource must not
 * fail the whole commit it is part of, so both become U+FFFD in the catalogue. Parquet keeps what was sent.
 */

/** Text for a `text` column. */
export function databaseText(text: string): string {
  // As nearly every text is.
  if (text.isWellFormed() && !text.includes("\0")) {
    return text;
  }
  return text.replace(/[\0\p{Surrogate}]/gu, "\ufffd");
}

/** One escape of JSON text; the pair of a code point beyond U+FFFF counts as one. */
const jsonEscape = /\\u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})|\\u([0-9a-f]{4})|\\[^u]/giu;

/** JSON text for a `jsonb` column, changed only where it holds something Postgres refuses. */
export function databaseJson(json: string): string {
  const text = databaseText(json);
  if (!text.includes("\\u")) {
    return text;
  }
  return text.replace(jsonEscape, (escape, _high, _low, code: string | undefined) =>
    code !== undefined && /^(?:0000|d[89a-f]..)$/iu.test(code) ? "\\ufffd" : escape,
  );
}
