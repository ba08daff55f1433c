/**
 * DuckDB's syntax tree in Spark SQL. Nothing passes that is not known here: another kind of node, another function or
 * a type that is not certain ends the translation, and the statement runs on this machine.
 *
 * The text that comes out has no star, no ambiguous name and no alias that stands for an expression: each relation is
 * `tN`, each column of a subquery `cN`, and every name is resolved here, by DuckDB's rules.
 */
import { foldName } from "../sql/identifier.js";
import { constantInteger, textOf, type Tree, treeOf, treesOf, type TreeValue } from "../gate/syntax-tree.js";
import { type Modifiers, readModifiers } from "./modifiers.js";
import { type Names, pathOf, translateExpression } from "./translate-expression.js";
import {
  commonType,
  comparable,
  type Expression,
  LocalOnly,
  sparkName,
  sparkType,
  type SqlType,
} from "./spark-types.js";

/** A column of a relation: its name in DuckDB, null for one that nobody can name, and in Spark. */
export interface TranslatedColumn {
  readonly name: string | null;
  readonly spark: string;
  readonly type: SqlType;
}

/** A query in Spark SQL. */
export interface TranslatedQuery {
  readonly sql: string;
  readonly columns: readonly TranslatedColumn[];
}

/** What stands behind the name of a table. */
export type Tables = ReadonlyMap<string, TranslatedQuery>;

/** A relation of FROM. */
interface Source {
  readonly alias: string;
  readonly id: string;
  readonly columns: readonly TranslatedColumn[];
}

interface From {
  readonly sql: string;
  readonly sources: readonly Source[];
  /** Columns that USING has merged, by their names in lower case. */
  readonly merged: ReadonlyMap<string, Expression>;
  /** It is a join, which Spark would make after one to its left. Inner ones may be made in any order. */
  readonly joined?: "inner" | "outer";
}

interface Scope {
  readonly from: From;
  readonly outer: Scope | null;
}

type Ctes = ReadonlyMap<string, Tree>;

/** What a whole statement shares. */
export class Translation {
  readonly tables: Tables;
  readonly nowNs: bigint;
  readonly #names: { count: number };

  /** @param within shares its names with another, whose text goes into this one's */
  constructor(tables: Tables, nowNs: bigint, within?: Translation) {
    this.tables = tables;
    this.nowNs = nowNs;
    this.#names = within === undefined ? { count: 0 } : within.#names;
  }

  /** A name that nothing else of the statement has. */
  fresh(prefix: "t" | "c"): string {
    return `${prefix}${this.#names.count++}`;
  }
}

/** @param document as `parseTree` gives it. @throws LocalOnly */
export function translateDocument(document: Tree, translation: Translation): TranslatedQuery {
  const [statement, ...more] = treesOf(document, "statements");
  const node = statement === undefined ? null : treeOf(statement, "node");
  if (node === null || more.length > 0) {
    throw new LocalOnly("a statement of another kind than SELECT");
  }
  return translateQuery(node, translation, null, new Map());
}

function translateQuery(node: Tree, t: Translation, outer: Scope | null, known: Ctes): TranslatedQuery {
  const ctes = withCtes(node, known);
  switch (textOf(node, "type")) {
    case "SELECT_NODE":
      return translateSelect(node, t, outer, ctes);
    case "SET_OPERATION_NODE":
      return translateSetOperation(node, t, outer, ctes);
    default:
      throw new LocalOnly("a recursive query, or one of another kind than SELECT");
  }
}

const cteScope = new WeakMap<Tree, Ctes>();

function withCtes(node: Tree, known: Ctes): Ctes {
  const entries = treesOf(treeOf(node, "cte_map") ?? {}, "map");
  if (entries.length === 0) {
    return known;
  }
  const ctes = new Map(known);
  for (const entry of entries) {
    const value = treeOf(entry, "value") ?? {};
    const query = treeOf(treeOf(value, "query") ?? {}, "node");
    if (query === null || isFilled(value["aliases"]) || isFilled(value["key_targets"])) {
      throw new LocalOnly("a CTE with names of columns");
    }
    // It sees those before it.
    cteScope.set(query, new Map(ctes));
    ctes.set(foldName(textOf(entry, "key")), query);
  }
  return ctes;
}

