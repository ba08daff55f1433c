/**
 * Comparisons as people write them, which DuckDB refuses or answers with nothing: a level by its name,
 * an id in upper case, a time with a zone; and texts with an offset that become times. They are rewritten to what is meant before the gate walks the
 * tree, so that pruning (constraints.ts) sees it, too.
 */
import { columnName, type GivenNames, viewColumn } from "./given-names.js";
import { foldName } from "../sql/identifier.js";
import { refuse } from "./query-text.js";
import { constantText, isTree, textOf, type Tree, type TreeValue, treeOf, treesIn, treesOf } from "./syntax-tree.js";
import { kindNames, levelNames, statusNames } from "../sql/value-names.js";

/** Levels of log entries by name. */
const levelNumbers: ReadonlyMap<string, number> = new Map([
  ...[...levelNames].map(([level, name]) => [name, level] as const),
  ["warning", 3],
]);

/** Columns of names, and their names. */
const namesOf: ReadonlyMap<string, ReadonlyMap<number, string>> = new Map([
  ["kind_name", kindNames],
  ["level_name", levelNames],
  ["status", statusNames],
]);

/** Digits of the ids that are stored as lower-case hex, by column. */
const idDigits: ReadonlyMap<string, number> = new Map([
  ["linked_span_id", 16],
  ["linked_trace_id", 32],
  ["parent_span_id", 16],
  ["span_id", 16],
  ["trace_id", 32],
]);

/**
 * Rewrites the comparisons of a tree in place. Says whether there was one to rewrite.
 * @param given names that the query gives: what is called so holds what it says
 * @throws ServiceError BAD_REQUEST when a level is compared with a text that is no level
 */
export function rewriteComparisons(tree: Tree, given: () => GivenNames): boolean {
  let rewritten = false;
  for (const node of treesIn(tree)) {
    if (dropsOffset(node)) {
      castTo("TIMESTAMP WITH TIME ZONE", treeOf(node, "child") ?? {}, node["try_cast"] === true);
      rewritten = true;
    }
    const operands = operandsOf(node);
    if (operands.length > 0 && rewriteOperands(operands, given)) {
      rewritten = true;
    }
  }
  return rewritten;
}

/** What a comparison compares; else nothing. */
function operandsOf(node: Tree): Tree[] {
  const parts = (...keys: readonly string[]): Tree[] =>
    keys.map((key) => treeOf(node, key)).filter((part) => part !== null);
  switch (textOf(node, "class")) {
    case "COMPARISON":
      return parts("left", "right");
    case "BETWEEN":
      return parts("input", "lower", "upper");
    case "OPERATOR":
      return /^COMPARE_(?:NOT_)?IN$/u.test(textOf(node, "type")) ? treesOf(node, "children") : [];
    default:
      return [];
  }
}

function rewriteOperands(operands: readonly Tree[], given: () => GivenNames): boolean {
  let rewritten = false;
  const reference = operands.find((operand) => isKnown(columnName(operand) ?? ""));
  const column = reference === undefined ? null : viewColumn(reference, given());
  if (column !== null) {
    for (const operand of operands) {
      const text = operand["class"] === "CONSTANT" ? constantText(operand) : null;
      const value = text === null ? null : meant(column, text);
      if (value === null) {
        continue;
      }
      operand["value"] = value;
      rewritten = true;
    }
  }
  const zoned = operands.filter(hasZone);
  if (zoned.length > 0 && zoned.length < operands.length) {
    for (const operand of zoned) {
      // The same instant, in UTC.
      castTo("TIMESTAMP", operand);
    }
    rewritten = true;
  }
  return rewritten;
}

const isKnown = (column: string): boolean => column === "level" || namesOf.has(column) || idDigits.has(column);

/** The constant that a text means beside a column, null when it means itself. */
function meant(column: string, text: string): Tree | null {
  if (column === "level") {
    // DuckDB reads numbers in texts.
    if (/^\s*[+-]?\d+(?:\.\d*)?\s*$/u.test(text)) {
      return null;
    }
    const value = levelNumbers.get(text.trim().toLowerCase());
    if (value !== undefined) {
      return { type: { id: "INTEGER", type_info: null }, is_null: false, value };
    }
    throw refuse(
      `level is a number: 1 fatal, 2 error, 3 warn, 4 info, 5 debug, 6 trace; these names mean them, and ${JSON.stringify(text.slice(0, 80))} is none of them.`,
    );
  }
  const lower = text.toLowerCase();
  const names = namesOf.get(column);
  if (names !== undefined) {
    return nameMeant(column, names, text);
  }
  if (lower === text || text.length !== idDigits.get(column) || !/^[0-9a-f]+$/u.test(lower)) {
    return null;
  }
  return textConstant(lower);
}

