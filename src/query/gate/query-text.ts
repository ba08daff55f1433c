/** Query text before any parser sees it, and how a refusal is worded. */
import { ServiceError } from "../../runtime/errors.js";

/** Longest query text in UTF-16 code units. */
export const maxTextLength = 1 << 20;
/** Deepest nesting of brackets in the text. */
const maxBrackets = 200;
/** Most ANDs and ORs in the text: the parser's time grows with the square of their number. */
const maxConnectives = 10_000;

/** What a text asks for, and what is parsed of it. */
interface SplitText {
  readonly explain: "none" | "plan" | "analyze";
  /** As long as the whole text, so that a place in it is one in the text that was sent. */
  readonly text: string;
}

/** What query text may be. */
export const allowedSentence =
  "Query text is one SELECT (or WITH, VALUES, DESCRIBE, EXPLAIN, SHOW TABLES, SHOW COLUMNS FROM)";

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
  if (text.includes("\u0000")) {
    throw refuse("The query text holds a NUL character.");
  }
  if (text.trim() === "") {
    throw refuse(`The query text is empty. ${allowedSentence}.`);
  }
  let depth = 0;
  let connectives = 0;
  // Strings, quoted names and comments are skipped whole.
  for (const [token] of text.matchAll(tokens)) {
    if (token === "(" || token === "[" || token === "{") {
      depth++;
      if (depth > maxBrackets) {
        throw refuse(`Brackets nest deeper than ${maxBrackets} levels.`);
      }
    } else if (token === ")" || token === "]" || token === "}") {
      depth--;
    } else if (/^[ao]/iu.test(token) && ++connectives > maxConnectives) {
      throw refuse(`More than ${maxConnectives} conditions are joined by AND and OR.`);
    }
  }
}

/**
 * Strings, quoted names, comments, brackets and connectives. One that is not closed reaches to the end, which the parser
 * refuses in its words: to look for an end at each of many such beginnings would take minutes.
 */
const tokens =
  /\be'(?:[^'\\]|''|\\[\s\S])*(?:'|$)|'(?:[^']|'')*(?:'|$)|"(?:[^"]|"")*(?:"|$)|--[^\n]*|\/\*[\s\S]*?(?:\*\/|$)|\$((?:[a-z_][a-z0-9_]*)?)\$[\s\S]*?(?:\$\1\$|$)|[()[\]{}]|\b(?:and|or)\b/giu;

/**
 * Takes off what the parser's tree has no place for: a leading `EXPLAIN` or `EXPLAIN ANALYZE`. `SHOW COLUMNS FROM`
 * becomes the DESCRIBE that it is elsewhere.
 */
export function splitText(text: string): SplitText {
  const start = behindComments(text, 0);
  const explainEnd = endOf(/EXPLAIN\b/iuy, text, start);
  if (explainEnd !== null) {
    const next = behindComments(text, explainEnd);
    const analyzeEnd = endOf(/ANALYZE\b/iuy, text, next);
    const end = analyzeEnd ?? explainEnd;
    return { explain: analyzeEnd === null ? "plan" : "analyze", text: blank(text.slice(0, end)) + text.slice(end) };
  }
  const showEnd = endOf(/SHOW\s+COLUMNS\s+(?:FROM|IN)\b/iuy, text, start);
  if (showEnd === null) {
    return { explain: "none", text };
  }
  const shown = describe + blank(text.slice(start, showEnd)).slice(describe.length);
  return { explain: "none", text: text.slice(0, start) + shown + text.slice(showEnd) };
}

/** Where blanks and comments end that begin at a place. One after another: a pattern for all could part them in many ways. */
export function behindComments(text: string, from: number): number {
  let at = from;
  for (let end: number | null = at; end !== null; end = endOf(/\s+|--[^\n\r]*/uy, text, at) ?? behindBlock(text, at)) {
    at = end;
  }
  return at;
}

/** Where a comment ends that may hold others, or null where none begins. */
function behindBlock(text: string, from: number): number | null {
  if (!text.startsWith("/*", from)) {
    return null;
  }
  const mark = /\/\*|\*\//gu;
  mark.lastIndex = from;
  let depth = 0;
  for (let found = mark.exec(text); found !== null; found = mark.exec(text)) {
    depth += found[0] === "/*" ? 1 : -1;
    if (depth === 0) {
      return mark.lastIndex;
    }
  }
  return text.length;
}

/** Where a match ends that begins at a place, or null. @param sticky of the flag `y` */
export function endOf(sticky: RegExp, text: string, from: number): number | null {
  sticky.lastIndex = from;
  return sticky.test(text) ? sticky.lastIndex : null;
}

const describe = "DESCRIBE";

/** Spaces instead of the characters of a text, in the same lines. */
export function blank(text: string): string {
  return text.replaceAll(/[^\n]/gsu, " ");
}

/** The refusal of a node of the tree that the gate does not know. */
export function unknownNode(type: string): Error {
  return refuse(`This part of SQL is not supported (${type === "" ? "unknown" : type}).`);
}

/** A name of the caller's in a message, shortened. */
export function shown(name: string): string {
  return `"${name.length > 80 ? `${name.slice(0, 80)}...` : name}"`;
}