function isFilled(value: unknown): boolean {
  return Array.isArray(value) ? value.length > 0 : value !== undefined && value !== null && value !== false;
}

const setOperations: Readonly<Record<string, string>> = { UNION: "UNION", EXCEPT: "EXCEPT", INTERSECT: "INTERSECT" };

function translateSetOperation(node: Tree, t: Translation, outer: Scope | null, ctes: Ctes): TranslatedQuery {
  const operation = setOperations[textOf(node, "setop_type")];
  const children = treesOf(node, "children");
  const sides =
    children.length > 2 ? [] : children.length > 0 ? children : ["left", "right"].map((side) => treeOf(node, side));
  const [left, right] = sides.map((side) => (side === null ? null : translateQuery(side, t, outer, ctes)));
  if (operation === undefined || left === undefined || left === null || right === undefined || right === null) {
    throw new LocalOnly("a set operation of another kind than UNION, EXCEPT and INTERSECT");
  }
  if (left.columns.length !== right.columns.length) {
    throw new LocalOnly("a set operation of different columns");
  }
  const columns = left.columns.map(({ name, type }, i): TranslatedColumn => ({
    name,
    spark: t.fresh("c"),
    type: commonType(type, right.columns[i]?.type ?? "foreign"),
  }));
  const side = (query: TranslatedQuery): string => {
    const id = t.fresh("t");
    const items = query.columns.map(
      ({ spark }, i) =>
        `CAST(${id}.${sparkName(spark)} AS ${sparkType(columns[i]?.type ?? "foreign")}) AS ${columns[i]?.spark ?? ""}`,
    );
    return `SELECT ${items.join(", ")} FROM (${query.sql}) AS ${id}`;
  };
  const all = node["setop_all"] === true ? " ALL" : "";
  const id = t.fresh("t");
  const source: Source = { alias: "", id, columns };
  const sql = `SELECT ${columns.map(({ spark }) => `${id}.${spark}`).join(", ")} FROM (${side(left)} ${operation}${all} ${side(right)}) AS ${id}`;
  const modifiers = readModifiers(node);
  const names = outputNames(columns, source);
  return { sql: `${sql}${orderSql(modifiers, columns, names, t, null)}${modifiers.limit}`, columns };
}

/** An item of a SELECT before it is translated. */
interface Item {
  /** It came of a star, and may be what no query can name. */
  readonly star?: true;
  /** What it may be called by. */
  readonly name: string | null;
  readonly translate: () => Expression;
}

