/** Expressions of DuckDB's syntax tree in Spark SQL; see translate.ts. */
import { foldName } from "../sql/identifier.js";
import { numberMark, textOf, type Tree, treeOf, treesOf } from "../gate/syntax-tree.js";
import { intervalNs, timeNs, unitNs } from "./spark-constants.js";
import { sparkFunctions } from "./spark-functions.js";
import {
  commonType,
  comparable,
  type Expression,
  isInteger,
  isNumber,
  LocalOnly,
  roundedToEven,
  sparkLong,
  sparkText,
  type SqlType,
  withoutMixture,
} from "./spark-types.js";

/** What names mean where an expression stands. */
export interface Names {
  /** Null: there is no such column. */
  column(path: readonly string[]): Expression | null;
  subquery(query: Tree): { readonly sql: string; readonly columns: readonly { readonly type: SqlType }[] };
}

/** What an expression is told about its statement. */
interface Moment {
  readonly nowNs: bigint;
}

/** Names of a reference to a column. */
export function pathOf(tree: Tree): readonly string[] {
  const names = tree["column_names"];
  return Array.isArray(names) ? names.filter((name) => typeof name === "string") : [];
}

const plain = { aggregate: false, window: false, column: false } as const;

/** @throws LocalOnly */
export function translateExpression(tree: Tree, names: Names, moment: Moment): Expression {
  const again = (part: Tree | null): Expression => {
    if (part === null) {
      throw new LocalOnly("an expression that lacks a part");
    }
    return translateExpression(part, names, moment);
  };
  switch (textOf(tree, "class")) {
    case "CONSTANT":
      return constant(treeOf(tree, "value") ?? {});
    case "COLUMN_REF":
      return columnReference(tree, names, moment);
    case "COMPARISON":
      return comparison(textOf(tree, "type"), again(treeOf(tree, "left")), again(treeOf(tree, "right")));
    case "CONJUNCTION": {
      const operator = textOf(tree, "type") === "CONJUNCTION_AND" ? " AND " : " OR ";
      const children = treesOf(tree, "children").map((child) => truth(again(child)));
      return { ...union(children), sql: `(${children.map(({ sql }) => sql).join(operator)})`, type: "bool" };
    }
    case "BETWEEN": {
      const [input, lower, upper] = ["input", "lower", "upper"].map((key) => again(treeOf(tree, key)));
      if (input === undefined || lower === undefined || upper === undefined) {
        throw new LocalOnly("BETWEEN");
      }
      const from = comparison("COMPARE_GREATERTHANOREQUALTO", input, lower);
      const to = comparison("COMPARE_LESSTHANOREQUALTO", input, upper);
      return { ...union([from, to]), sql: `(${from.sql} AND ${to.sql})`, type: "bool" };
    }
    case "CASE":
      return caseOf(tree, again);
    case "CAST":
      return cast(tree, again);
    case "OPERATOR":
      return operation(tree, again);
    case "SUBQUERY":
      return subquery(tree, names, again);
    case "FUNCTION":
      return call(tree, again, moment);
    case "WINDOW":
      return windowed(tree, again, moment);
    default:
      throw new LocalOnly(`an expression of the kind ${textOf(tree, "class").toLowerCase()}`);
  }
}

function union(parts: readonly Expression[]): Omit<Expression, "sql" | "type"> {
  return {
    aggregate: parts.some(({ aggregate }) => aggregate),
    window: parts.some(({ window }) => window),
    column: parts.some(({ column }) => column),
  };
}

