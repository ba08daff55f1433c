/**
 * What a SELECT says about the rows it reads from a table, as far as it saves opening files: bounds on
 * `time`, an equal `process_id` and a list of `trace_id`s, from conditions at the top of its WHERE,
 * joined by AND. Conservative: conditions that are not understood constrain nothing.
 */
import { columnsOfView, isTraceFunction, viewOf } from "../sql/views.js";
import { foldName } from "../sql/identifier.js";
import { constantText, isTree, sidesOf, textOf, type Tree, treeOf, treesOf, type TreeValue } from "./syntax-tree.js";

/** A bound whose value is an expression without columns, still to be evaluated; a process; or a list of traces. */
export type Constraint =
  | TimeConstraint
  | { readonly kind: "process"; readonly processId: string }
  | { readonly kind: "traces"; readonly traceIds: readonly string[] };

/** A bound on `time`. */
export interface TimeConstraint {
  readonly kind: "min" | "max";
  readonly expression: Tree;
  /** The reference to `time`, when everything that it is compared with there is constant; else null. */
  readonly column: Tree | null;
}

/** Names without brackets that are the clock's in a query. */
export type Clocks = () => ReadonlySet<string>;

/**
 * The table references of a SELECT that its WHERE constrains.
 */
export function constraintsOfSelect(select: Tree, clocks: Clocks): Map<Tree, readonly Constraint[]> {
  const found = new Map<Tree, readonly Constraint[]>();
  const from = treeOf(select, "from_table");
  const where = treeOf(select, "where_clause");
  // A sample is drawn before WHERE: leaving rows out beforehand would change it.
  if (from === null || where === null || treeOf(select, "sample") !== null) {
    return found;
  }
  const references = plainReferences(from);
  if (references === null) {
    return found;
  }
  const conditionsOn = conditionsByTable(conjuncts(where), references);
  for (const reference of references) {
    if (treeOf(reference, "sample") !== null || isRenamed(reference)) {
      continue;
    }
    const alias = aliasOf(reference);
    const own = columnsOfReference(reference);
    const isColumnRef: IsColumn = (expression, column) =>
      // A name that the view lacks is that of an alias, or of a query around this one.
      own.has(column) && isColumn(expression, column, alias, references.length === 1);
    const constraints = conditionsOn(alias).flatMap((condition) => constraintsOf(condition, isColumnRef, clocks));
    if (constraints.length > 0) {
      found.set(reference, constraints);
    }
  }
  return found;
}

/** The tables of a FROM without anything that looks at rows before WHERE does (ASOF, positional joins); else null. */
export function plainReferences(from: Tree): Tree[] | null {
  switch (textOf(from, "type")) {
    case "BASE_TABLE":
    case "TABLE_FUNCTION":
      return [from];
    case "SUBQUERY":
      return [];
    case "JOIN": {
      const kind = textOf(from, "ref_type");
      if (kind !== "" && kind !== "REGULAR" && kind !== "CROSS") {
        return null;
      }
      const left = treeOf(from, "left");
      const right = treeOf(from, "right");
      const leftReferences = left === null ? null : plainReferences(left);
      const rightReferences = right === null ? null : plainReferences(right);
      if (leftReferences === null || rightReferences === null) {
        return null;
      }
      const both = [...leftReferences, ...rightReferences];
      // With a subquery beside it, a bare column name could be the subquery's.
      return both.length === 1 ? null : both;
    }
    default:
      return null;
  }
}

/** Whether a table reference names its columns anew. */
export function isRenamed(reference: Tree): boolean {
  const names = reference["column_name_alias"];
  return Array.isArray(names) && names.length > 0;
}

/** What a table reference is called in its query, folded. */
export function aliasOf(reference: Tree): string {
  const alias = textOf(reference, "alias");
  if (alias !== "") {
    return foldName(alias);
  }
  const call = treeOf(reference, "function");
  return foldName(call === null ? textOf(reference, "table_name") : textOf(call, "function_name"));
}

function columnsOfReference(reference: Tree): ReadonlySet<string> {
  const call = treeOf(reference, "function");
  const [first] = call === null ? [] : treesOf(call, "children");
  const called = call === null ? "" : foldName(textOf(call, "function_name"));
  const name = call === null ? textOf(reference, "table_name") : constantText(first ?? {});
  const view = isTraceFunction(called) ? called : viewOf(foldName(name ?? ""), true);
  return new Set(view === null ? [] : columnsOfView(view).map(([column]) => column));
}

/** The conditions that AND joins at the top. */
export function conjuncts(condition: Tree): Tree[] {
  if (condition["type"] !== "CONJUNCTION_AND") {
    return [condition];
  }
  return treesOf(condition, "children").flatMap(conjuncts);
}