function translateSelect(node: Tree, t: Translation, outer: Scope | null, ctes: Ctes): TranslatedQuery {
  if (isFilled(node["sample"]) || treesOf(node, "group_expressions").some((tree) => textOf(tree, "class") === "STAR")) {
    throw new LocalOnly("a sample, or GROUP BY of a star");
  }
  const from = translateFrom(treeOf(node, "from_table") ?? {}, t, ctes);
  const scope: Scope = { from, outer };
  const column = (path: readonly string[]): Expression | null => columnOf(scope, path);
  const subquery = (query: Tree): TranslatedQuery => translateQuery(query, t, scope, ctes);
  const base: Names = { column, subquery };
  const items: Item[] = [];
  /** Aliases that an item may see: a column of the same name is meant before them. */
  const withAliases = (first: "column" | "alias"): Names => ({
    subquery,
    column: (path) => {
      const [name = ""] = path;
      const of = path.length > 1 ? [] : items.filter((item) => item.name === foldName(name));
      const local = ownColumn(from, path);
      const [only] = of;
      if (only === undefined) {
        return column(path);
      }
      if (of.length > 1) {
        throw new LocalOnly(`a name that several columns have (${name})`);
      }
      return first === "column" && local !== null ? local : only.translate();
    },
  });
  const aliased = withAliases("column");
  for (const tree of treesOf(node, "select_list")) {
    items.push(...itemsOf(tree, from, aliased, t));
  }
  const selected = items.map(({ name, translate, star }) => ({ name, expression: usable(translate(), star === true) }));
  const whereTree = treeOf(node, "where_clause");
  const where = whereTree === null ? null : translateExpression(whereTree, aliased, t);
  const groups = groupsOf(node, items, selected, aliased, t);
  const havingTree = treeOf(node, "having");
  const conflictFree = withoutConflicts(withAliases("alias"), from, items);
  const having = havingTree === null ? null : translateExpression(havingTree, conflictFree, t);
  const qualifyTree = treeOf(node, "qualify");
  const qualify = qualifyTree === null ? null : translateExpression(qualifyTree, conflictFree, t);
  const columns = selected.map(({ name, expression }): TranslatedColumn => ({
    name,
    spark: t.fresh("c"),
    type: expression.type,
  }));
  const { distinct, orders, limit } = readModifiers(node);
  // What nobody can name is not there.
  const kept = columns.filter(({ type }) => type !== "foreign");
  if (distinct && kept.length < columns.length) {
    throw new LocalOnly("DISTINCT of lists");
  }
  const list = selected.flatMap(({ expression: { sql, type } }, i) =>
    type === "foreign" ? [] : [`${sql} AS ${columns[i]?.spark ?? ""}`],
  );
  const qualifier = t.fresh("c");
  const body =
    (from.sql === "" ? "" : ` FROM ${from.sql}`) +
    (where === null ? "" : ` WHERE ${where.sql}`) +
    (groups.length === 0 ? "" : ` GROUP BY ${groups.join(", ")}`) +
    (having === null ? "" : ` HAVING ${having.sql}`);
  const unique = distinct ? "DISTINCT " : "";
  const inner = `SELECT ${qualify === null ? unique : ""}${[...list, ...(qualify === null ? [] : [`${qualify.sql} AS ${qualifier}`])].join(", ")}${body}`;
  const id = t.fresh("t");
  const ordered = { distinct, orders, limit };
  if (qualify !== null) {
    const names = outputNames(columns, { alias: "", id, columns });
    const sql = `SELECT ${unique}${kept.map(({ spark }) => `${id}.${spark}`).join(", ")} FROM (${inner}) AS ${id} WHERE ${id}.${qualifier}`;
    return { sql: `${sql}${orderSql(ordered, columns, names, t, null)}${limit}`, columns };
  }
  const rows: OrderOf = { selected, names: conflictFree, free: unique === "" };
  return { sql: `${inner}${orderSql(ordered, columns, base, t, rows)}${limit}`, columns };
}

function usable(expression: Expression, star: boolean): Expression {
  if (expression.interval !== undefined || (expression.type === "foreign" && !star)) {
    throw new LocalOnly("a length of time, a list or a structure as a column");
  }
  return expression;
}

/** Refuses a name that is an alias and a column, where DuckDB's choice depends on the place. */
function withoutConflicts(names: Names, from: From, items: readonly Item[]): Names {
  return {
    ...names,
    column: (path) => {
      const found = names.column(path);
      const [name = ""] = path;
      const item = path.length === 1 ? items.find((one) => one.name === foldName(name)) : undefined;
      if (item !== undefined && ownColumn(from, path) !== null && ownColumn(from, path)?.sql !== found?.sql) {
        throw new LocalOnly(`a name that is a column and an alias (${name})`);
      }
      return found;
    },
  };
}

