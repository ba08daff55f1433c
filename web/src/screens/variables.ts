/** `$name` in the SQL of a cell: each becomes a `?` with its value, so no value but NULL is ever text of a statement. */

export type VariableValue = string | number | null;

/** SQL with the values of its `?`; `missing` has names that are no variables. */
export interface BoundSql {
  readonly sql: string;
  readonly parameters: readonly VariableValue[];
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
  const parameters: VariableValue[] = [];
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
  const [explain = ""] =
    /^(?:\s|--[^\n]*\n|\/\*[\s\S]*?\*\/)*EXPLAIN\b(?:(?:\s|--[^\n]*\n|\/\*[\s\S]*?\*\/)+ANALYZE\b)?/i.exec(sql) ?? [];
  return `${explain === "" ? "" : `${explain} `}SELECT * FROM (${withoutEnd(sql.slice(explain.length))}\n) AS cell`;
}

/** Without a semicolon that nothing but comments follow. */
function withoutEnd(sql: string): string {
  const blank = (text: string): string => text.replaceAll(/[^\n]/g, " ");
  const code = sql.replace(tokens, (token: string) =>
    /^(?:--|\/\*)/.test(token) ? blank(token) : "x".repeat(token.length),
  );
  return sql.slice(0, /;[;\s]*$/.exec(code)?.index);
}