function constant(value: Tree): Expression {
  const type = textOf(treeOf(value, "type") ?? {}, "id");
  if (value["is_null"] === true) {
    return { ...plain, sql: "NULL", type: "null" };
  }
  const raw = value["value"];
  const digits = typeof raw === "number" ? String(raw) : textOf(value, "value").replace(numberMark, "");
  switch (type) {
    case "VARCHAR":
      return { ...plain, sql: sparkText(textOf(value, "value")), type: "text", text: textOf(value, "value") };
    case "BOOLEAN":
      return { ...plain, sql: String(raw === true), type: "bool" };
    case "TINYINT":
    case "SMALLINT":
    case "INTEGER":
      return { ...plain, sql: digits.startsWith("-") ? `(${digits})` : digits, type: "int", integer: BigInt(digits) };
    case "BIGINT":
      return { ...plain, sql: sparkLong(BigInt(digits)), type: "long", integer: BigInt(digits) };
    case "DOUBLE":
      return { ...plain, sql: `CAST('${digits}' AS DOUBLE)`, type: "double" };
    case "DECIMAL": {
      const { width, scale } = (treeOf(treeOf(value, "type") ?? {}, "type_info") ?? {}) as Readonly<
        Record<string, unknown>
      >;
      if (typeof width !== "number" || typeof scale !== "number" || !/^-?\d+$/u.test(digits)) {
        break;
      }
      const padded = digits.replace("-", "").padStart(scale + 1, "0");
      const whole = padded.slice(0, padded.length - scale);
      const text = `${digits.startsWith("-") ? "-" : ""}${whole}${scale === 0 ? "" : `.${padded.slice(-scale)}`}`;
      return { ...plain, sql: `CAST('${text}' AS DECIMAL(${width},${scale}))`, type: "decimal" };
    }
    default:
      break;
  }
  throw new LocalOnly(`a constant of type ${type}`);
}

/** Names that DuckDB takes for functions where no column has them. */
const bareFunctions: ReadonlySet<string> = new Set(["current_timestamp", "get_current_timestamp"]);

function columnReference(tree: Tree, names: Names, moment: Moment): Expression {
  const path = pathOf(tree);
  const found = names.column(path);
  if (found !== null) {
    if (found.type === "foreign") {
      throw new LocalOnly(`the column ${path.join(".")}, which is a list or an unsigned number`);
    }
    return found;
  }
  if (path.length === 1 && bareFunctions.has(foldName(path[0] ?? ""))) {
    return { ...plain, sql: sparkLong(moment.nowNs), type: "time" };
  }
  throw new LocalOnly(`the name ${path.join(".")}`);
}

/** Text stands for a time where it is compared with one, and a DECIMAL for a DOUBLE. */
function aligned(a: Expression, b: Expression): readonly [Expression, Expression] {
  if (a.type === "time" && b.text !== undefined) {
    return [a, { ...plain, sql: sparkLong(timeNs(b.text)), type: "time" }];
  }
  if (b.type === "time" && a.text !== undefined) {
    return [{ ...plain, sql: sparkLong(timeNs(a.text)), type: "time" }, b];
  }
  const [left = a, right = b] = withoutMixture([a, b]);
  return [left, right];
}

const comparisons: Readonly<Record<string, string>> = {
  COMPARE_EQUAL: "=",
  COMPARE_NOTEQUAL: "<>",
  COMPARE_LESSTHAN: "<",
  COMPARE_GREATERTHAN: ">",
  COMPARE_LESSTHANOREQUALTO: "<=",
  COMPARE_GREATERTHANOREQUALTO: ">=",
  COMPARE_NOT_DISTINCT_FROM: "<=>",
};

function comparison(type: string, left: Expression, right: Expression): Expression {
  const [a, b] = aligned(left, right);
  if (!comparable(a.type, b.type) || a.interval !== undefined || b.interval !== undefined) {
    throw new LocalOnly(`a comparison of values of two types (${a.type}, ${b.type})`);
  }
  const parts = { ...union([a, b]), type: "bool" } as const;
  if (type === "COMPARE_DISTINCT_FROM") {
    return { ...parts, sql: `(NOT (${a.sql} <=> ${b.sql}))` };
  }
  const operator = comparisons[type];
  if (operator === undefined) {
    throw new LocalOnly(`the comparison ${type.toLowerCase()}`);
  }
  return { ...parts, sql: `(${a.sql} ${operator} ${b.sql})` };
}