function groupsOf(
  node: Tree,
  items: readonly Item[],
  selected: readonly { readonly expression: Expression }[],
  names: Names,
  t: Translation,
): readonly string[] {
  const trees = treesOf(node, "group_expressions");
  const all = textOf(node, "aggregate_handling") === "FORCE_AGGREGATES";
  const sets = node["group_sets"];
  if (Array.isArray(sets) && sets.length > 1) {
    throw new LocalOnly("GROUPING SETS, ROLLUP and CUBE");
  }
  if (!all && trees.length === 0) {
    return [];
  }
  const by = all
    ? selected.map(({ expression }) => usable(expression, false)).filter(({ aggregate }) => !aggregate)
    : trees.map((tree) => {
        if (textOf(tree, "class") !== "CONSTANT") {
          return translateExpression(tree, names, t);
        }
        const item = items[(constantInteger(tree) ?? 0) - 1];
        if (item === undefined) {
          throw new LocalOnly("GROUP BY of a constant");
        }
        return item.translate();
      });
  // A constant would be taken for a place.
  const groups = by.filter(({ column }) => column).map(({ sql }) => sql);
  if (groups.length === 0) {
    throw new LocalOnly("GROUP BY of constants");
  }
  return [...new Set(groups)];
}

/** What ORDER BY may name beside the columns of the result. */
interface OrderOf {
  readonly selected: readonly { readonly expression: Expression }[];
  readonly names: Names;
  /** Expressions beside the columns of the result may be named. */
  readonly free: boolean;
}

function outputNames(columns: readonly TranslatedColumn[], source: Source): Names {
  const from: From = { sql: "", sources: [source], merged: new Map() };
  return {
    column: (path) => (path.length === 1 && columns.length > 0 ? ownColumn(from, path) : null),
    subquery: () => {
      throw new LocalOnly("a subquery in ORDER BY");
    },
  };
}

function orderSql(
  { orders }: Pick<Modifiers, "orders">,
  columns: readonly TranslatedColumn[],
  names: Names,
  t: Translation,
  rows: OrderOf | null,
): string {
  const keys = orders.flatMap((order) => {
    const tree = treeOf(order, "expression") ?? {};
    const descending = textOf(order, "type") === "DESCENDING";
    const first = textOf(order, "null_order") === "NULLS FIRST";
    const how = `${descending ? " DESC" : " ASC"} NULLS ${first ? "FIRST" : "LAST"}`;
    if (textOf(tree, "class") === "STAR") {
      return columns.map(({ spark, type }) => {
        if (type === "foreign") {
          throw new LocalOnly("ORDER BY of lists");
        }
        return `${spark}${how}`;
      });
    }
    return [`${keyOf(tree, columns, names, t, rows)}${how}`];
  });
  return keys.length === 0 ? "" : ` ORDER BY ${keys.join(", ")}`;
}

function keyOf(
  tree: Tree,
  columns: readonly TranslatedColumn[],
  names: Names,
  t: Translation,
  rows: OrderOf | null,
): string {
  const kind = textOf(tree, "class");
  if (kind === "CONSTANT") {
    const column = columns[(constantInteger(tree) ?? 0) - 1];
    if (column === undefined) {
      throw new LocalOnly("ORDER BY of a constant");
    }
    return column.spark;
  }
  const path = kind === "COLUMN_REF" ? pathOf(tree) : [];
  const [named, ...others] = path.length === 1 ? columns.filter(({ name }) => name === foldName(path[0] ?? "")) : [];
  if (named !== undefined && others.length === 0) {
    return named.spark;
  }
  const expression = translateExpression(tree, rows?.names ?? names, t);
  const place = rows?.selected.findIndex((item) => item.expression.sql === expression.sql) ?? -1;
  const column = columns[place];
  if (column !== undefined) {
    return column.spark;
  }
  if (rows?.free === false || expression.type === "foreign") {
    throw new LocalOnly("ORDER BY of what is not selected");
  }
  return expression.sql;
}

