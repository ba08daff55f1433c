/** `$name` in the SQL of a cell: each becomes a `?` with its value, so no value but NULL is ever text of a statement. */
import type { QueryResult } from "../api/query.js";
import { cellText, filterText } from "../ui/table/table-columns.js";

/** A bigint is a whole number that a number cannot hold. */
export type VariableValue = string | number | bigint | null;

/** What somebody has chosen or typed for a variable of numbers: null for none; what is no number stays, for the error. */
export function numberOf(text: string): VariableValue {
  const number = Number(text);
  if (text.trim() === "" || !Number.isFinite(number)) {
    return text.trim() === "" ? null : text;
  }
  return !Number.isSafeInteger(number) && /^\s*[-+]?\d{1,38}\s*$/.test(text) ? BigInt(text) : number;
}

interface Choice {
  /** As SQL takes it. */
  readonly value: string;
  readonly label: string;
}

/** What a variable offers: of the first column of its query, each value once; empty for null. */
export function choicesOf(result: QueryResult | null): readonly Choice[] {
  const [column] = result?.columns ?? [];
  if (result === null || column === undefined) {
    return [];
  }
  const choices = new Map<string, Choice>();
  for (let row = 0; row < result.rows; row++) {
    const cell = column.value(row);
    const value = filterText(cell, column.type) ?? "";
    if (!choices.has(value)) {
      choices.set(value, { value, label: cellText(cell, column.type) ?? "" });
    }
  }
  return [...choices.values()];
}

/** SQL with the values of its `?`; `missing` has names that are no variables. */
interface BoundSql {
  readonly sql: string;
  readonly parameters: readonly (string | number)[];
  readonly missing: readonly string[];
}

/**
 * What stands between variables: texts, names and comments in which `$` and `?` mean nothing, and dollar-quoted texts.
 * An end that is missing reaches to the end of the text, as the server will say.
 */
const tokens =
  /[eE]'(?:\\[\s\S]|''|[^'\\])*(?:'|$)|'(?:''|[^'])*(?:'|$)|"(?:""|[^"])*(?:"|$)|--[^\n]*|\/\*[\s\S]*?(?:\*\/|$)|\$(\w*)\$[\s\S]*?(?:\$\1\$|$)|\$([A-Za-z_]\w*)/g;

/** @param values by name, without the `$` */
export function bindVariables(sql: string, values: ReadonlyMap<string, VariableValue>): BoundSql {
  const parameters: (string | number)[] = [];
  const missing = new Set<string>();
  const bound = sql.replace(tokens, (token: string, _tag: string | undefined, name: string | undefined) => {
    if (name === undefined) {
      return token;
    }
    const value = values.get(name);
    if (value === undefined) {
      missing.add(name);
      return token;
    }
    if (value === null) {
      return "NULL"; // a parameter without a value would be a text
    }
    if (typeof value === "bigint") {
      // JSON has no such number, and text does not bind where a number is asked for.
      parameters.push(String(value));
      return `CAST(CAST(? AS VARCHAR) AS ${BigInt.asIntN(64, value) === value ? "BIGINT" : "HUGEINT"})`;
    }
    parameters.push(value);
    return "?";
  });
  return { sql: bound, parameters, missing: [...missing] };
}

/**
 * A statement that reads and changes nothing, whoever runs it: somebody else may have written it, and functions that
 * change something are refused within another query. Lines stay where they are, because errors name them.
 */
export function readOnly(sql: string): string {
  const code = codeOf(sql);
  const explain = sql.slice(0, /^\s*EXPLAIN\b(?:\s+ANALYZE\b)?/i.exec(code)?.[0].length ?? 0);
  const query = sql.slice(explain.length, endOf(code));
  return `${explain === "" ? "" : `${explain} `}SELECT * FROM (${query}\n) AS cell`;
}

/** The same text with blanks in place of comments, and letters in place of what is quoted. */
function codeOf(sql: string): string {
  return sql.replace(tokens, (token: string) => (/^(?:--|\/\*)/.test(token) ? " " : "x").repeat(token.length));
}

/** Where the last statement ends: before a semicolon that nothing but comments follow. */
function endOf(code: string): number {
  let end = code.length;
  for (let at = end - 1; /[;\s]/.test(code.charAt(at)); at--) {
    end = code.charAt(at) === ";" ? at : end;
  }
  return end;
}
