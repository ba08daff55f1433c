/** Errors of syntax in DuckDB's words, with the line and the place; the serialiser gives them apart. */
import type { ServiceError } from "../../runtime/errors.js";
import { pivotSentence } from "./pivot.js";
import { allowedSentence, refuse } from "./query-text.js";
import { textOf, type Tree } from "./syntax-tree.js";

/** Characters of the line on either side of the place. */
const around = 40;

/**
 * The refusal of a text that `json_serialize_sql` has no tree for.
 * @param document what it returned: `{error, error_type, error_message, position}`
 * @param text what was parsed
 */
export function syntaxError(document: Tree, text: string): ServiceError {
  const kind = textOf(document, "error_type");
  if (kind === "not implemented") {
    return refuse(
      /\bpivot\b/iu.test(text) ? `${pivotSentence}.` : `This statement is not allowed. ${allowedSentence}.`,
    );
  }
  const message = withoutAdvice(textOf(document, "error_message"));
  const position = textOf(document, "position");
  const place = /^\d+$/u.test(position) && text !== "" ? placeIn(text, Number(position)) : "";
  return refuse(`${kind === "parser" ? "Parser Error: " : ""}${message}${place}`);
}

/** DuckDB's words without its advice to change a setting or to load an extension, which queries cannot. */
export function withoutAdvice(message: string): string {
  return message
    .replace(/ Use "SET max_expression_depth TO x"[^\n]*/u, " Nest it less deeply.")
    .replace(/\n\nPlease try installing and loading the \w+ extension.*?(?=\n\nLINE |$)/su, "");
}

/** The line of a place, and a caret below it. @param position in characters */
function placeIn(text: string, position: number): string {
  const characters = Array.from(text);
  const before = characters.slice(0, position).join("").split("\n");
  const column = Array.from(before.at(-1) ?? "").length;
  const line = Array.from(text.split("\n")[before.length - 1] ?? "");
  const from = Math.max(0, column - around);
  const to = column + around;
  const head = `LINE ${before.length}: ${from > 0 ? "..." : ""}`;
  const shown = line
    .slice(from, to)
    .join("")
    .replaceAll(/[\t\r]/gu, " ");
  return `\n\n${head}${shown}${to < line.length ? "..." : ""}\n${" ".repeat(head.length + column - from)}^`;
}