function truth(expression: Expression): Expression {
  if (expression.type !== "bool" && expression.type !== "null") {
    throw new LocalOnly("a condition that is no BOOLEAN");
  }
  return expression;
}

type Again = (part: Tree | null) => Expression;

function caseOf(tree: Tree, again: Again): Expression {
  const checks = treesOf(tree, "case_checks").map((check) => ({
    when: truth(again(treeOf(check, "when_expr"))),
    result: again(treeOf(check, "then_expr")),
  }));
  const otherwise = again(treeOf(tree, "else_expr"));
  const results = withoutMixture([otherwise, ...checks.map(({ result }) => result)]);
  const type = sameType(results);
  const whens = checks.map(({ when }, i) => `WHEN ${when.sql} THEN ${results[i + 1]?.sql ?? ""}`).join(" ");
  return {
    ...union([...results, ...checks.map(({ when }) => when)]),
    sql: `(CASE ${whens} ELSE ${results[0]?.sql ?? ""} END)`,
    type,
  };
}

function sameType(parts: readonly Expression[]): SqlType {
  if (parts.some(({ interval, type }) => interval !== undefined || type === "foreign")) {
    throw new LocalOnly("a choice of lengths of time, lists or structures");
  }
  return parts.reduce<SqlType>((type, part) => commonType(type, part.type), "null");
}

function typeName(tree: Tree): string {
  const id = textOf(tree, "id");
  // Types are names until a statement is bound.
  const named = treeOf(treeOf(tree, "type_info") ?? {}, "expr");
  return (named === null || id !== "UNBOUND" ? id : textOf(named, "type_name")).toUpperCase();
}

const castTypes: Readonly<Record<string, readonly [type: SqlType, spark: string]>> = {
  BOOLEAN: ["bool", "BOOLEAN"],
  BOOL: ["bool", "BOOLEAN"],
  INTEGER: ["int", "INT"],
  INT: ["int", "INT"],
  BIGINT: ["long", "BIGINT"],
  DOUBLE: ["double", "DOUBLE"],
  VARCHAR: ["text", "STRING"],
  TEXT: ["text", "STRING"],
  STRING: ["text", "STRING"],
};

function cast(tree: Tree, again: Again): Expression {
  const name = typeName(treeOf(tree, "cast_type") ?? {});
  const value = again(treeOf(tree, "child"));
  const refuse = new LocalOnly(`a cast to ${name}`);
  if (value.interval !== undefined) {
    if (name === "INTERVAL") {
      return value;
    }
    throw refuse;
  }
  switch (name) {
    case "INTERVAL":
      if (value.text === undefined) {
        throw refuse;
      }
      return { ...plain, sql: "", type: "foreign", interval: intervalNs(value.text) };
    case "TIMESTAMP":
    case "TIMESTAMP_NS":
    case "DATETIME": {
      const micro = name !== "TIMESTAMP_NS";
      if (value.text !== undefined) {
        const ns = timeNs(value.text);
        return { ...plain, sql: sparkLong(micro ? ns - (((ns % 1000n) + 1000n) % 1000n) : ns), type: "time" };
      }
      if (value.type !== "time") {
        throw refuse;
      }
      return micro ? { ...value, sql: `(${value.sql} - pmod(${value.sql}, 1000L))` } : value;
    }
    default:
      break;
  }
  const [type, spark] = castTypes[name] ?? [];
  if (type === undefined || spark === undefined || !mayCast(value, type)) {
    throw refuse;
  }
  const rounded = isInteger(type) && value.type === "double" ? roundedToEven(value.sql) : value.sql;
  const { aggregate, window, column, integer } = value;
  const kept = integer === undefined || !isInteger(type) ? {} : { integer };
  return { aggregate, window, column, ...kept, sql: `CAST(${rounded} AS ${spark})`, type };
}