/** Names are stored in lower case; people write them as OTLP does, too. */
function nameMeant(column: string, names: ReadonlyMap<number, string>, text: string): Tree | null {
  const lower = text.trim().toLowerCase();
  const name = column === "level_name" ? levelNames.get(levelNumbers.get(lower) ?? 0) : lower;
  if (name !== undefined && [...names.values()].includes(name)) {
    return name === text ? null : textConstant(name);
  }
  // Fields of JSON are often called so, and then hold other words.
  if (column === "status") {
    return null;
  }
  throw refuse(`${column} is one of ${[...names.values()].join(", ")}, and not ${JSON.stringify(text.slice(0, 80))}.`);
}

function textConstant(value: string): Tree {
  return { type: { id: "VARCHAR", type_info: null }, is_null: false, value };
}

/** Functions of a time, by its position, whose result has a zone when the time has. */
const sameZone: ReadonlyMap<string, number> = new Map([
  ["+", 0],
  ["-", 0],
  ["any_value", 0],
  ["date_bin", 1],
  ["date_trunc", 1],
  ["datetrunc", 1],
  ["first", 0],
  ["last", 0],
  ["max", 0],
  ["min", 0],
  ["time_bucket", 1],
]);

/** Functions whose result may have a zone. A cast to TIMESTAMP leaves one without as it is. */
const zoneMakers: ReadonlySet<string> = new Set([
  "make_timestamptz",
  "strptime",
  "transaction_timestamp",
  "try_strptime",
]);

/**
 * Whether an expression says of itself that it is a time with a zone, which DuckDB does not compare with a
 * TIMESTAMP_NS.
 */
function hasZone(expression: Tree): boolean {
  switch (textOf(expression, "class")) {
    case "CAST":
      return isZoneType(expression["cast_type"]);
    case "FUNCTION": {
      const name = foldName(textOf(expression, "function_name"));
      const values = treesOf(expression, "children");
      if (zoneMakers.has(name)) {
        return true;
      }
      // AT TIME ZONE; with one argument it is a number.
      if (name === "timezone") {
        return values.length === 2;
      }
      const position = sameZone.get(name);
      if (position === undefined) {
        return false;
      }
      const value = values[position];
      // The difference of two times is none.
      const difference = name === "-" && values.length === 2 && hasZone(values[1] ?? {});
      return value !== undefined && !difference && hasZone(value);
    }
    case "SUBQUERY": {
      const select = treeOf(treeOf(expression, "subquery") ?? {}, "node");
      const [item] = select === null ? [] : treesOf(select, "select_list");
      return expression["subquery_type"] === "SCALAR" && item !== undefined && hasZone(item);
    }
    default:
      return false;
  }
}

function isZoneType(type: TreeValue | undefined): boolean {
  return /^timestamp(?:tz| with time zone)$/iu.test(typeName(type));
}

/**
 * Whether a text with an offset is cast to TIMESTAMP: DuckDB takes the text's clock for that of UTC there, and only
 * there. Grafana writes such texts where its machine is not in UTC.
 */
function dropsOffset(node: Tree): boolean {
  return (
    textOf(node, "class") === "CAST" &&
    /^(?:timestamp(?:_us| without time zone)?|datetime)$/iu.test(typeName(node["cast_type"])) &&
    /\d:\d\d(?::\d\d(?:\.\d*)?)?\s*[+-]\d\d(?::?\d\d)*\s*$/u.test(constantText(treeOf(node, "child") ?? {}) ?? "")
  );
}

function typeName(type: TreeValue | undefined): string {
  if (!isTree(type)) {
    return "";
  }
  const name = textOf(treeOf(treeOf(type, "type_info") ?? {}, "expr") ?? {}, "type_name");
  return name === "" ? textOf(type, "id") : name;
}

/** Casts an expression in place. */
function castTo(type: string, expression: Tree, tried = false): void {
  const child = { ...expression, alias: "" };
  const alias = textOf(expression, "alias");
  for (const key of Object.keys(expression)) {
    delete expression[key];
  }
  Object.assign(expression, {
    class: "CAST",
    type: "OPERATOR_CAST",
    alias,
    child,
    cast_type: {
      id: "UNBOUND",
      type_info: {
        type: "UNBOUND_TYPE_INFO",
        alias: "",
        extension_info: null,
        expr: {
          class: "TYPE",
          type: "TYPE",
          alias: "",
          catalog: "",
          schema: "",
          type_name: type,
          children: [],
        },
      },
    },
    try_cast: tried,
  });
}
