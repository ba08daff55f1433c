/** Query text before any parser sees it, and how a refusal is worded. */
import { ServiceError } from "../runtime/errors.js";

/** Longest query text in UTF-16 code units. */
export const maxTextLength = 1 << 20;
/** Deepest nesting of brackets in the text. */
const maxBrackets = 200;
/** Most ANDs and ORs in the text: the parser's time grows with the square of their number. */
const maxConnectives = 10_000;

/** A leading EXPLAIN, and the text behind it. */
export interface ExplainSplit {
  readonly explain: "none" | "plan" | "analyze";
  readonly text: string;
}

/** What query text may be. */
export const allowedSentence =
  "Query text is one SELECT (or WITH, VALUES, DESCRIBE, EXPLAIN, SHOW TABLES)";

/** A refusal: BAD_REQUEST is INVALID_ARGUMENT in gRPC. */
export function refuse(message: string): ServiceError {
  return new ServiceError("BAD_REQUEST", message);
}

/**
 * Refuses text that is too long, holds NUL, or nests brackets too deep, before any parser sees it.
 * @throws ServiceError BAD_REQUEST
 */
export function checkText(text: string): void {
  if (text.length > maxTextLength) {
    throw refuse(`The query text is longer than ${maxTextLength} characters.`);
  }
  if (text.includes("\u0000")) throw refuse("The query text holds a NUL character.");
  if (text.trim() === "") throw refuse(`The query text is empty. ${allowedSentence}.`);
  let depth = 0;
  let connectives = 0;
  // Strings, quoted names and comments are skipped whole. What looks like one and is not closed is an
  // error of syntax anyway, which the parser words.
  for (const [token] of text.matchAll(
    /\be'(?:[^'\\]|''|\\[\s\S])*'|'(?:[^']|'')*'|"(?:[^"]|"")*"|--[^\n]*|\/\*[\s\S]*?\*\/|\$((?:[a-z_][a-z0-9_]*)?)\$[\s\S]*?\$\1\$|[()[\]{}]|\b(?:and|or)\b/giu,
  )) {
    if (token === "(" || token === "[" || token === "{") {
      depth++;
      if (depth > maxBrackets) throw refuse(`Brackets nest deeper than ${maxBrackets} levels.`);
    } else if (token === ")" || token === "]" || token === "}") {
      depth--;
    } else if (token.length <= 3 && ++connectives > maxConnectives) {
      throw refuse(`More than ${maxConnectives} conditions are joined by AND and OR.`);
    }
  }
}

/** Takes a leading `EXPLAIN` or `EXPLAIN ANALYZE` off; the parser's tree knows SELECT only. */
export function splitExplain(text: string): ExplainSplit {
  const match =
    /^(?:\s|--[^\n]*(?:\n|$)|\/\*[\s\S]*?\*\/)*EXPLAIN\b(?<analyze>(?:\s|--[^\n]*\n|\/\*[\s\S]*?\*\/)+ANALYZE\b)?/iu.exec(
      text,
    );
  if (match === null) return { explain: "none", text };
  return {
    explain: match.groups?.["analyze"] === undefined ? "plan" : "analyze",
    text: text.slice(match[0].length),
  };
}