function mayCast({ type: from, text, sql }: Expression, to: SqlType): boolean {
  if (from === to || from === "null") {
    return true;
  }
  if (text !== undefined) {
    return to === "bool" ? sql === "'t'" || sql === "'f'" : isNumber(to) && /^-?\d{1,9}$/u.test(text);
  }
  const simple = isInteger(from) || from === "bool";
  if (isInteger(to)) {
    return simple || from === "double";
  }
  return to === "double" ? simple || isNumber(from) : (to === "bool" || to === "text") && simple;
}

function operation(tree: Tree, again: Again): Expression {
  const children = treesOf(tree, "children").map(again);
  const [first] = children;
  if (first === undefined) {
    throw new LocalOnly("an operator without operands");
  }
  const parts = union(children);
  const type = textOf(tree, "type");
  switch (type) {
    case "OPERATOR_NOT":
      return { ...parts, sql: `(NOT ${truth(first).sql})`, type: "bool" };
    case "OPERATOR_IS_NULL":
      return { ...parts, sql: `(${first.sql} IS NULL)`, type: "bool" };
    case "OPERATOR_IS_NOT_NULL":
      return { ...parts, sql: `(${first.sql} IS NOT NULL)`, type: "bool" };
    case "OPERATOR_COALESCE":
      return {
        ...parts,
        sql: `coalesce(${withoutMixture(children)
          .map(({ sql }) => sql)
          .join(", ")})`,
        type: sameType(children),
      };
    case "COMPARE_IN":
    case "COMPARE_NOT_IN": {
      const [value = first, ...list] = withoutMixture(children);
      const pairs = list.map((other) => comparison("COMPARE_EQUAL", value, other) && aligned(value, other)[1].sql);
      return {
        ...parts,
        sql: `(${value.sql} ${type === "COMPARE_IN" ? "" : "NOT "}IN (${pairs.join(", ")}))`,
        type: "bool",
      };
    }
    default:
      throw new LocalOnly(`the operator ${type.toLowerCase()}`);
  }
}

function subquery(tree: Tree, names: Names, again: Again): Expression {
  const node = treeOf(treeOf(tree, "subquery") ?? {}, "node");
  if (node === null) {
    throw new LocalOnly("a subquery of another kind");
  }
  const { sql, columns } = names.subquery(node);
  const [only, ...more] = columns;
  const type = textOf(tree, "subquery_type");
  if (type === "EXISTS" || type === "NOT_EXISTS") {
    return { ...plain, column: true, sql: `(${type === "EXISTS" ? "" : "NOT "}EXISTS (${sql}))`, type: "bool" };
  }
  if (only === undefined || more.length > 0) {
    throw new LocalOnly("a subquery of several columns");
  }
  if (type === "SCALAR") {
    return { ...plain, column: true, sql: `(${sql})`, type: only.type };
  }
  const child = again(treeOf(tree, "child"));
  if (type !== "ANY" || textOf(tree, "comparison_type") !== "COMPARE_EQUAL" || !comparable(child.type, only.type)) {
    throw new LocalOnly(`a comparison with ${type.toLowerCase()} row of a subquery`);
  }
  return { ...union([child]), column: true, sql: `(${child.sql} IN (${sql}))`, type: "bool" };
}

/** The number in `INTERVAL 1 HOUR`, which DuckDB writes as `to_hours(CAST(trunc(CAST(1 AS DOUBLE)) AS BIGINT))`. */
function numberOf(tree: Tree): bigint | null {
  switch (textOf(tree, "class")) {
    case "CONSTANT": {
      const value = constant(treeOf(tree, "value") ?? {});
      return value.integer ?? (value.text !== undefined && /^-?\d{1,9}$/u.test(value.text) ? BigInt(value.text) : null);
    }
    case "CAST":
      return numberOf(treeOf(tree, "child") ?? {});
    case "FUNCTION": {
      const [only] = treesOf(tree, "children");
      return textOf(tree, "function_name") === "trunc" && only !== undefined ? numberOf(only) : null;
    }
    default:
      return null;
  }
}