function itemsOf(tree: Tree, from: From, names: Names, t: Translation): Item[] {
  if (textOf(tree, "class") !== "STAR") {
    const alias = textOf(tree, "alias");
    const path = textOf(tree, "class") === "COLUMN_REF" ? pathOf(tree) : [];
    const name = alias === "" ? path.at(-1) : alias;
    let made: Expression | null = null;
    let making = false;
    const translate = (): Expression => {
      if (making) {
        throw new LocalOnly("an alias that stands for itself");
      }
      making = true;
      made ??= translateExpression(tree, names, t);
      making = false;
      return made;
    };
    return [{ name: name === undefined ? null : foldName(name), translate }];
  }
  const simple = ["replace_list", "rename_list", "qualified_exclude_list", "expr", "columns"];
  if (simple.some((key) => isFilled(tree[key]))) {
    throw new LocalOnly("a star with REPLACE, RENAME or COLUMNS");
  }
  const excluded = new Set(listedNames(tree["exclude_list"]));
  const relation = foldName(textOf(tree, "relation_name"));
  const sources = relation === "" ? from.sources : from.sources.filter(({ alias }) => alias === relation);
  if (sources.length === 0) {
    throw new LocalOnly("a star of nothing");
  }
  const seen = new Set<string>();
  return sources.flatMap(({ id, columns }) =>
    columns.flatMap(({ name, spark, type }): Item[] => {
      if (name !== null && excluded.has(name)) {
        return [];
      }
      const merged = name === null || relation !== "" ? undefined : from.merged.get(name);
      if (merged !== undefined && name !== null) {
        if (seen.has(name)) {
          return [];
        }
        seen.add(name);
      }
      const own = merged ?? columnExpression(id, spark, type);
      return [{ name, translate: () => own, star: true }];
    }),
  );
}

/** @throws LocalOnly for names of columns of a table */
function listedNames(list: TreeValue | undefined): string[] {
  return (Array.isArray(list) ? list : []).map((name) => {
    if (typeof name !== "string") {
      throw new LocalOnly("a star with EXCLUDE of a table's column");
    }
    return foldName(name);
  });
}

function columnExpression(id: string, spark: string, type: SqlType): Expression {
  return { sql: `${id}.${sparkName(spark)}`, type, aggregate: false, window: false, column: true };
}

function ownColumn(from: From, path: readonly string[]): Expression | null {
  const name = foldName(path.at(-1) ?? "");
  if (path.length === 1) {
    const merged = from.merged.get(name);
    if (merged !== undefined) {
      return merged;
    }
  }
  const alias = path.length === 2 ? foldName(path[0] ?? "") : null;
  const found = from.sources
    .filter((source) => alias === null || source.alias === alias)
    .flatMap(({ id, columns }) =>
      columns.filter((column) => column.name === name).map(({ spark, type }) => columnExpression(id, spark, type)),
    );
  if (found.length > 1) {
    throw new LocalOnly(`a name that several columns have (${name})`);
  }
  return path.length > 2 ? null : (found[0] ?? null);
}

function columnOf(scope: Scope | null, path: readonly string[]): Expression | null {
  return scope === null ? null : (ownColumn(scope.from, path) ?? columnOf(scope.outer, path));
}

const joins: Readonly<Record<string, string>> = {
  INNER: "JOIN",
  LEFT: "LEFT JOIN",
  RIGHT: "RIGHT JOIN",
  FULL: "FULL JOIN",
  SEMI: "LEFT SEMI JOIN",
  ANTI: "LEFT ANTI JOIN",
};

