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

/** Escapes that Postgres may refuse. */
const refusedEscape = /\\u(?:0000|d[89a-f])/iu;

/** JSON text for a `jsonb` column, changed only where it holds something Postgres refuses. */
export function databaseJson(json: string): string {
  const text = databaseText(json);
  return refusedEscape.test(text) ? withoutRefused(text) : text;
}

/** Escape by escape: `replace` with a function keeps all matches, of which a megabyte of text may have 175,000. */
function withoutRefused(text: string): string {
  let kept = "";
  let from = 0;
  let bytes = 0;
  for (let at = text.indexOf("\\"); at !== -1; at = text.indexOf("\\", at + bytes)) {
    bytes = 2;
    const code = codeAt(text, at);
    if (code === null) {
      continue;
    }
    bytes = 6;
    const next = isBetween(code, 0xd800, 0xdbff) ? codeAt(text, at + 6) : null;
    if (next !== null && isBetween(next, 0xdc00, 0xdfff)) {
      bytes = 12;
    } else if (code === 0 || isBetween(code, 0xd800, 0xdfff)) {
      kept += `${text.slice(from, at)}\\ufffd`;
      from = at + bytes;
    }
  }
  return kept + text.slice(from);
}

/** The number of the escape `\uXXXX` there; null when there is another one, or none. */
function codeAt(text: string, at: number): number | null {
  return text.startsWith("\\u", at) ? Number.parseInt(text.slice(at + 2, at + 6), 16) : null;
}

const isBetween = (code: number, least: number, most: number): boolean => code >= least && code <= most;