/** Parts of a call that change its meaning, and have no translation. */
function checkCall(tree: Tree, name: string): void {
  const orders = [...treesOf(treeOf(tree, "order_bys") ?? {}, "orders"), ...treesOf(tree, "arg_orders")];
  if (orders.length > 0 || tree["ignore_nulls"] === true || tree["export_state"] === true) {
    throw new LocalOnly(`${name} with ORDER BY, IGNORE NULLS or a state`);
  }
}

function call(tree: Tree, again: Again, moment: Moment): Expression {
  const name = foldName(textOf(tree, "function_name"));
  const [only, ...more] = treesOf(tree, "children");
  const unit = /^to_(?<unit>[a-z]+)$/u.exec(name)?.groups?.["unit"];
  if (unit !== undefined && only !== undefined && more.length === 0) {
    const number = numberOf(only);
    if (number === null) {
      throw new LocalOnly(`the function ${name} of what is computed`);
    }
    return { ...plain, sql: "", type: "foreign", interval: number * unitNs(unit) };
  }
  const rule = Object.hasOwn(sparkFunctions, name) ? sparkFunctions[name] : undefined;
  if (rule === undefined || rule.kind === "window") {
    throw new LocalOnly(`the function ${name}`);
  }
  checkCall(tree, `the function ${name}`);
  const args = treesOf(tree, "children").map(again);
  const made = rule.translate(args, moment.nowNs);
  if (made === null) {
    throw new LocalOnly(`the function ${name} with these arguments`);
  }
  const parts = union(args);
  const filterTree = treeOf(tree, "filter");
  if (rule.kind === "scalar") {
    if (filterTree !== null || tree["distinct"] === true) {
      throw new LocalOnly(`the function ${name} with DISTINCT or FILTER`);
    }
    return { ...parts, sql: made.sql, type: made.type };
  }
  const filters = [made.where, filterTree === null ? undefined : truth(again(filterTree)).sql].filter(
    (sql) => sql !== undefined,
  );
  const sql = withFilter(distinctCall(made.sql, tree["distinct"] === true, name), filters);
  return { ...parts, aggregate: true, sql, type: made.type };
}