function translateFrom(tree: Tree, t: Translation, ctes: Ctes): From {
  if (isFilled(tree["sample"])) {
    throw new LocalOnly("a sample");
  }
  switch (textOf(tree, "type")) {
    case "EMPTY":
      return { sql: "", sources: [], merged: new Map() };
    case "BASE_TABLE": {
      const name = foldName(textOf(tree, "table_name"));
      const cte = ctes.get(name);
      const query =
        cte === undefined ? t.tables.get(name) : translateQuery(cte, t, null, cteScope.get(cte) ?? new Map());
      if (query === undefined) {
        throw new LocalOnly(`the table ${name}`);
      }
      return relation(query, tree, name, t);
    }
    case "SUBQUERY": {
      const node = treeOf(treeOf(tree, "subquery") ?? {}, "node");
      if (node === null) {
        throw new LocalOnly("a subquery of another kind");
      }
      return relation(translateQuery(node, t, null, ctes), tree, "", t);
    }
    case "JOIN":
      return translateJoin(tree, t, ctes);
    case "TABLE_FUNCTION":
      throw new LocalOnly(`the table function ${textOf(treeOf(tree, "function") ?? {}, "function_name")}`);
    default:
      throw new LocalOnly(`${textOf(tree, "type").toLowerCase().replaceAll("_", " ")} after FROM`);
  }
}

function relation({ sql, columns }: TranslatedQuery, tree: Tree, name: string, t: Translation): From {
  const alias = textOf(tree, "alias");
  const renamed = tree["column_name_alias"];
  const names = textsOf(renamed);
  const id = t.fresh("t");
  const source: Source = {
    alias: alias === "" ? name : foldName(alias),
    id,
    columns: columns.map((column, i) => ({ ...column, name: names[i] ?? column.name })),
  };
  return { sql: `(${sql}) AS ${id}`, sources: [source], merged: new Map() };
}

/** The names of a list, to be compared. */
function textsOf(value: TreeValue | undefined): readonly string[] {
  return Array.isArray(value) ? value.filter((one) => typeof one === "string").map(foldName) : [];
}

function translateJoin(tree: Tree, t: Translation, ctes: Ctes): From {
  const kind = textOf(tree, "ref_type");
  const join = joins[textOf(tree, "join_type")];
  const [left, right] = ["left", "right"].map((side) => translateFrom(treeOf(tree, side) ?? {}, t, ctes));
  if (left === undefined || right === undefined || join === undefined || (kind !== "REGULAR" && kind !== "CROSS")) {
    throw new LocalOnly(`a join of the kind ${kind.toLowerCase()} ${textOf(tree, "join_type").toLowerCase()}`);
  }
  const sources = [...left.sources, ...right.sources];
  if (right.joined !== undefined && (kind !== "CROSS" || right.joined === "outer")) {
    throw new LocalOnly("a join with what is joined first");
  }
  const merged = new Map([...left.merged, ...right.merged]);
  const using = tree["using_columns"];
  const conditions: string[] = [];
  for (const name of textsOf(using)) {
    const [a, b] = [ownColumn(left, [name]), ownColumn(right, [name])];
    if (a === null || b === null || !comparable(a.type, b.type)) {
      throw new LocalOnly(`a join by ${name}`);
    }
    conditions.push(`${a.sql} = ${b.sql}`);
    const sql = join === "FULL JOIN" ? `coalesce(${a.sql}, ${b.sql})` : join === "RIGHT JOIN" ? b.sql : a.sql;
    merged.set(name, { ...a, sql });
  }
  const whole: From = { sql: "", sources, merged };
  const condition = treeOf(tree, "condition");
  if (condition !== null) {
    const names: Names = {
      column: (path) => ownColumn(whole, path),
      subquery: () => {
        throw new LocalOnly("a subquery in the condition of a join");
      },
    };
    conditions.push(translateExpression(condition, names, t).sql);
  }
  const on = conditions.length === 0 ? "" : ` ON ${conditions.join(" AND ")}`;
  const word = kind === "CROSS" || (join === "JOIN" && on === "") ? "CROSS JOIN" : join;
  const half = join === "LEFT SEMI JOIN" || join === "LEFT ANTI JOIN";
  return {
    sql: `${left.sql} ${word} ${right.sql}${on}`,
    joined: (word === "JOIN" || word === "CROSS JOIN") && left.joined !== "outer" ? "inner" : "outer",
    sources: half ? left.sources : sources,
    merged: half ? left.merged : merged,
  };
}