/** Finds the conditions that may compare a column of a table, by its name; in time that grows with tables and conditions. */
export function conditionsByTable(
  conditions: readonly Tree[],
  references: readonly Tree[],
): (alias: string) => readonly Tree[] {
  if (references.length === 1) {
    return () => conditions;
  }
  const found = new Map<string, Tree[]>();
  for (const condition of conditions) {
    const compared = [condition["left"], condition["right"], condition["input"], treesOf(condition, "children")[0]];
    for (const table of new Set(compared.map(tableOfColumn))) {
      if (table !== null) {
        pushTo(found, table, condition);
      }
    }
  }
  return (alias) => found.get(alias) ?? [];
}

/** Adds to a list in a map. */
export function pushTo<T>(lists: Map<string, T[]>, key: string, item: T): void {
  const list = lists.get(key);
  if (list === undefined) {
    lists.set(key, [item]);
  } else {
    list.push(item);
  }
}

/** The name of the table, folded, by which an expression names a column; null for anything else. */
export function tableOfColumn(expression: TreeValue | undefined): string | null {
  const names = isTree(expression) && expression["class"] === "COLUMN_REF" ? expression["column_names"] : null;
  const [table, ...rest] = Array.isArray(names) ? names : [];
  return typeof table === "string" && rest.length === 1 ? foldName(table) : null;
}

type IsColumn = (expression: Tree, column: "time" | "process_id" | "trace_id") => boolean;

/**
 * Whether an expression is a column of a table.
 * @param alias the name of the table
 * @param alone it is the only one: the column needs no qualifier
 */
export function isColumn(expression: Tree, column: string, alias: string, alone: boolean): boolean {
  const names = expression["column_names"];
  if (expression["class"] !== "COLUMN_REF" || !Array.isArray(names)) {
    return false;
  }
  const parts = names.map((name) => (typeof name === "string" ? foldName(name) : ""));
  if (parts.length === 1) {
    return alone && parts[0] === column;
  }
  return parts.length === 2 && parts[0] === alias && parts[1] === column;
}

const boundsOf: Readonly<Record<string, readonly ("min" | "max")[]>> = {
  COMPARE_EQUAL: ["min", "max"],
  COMPARE_GREATERTHAN: ["min"],
  COMPARE_GREATERTHANOREQUALTO: ["min"],
  COMPARE_LESSTHAN: ["max"],
  COMPARE_LESSTHANOREQUALTO: ["max"],
};

const mirrored: Readonly<Record<"min" | "max", "min" | "max">> = { min: "max", max: "min" };

function constraintsOf(condition: Tree, isColumnRef: IsColumn, clocks: Clocks): Constraint[] {
  if (condition["class"] === "BETWEEN" && condition["type"] === "COMPARE_BETWEEN") {
    const input = treeOf(condition, "input");
    const lower = treeOf(condition, "lower");
    const upper = treeOf(condition, "upper");
    if (input === null || lower === null || upper === null || !isColumnRef(input, "time")) {
      return [];
    }
    const column = isConstant(lower) && isConstant(upper) ? input : null;
    return [...bound("min", lower, column, clocks), ...bound("max", upper, column, clocks)];
  }
  if (condition["type"] === "COMPARE_IN") {
    return listed(condition, isColumnRef);
  }
  const sides = sidesOf(condition);
  if (sides === null) {
    return [];
  }
  const { left, right } = sides;
  const bounds = boundsOf[textOf(condition, "type")] ?? [];
  if (isColumnRef(left, "time")) {
    return bounds.flatMap((side) => bound(side, right, isConstant(right) ? left : null, clocks));
  }
  if (isColumnRef(right, "time")) {
    return bounds.flatMap((side) => bound(mirrored[side], left, isConstant(left) ? right : null, clocks));
  }
  if (condition["type"] !== "COMPARE_EQUAL") {
    return [];
  }
  const other = isColumnRef(left, "process_id") ? right : isColumnRef(right, "process_id") ? left : null;
  const processId = other === null ? null : constantText(other);
  return processId === null ? [] : [{ kind: "process", processId }];
}

/** `trace_id IN (...)` with constants; NOT IN is a type of its own. */
function listed(condition: Tree, isColumnRef: IsColumn): Constraint[] {
  const [column, ...values] = treesOf(condition, "children");
  if (column === undefined || !isColumnRef(column, "trace_id")) {
    return [];
  }
  const traceIds = values.map(constantText).filter((value) => value !== null);
  return traceIds.length === values.length ? [{ kind: "traces", traceIds }] : [];
}