/** DISTINCT goes into the one call of the aggregate. */
function distinctCall(sql: string, distinct: boolean, name: string): string {
  if (!distinct || ["min", "max", "any_value", "arbitrary", "bool_and", "bool_or"].includes(name)) {
    return sql;
  }
  if (!["count", "sum", "avg", "mean"].includes(name) || !/^(?:count|sum|avg)\(/u.test(sql)) {
    throw new LocalOnly(`the function ${name} with DISTINCT`);
  }
  return sql.replace("(", "(DISTINCT ");
}

/** FILTER stands behind the aggregate's own call, which casts may be around. */
function withFilter(sql: string, filters: readonly string[]): string {
  if (filters.length === 0) {
    return sql;
  }
  const filter = ` FILTER (WHERE ${filters.join(" AND ")})`;
  const around = /^(?<head>CAST\((?:rint\()?)(?<inner>(?:sum|percentile\w*)\(.*\))(?<tail>\)? AS BIGINT\))$/su.exec(
    sql,
  )?.groups;
  return around === undefined ? `${sql}${filter}` : `${around["head"]}${around["inner"]}${filter}${around["tail"]}`;
}

const frames: Readonly<Record<string, readonly [unit: "ROWS" | "RANGE", bound: string]>> = {
  UNBOUNDED_PRECEDING: ["RANGE", "UNBOUNDED PRECEDING"],
  UNBOUNDED_FOLLOWING: ["RANGE", "UNBOUNDED FOLLOWING"],
  CURRENT_ROW_RANGE: ["RANGE", "CURRENT ROW"],
  CURRENT_ROW_ROWS: ["ROWS", "CURRENT ROW"],
  EXPR_PRECEDING_ROWS: ["ROWS", "PRECEDING"],
  EXPR_FOLLOWING_ROWS: ["ROWS", "FOLLOWING"],
};

function windowed(tree: Tree, again: Again, moment: Moment): Expression {
  const name = foldName(textOf(tree, "function_name"));
  const rule = Object.hasOwn(sparkFunctions, name) ? sparkFunctions[name] : undefined;
  if (
    rule === undefined ||
    rule.kind === "scalar" ||
    tree["distinct"] === true ||
    textOf(tree, "exclude_clause") !== "NO_OTHER"
  ) {
    throw new LocalOnly(`the function ${name} over a window`);
  }
  checkCall(tree, `the function ${name}`);
  const offset = treeOf(tree, "offset_expr");
  if (treeOf(tree, "default_expr") !== null || treeOf(tree, "filter_expr") !== null) {
    throw new LocalOnly(`the function ${name} over a window, with FILTER or a default`);
  }
  const args = [...treesOf(tree, "children"), ...(offset === null ? [] : [offset])].map(again);
  const made = rule.translate(args, moment.nowNs);
  if (made === null || made.where !== undefined || made.sql.startsWith("CAST(rint(")) {
    throw new LocalOnly(`the function ${name} over a window with these arguments`);
  }
  const partitions = treesOf(tree, "partitions").map(again);
  const orders = treesOf(tree, "orders").map((order) => {
    const key = again(treeOf(order, "expression"));
    const nulls = textOf(order, "null_order") === "NULLS FIRST" ? "FIRST" : "LAST";
    return { ...key, sql: `${key.sql}${textOf(order, "type") === "DESCENDING" ? " DESC" : ""} NULLS ${nulls}` };
  });
  const over = [
    partitions.length === 0 ? "" : `PARTITION BY ${partitions.map(({ sql }) => sql).join(", ")}`,
    orders.length === 0 ? "" : `ORDER BY ${orders.map(({ sql }) => sql).join(", ")}`,
    rule.kind === "window" ? "" : frameOf(tree, again, orders.length > 0),
  ]
    .filter((part) => part !== "")
    .join(" ");
  const sum = /^CAST\((?<inner>sum\(.*\)) AS BIGINT\)$/su.exec(made.sql)?.groups?.["inner"];
  const sql = sum === undefined ? `${made.sql} OVER (${over})` : `CAST(${sum} OVER (${over}) AS BIGINT)`;
  const parts = union([...args, ...partitions, ...orders]);
  return { ...parts, window: true, column: true, sql, type: made.type };
}

function frameOf(tree: Tree, again: Again, ordered: boolean): string {
  const [start, end] = ["start", "end"].map((side) => {
    const [unit, bound] = frames[textOf(tree, side)] ?? [];
    if (unit === undefined || bound === undefined) {
      throw new LocalOnly("a frame of a window of another kind");
    }
    const tree_ = treeOf(tree, `${side}_expr`);
    if (tree_ === null) {
      return { unit, bound };
    }
    const { integer } = again(tree_);
    if (integer === undefined || integer < 0n) {
      throw new LocalOnly("a frame of a window that is computed");
    }
    return { unit, bound: `${integer} ${bound}` };
  });
  if (start === undefined || end === undefined) {
    return "";
  }
  if (!ordered) {
    // All rows are each other's peers, and Spark wants an order for a frame.
    if (
      start.bound !== "UNBOUNDED PRECEDING" ||
      end.unit === "ROWS" ||
      !/^(?:CURRENT ROW|UNBOUNDED FOLLOWING)$/u.test(end.bound)
    ) {
      throw new LocalOnly("a frame of a window without an order");
    }
    return "";
  }
  const rows = start.unit === "ROWS" || end.unit === "ROWS";
  return `${rows ? "ROWS" : "RANGE"} BETWEEN ${start.bound} AND ${end.bound}`;
}
