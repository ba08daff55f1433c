/**
 * LIKE, ILIKE and GLOB in time that grows with the text alone. DuckDB's own matcher tries every way to divide a text
 * among the wildcards of a pattern, in one call that no interrupt reaches: seconds for three of them and a text
 * of some thousand characters. Its regular expressions (RE2) take the same patterns in linear time, so
 * patterns with several wildcards become regular expressions.
 */
import { foldName } from "./identifier.js";
import { refuse } from "./query-text.js";
import { constantText, holds, isNullConstant, textOf, type Tree, treesOf } from "./syntax-tree.js";

interface PatternFunction {
  readonly syntax: "like" | "glob";
  readonly insensitive: boolean;
  readonly negated: boolean;
}

const like = (insensitive: boolean, negated: boolean): PatternFunction => ({
  syntax: "like",
  insensitive,
  negated,
});

const functions: ReadonlyMap<string, PatternFunction> = new Map([
  ["~~", like(false, false)],
  ["!~~", like(false, true)],
  ["~~*", like(true, false)],
  ["!~~*", like(true, true)],
  ["like_escape", like(false, false)],
  ["not_like_escape", like(false, true)],
  ["ilike_escape", like(true, false)],
  ["not_ilike_escape", like(true, true)],
  ["~~~", { syntax: "glob", insensitive: false, negated: false }],
]);

/** `any`: any text; `one`: any character; else a part of a regular expression that stands for one character. */
type Token = "any" | "one" | { readonly expression: string };

/**
 * Rewrites a call in place when its pattern would take too long. Says whether it did.
 * @throws ServiceError BAD_REQUEST when the pattern cannot be rewritten because it is not a constant
 */
export function rewritePattern(call: Tree): boolean {
  const name = foldName(textOf(call, "function_name"));
  const kind = functions.get(name);
  if (kind === undefined) return false;
  const [value, pattern, escape] = treesOf(call, "children");
  if (value === undefined || pattern === undefined) return false;
  const flags = kind.insensitive ? "(?si)" : "(?s)";
  const text = constantText(pattern);
  if (text === null) {
    if (holdsParameter(pattern) || isNullConstant(pattern)) return false;
    if (kind.syntax === "glob" || escape !== undefined) {
      throw refuse("The pattern of GLOB, and of LIKE with ESCAPE, is written out.");
    }
    become(call, kind, [value, expressionOf(call, pattern, flags)]);
    return true;
  }
  const escaped = escape === undefined ? null : constantText(escape);
  if (escape !== undefined && escaped === null) {
    throw refuse("The character behind ESCAPE is written out.");
  }
  const tokens = kind.syntax === "glob" ? globTokens(text) : likeTokens(text, escaped ?? "");
  // DuckDB says what is wrong with it.
  if (tokens === null) return false;
  // What stands between the wildcards of a plain LIKE is searched for, one after the other.
  const searched = name === "~~" || name === "!~~";
  if (wildcards(tokens) <= 1 || (searched && !tokens.includes("one"))) return false;
  const expression = tokens
    .map((token) => (token === "any" ? ".*" : token === "one" ? "." : token.expression))
    .join("");
  become(call, kind, [value, constant(flags + expression)]);
  return true;
}

/** Wildcards for any text that have something behind them; neighbours are one. */
function wildcards(tokens: readonly Token[]): number {
  let count = 0;
  for (const [i, token] of tokens.entries()) {
    if (token === "any" && tokens[i + 1] !== "any" && i + 1 < tokens.length) count++;
  }
  return count;
}

/** Null when the pattern ends in the middle of an escape. */
function likeTokens(pattern: string, escape: string): Token[] | null {
  const tokens: Token[] = [];
  const characters = Array.from(pattern);
  for (let i = 0; i < characters.length; i++) {
    const c = characters[i]!;
    if (escape !== "" && c === escape) {
      i++;
      if (i === characters.length) return null;
      tokens.push({ expression: quoted(characters[i]!) });
    } else if (c === "%") tokens.push("any");
    else if (c === "_") tokens.push("one");
    else tokens.push({ expression: quoted(c) });
  }
  return tokens;
}

/** Null when a set or an escape is not closed. */
function globTokens(pattern: string): Token[] | null {
  const tokens: Token[] = [];
  const characters = Array.from(pattern);
  for (let i = 0; i < characters.length; i++) {
    const c = characters[i]!;
    if (c === "*") tokens.push("any");
    else if (c === "?") tokens.push("one");
    else if (c === "\\") {
      i++;
      if (i === characters.length) return null;
      tokens.push({ expression: quoted(characters[i]!) });
    } else if (c === "[") {
      const negated = characters[i + 1] === "!";
      const first = i + (negated ? 2 : 1);
      // A bracket that comes first is one of the set.
      const end = characters.indexOf("]", first + 1);
      if (end < 0) return null;
      const set = characters
        .slice(first, end)
        .map((member, at, all) =>
          member === "-" && at > 0 && at < all.length - 1 ? "-" : quoted(member),
        );
      tokens.push({ expression: `[${negated ? "^" : ""}${set.join("")}]` });
      i = end;
    } else tokens.push({ expression: quoted(c) });
  }
  return tokens;
}

/** A character as itself (RE2: a backslash in front of any that is no letter, digit or underscore). */
function quoted(character: string): string {
  return /[A-Za-z0-9_\u0080-\u{10ffff}]/u.test(character) ? character : `\\${character}`;
}

/** Makes the call one of `regexp_full_match`, or its negation. */
function become(call: Tree, { negated }: PatternFunction, children: Tree[]): void {
  const match: Tree = {
    ...call,
    function_name: "regexp_full_match",
    schema: "",
    is_operator: false,
    children,
  };
  if (!negated) {
    Object.assign(call, match);
    return;
  }
  const alias = call["alias"];
  for (const key of Object.keys(call)) delete call[key];
  Object.assign(call, {
    class: "OPERATOR",
    type: "OPERATOR_NOT",
    alias: alias ?? "",
    children: [{ ...match, alias: "" }],
  });
}

/** The regular expression of a LIKE pattern that is known only when the query runs. */
function expressionOf(call: Tree, pattern: Tree, flags: string): Tree {
  const of = (name: string, catalog: string, children: Tree[]): Tree => ({
    ...call,
    alias: "",
    function_name: name,
    catalog,
    schema: catalog === "" ? "" : "main",
    is_operator: name === "||",
    children,
  });
  const replaced = (text: Tree, from: string, to: string): Tree =>
    of("replace", "system", [text, constant(from), constant(to)]);
  const escaped = of("regexp_escape", "", [pattern]);
  return of("||", "", [constant(flags), replaced(replaced(escaped, "\\%", ".*"), "_", ".")]);
}

function constant(text: string): Tree {
  return {
    class: "CONSTANT",
    type: "VALUE_CONSTANT",
    alias: "",
    value: { type: { id: "VARCHAR", type_info: null }, is_null: false, value: text },
  };
}

/** A statement whose parameters have no values is only described. */
function holdsParameter(expression: Tree): boolean {
  return holds(expression, (part) => part["class"] === "PARAMETER");
}