function bound(side: "min" | "max", expression: Tree, column: Tree | null, clocks: Clocks): Constraint[] {
  if (isConstant(expression)) {
    return [{ kind: side, expression, column }];
  }
  // The bound is evaluated before the query runs, so one that moves with the clock is early. That
  // opens too much as a lower bound, and too little as an upper one.
  return side === "min" && isMovingForward(expression, clocks) ? [{ kind: side, expression, column }] : [];
}

/** Functions that give one value for given arguments, whenever they are called. */
const steadyFunctions: ReadonlySet<string> = new Set([
  "+",
  "-",
  "*",
  "date_bin",
  "date_trunc",
  "datetrunc",
  "epoch_ms",
  "make_date",
  "make_timestamp",
  "make_timestamp_ms",
  "make_timestamp_ns",
  "make_timestamptz",
  "strptime",
  "time_bucket",
  "timezone",
  "to_days",
  "to_hours",
  "to_microseconds",
  "to_milliseconds",
  "to_minutes",
  "to_months",
  "to_seconds",
  "to_timestamp",
  "to_weeks",
  "to_years",
  "trunc",
]);

/**
 * Whether an expression, which has no columns to refer to, can be evaluated by itself: constant, or the clock shifted
 * by something constant.
 */
export function isTimeExpression(expression: Tree): boolean {
  return isConstant(expression) || isMovingForward(expression, () => bareClocks);
}

function isConstant(expression: Tree): boolean {
  switch (textOf(expression, "class")) {
    case "CONSTANT":
      return true;
    case "CAST": {
      const child = treeOf(expression, "child");
      return child !== null && isConstant(child);
    }
    case "FUNCTION":
      return (
        steadyFunctions.has(foldName(textOf(expression, "function_name"))) && argumentsOf(expression).every(isConstant)
      );
    default:
      return false;
  }
}

/** Whether the value grows with the clock: `now()`, shifted by something constant, cut or cast. */
function isMovingForward(expression: Tree, clocks: Clocks): boolean {
  switch (textOf(expression, "class")) {
    case "COLUMN_REF": {
      const names = expression["column_names"];
      const [name, ...rest] = Array.isArray(names) ? names : [];
      return (
        typeof name === "string" && rest.length === 0 && bareClocks.has(foldName(name)) && clocks().has(foldName(name))
      );
    }
    case "CAST": {
      const child = treeOf(expression, "child");
      return child !== null && isMovingForward(child, clocks);
    }
    case "FUNCTION": {
      const name = foldName(textOf(expression, "function_name"));
      const operands = argumentsOf(expression);
      const [first, second] = operands;
      if (first === undefined) {
        return clockFunctions.has(name);
      }
      if (second === undefined) {
        return name === "ago" && isConstant(first);
      }
      if (operands.length !== 2) {
        return false;
      }
      if (name === "+" || name === "-") {
        return isMovingForward(first, clocks) && isConstant(second);
      }
      return cuttingFunctions.has(name) && isConstant(first) && isMovingForward(second, clocks);
    }
    default:
      return false;
  }
}

/** Functions whose result grows with their second argument. */
const cuttingFunctions: ReadonlySet<string> = new Set(["date_bin", "date_trunc", "datetrunc", "time_bucket"]);

const clockFunctions: ReadonlySet<string> = new Set([
  "current_date",
  "current_timestamp",
  "get_current_timestamp",
  "now",
  "today",
  "transaction_timestamp",
]);

const bareClocks: ReadonlySet<string> = new Set(["current_date", "current_timestamp"]);

/**
 * Names without brackets that are the clock's in a query: DuckDB takes one for a column first, so none that the
 * query may have given to something.
 */
export function clocksOf(document: Tree): Clocks {
  let known: ReadonlySet<string> | null = null;
  return () => {
    if (known !== null) {
      return known;
    }
    const text = foldName(JSON.stringify(document));
    const count = (part: string): number => text.split(part).length;
    known = new Set([...bareClocks].filter((name) => count(name) === count(`"column_names":["${name}"]`)));
    return known;
  };
}

function argumentsOf(call: Tree): Tree[] {
  const children = call["children"];
  return Array.isArray(children) ? children.filter((child) => isTree(child)) : [];
}

/** The process that every place names, if they all name the same. */
export function commonProcess(places: readonly (readonly Constraint[])[]): string | null {
  const named = places.map((constraints) => constraints.find((constraint) => constraint.kind === "process")?.processId);
  const [first] = named;
  return first !== undefined && named.every((id) => id === first) ? first : null;
}
