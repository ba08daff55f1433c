/**
 * How much there is to plan, and how much longer than what they are given texts may get. DuckDB plans in one call that no interrupt reaches, and its time grows with the
 * columns, the joins and the size of the types, all of which a short text can multiply: `SELECT *, *` within
 * itself sixteen times, a struct of two structs of two structs. Counted here from the syntax tree, from above:
 * what is counted may be more than there is, never less.
 */
import { foldName } from "./identifier.js";
import { maxPivotColumns } from "./pivot.js";
import { refuse } from "./query-text.js";
import {
  constantText,
  isTree,
  textOf,
  type Tree,
  type TreeValue,
  treeOf,
  treesOf,
} from "./syntax-tree.js";
import { columnsOfView, viewOf } from "./views.js";

/** Most columns of one SELECT. */
const maxColumns = 5000;
/** Most columns of all SELECTs together. */
const maxAllColumns = 50_000;
/** Most joins, and subqueries within expressions, which become joins. */
const maxJoins = 40;
/** Deepest nesting of subqueries within expressions: planning takes twice as long for each. */
const maxNesting = 10;
/** Most parts of expressions that a column takes over from the ones named before it. */
const maxTakenOver = 10_000;
/** How many times as long as what it is made of a text may be: `hex(hex(...))`, through columns and subqueries, too. */
const maxGrowth = 65_536;
/** Most scalars that the type of a value is made of. */
const maxTypeSize = 10_000;

/** Columns that a table function or a listing has at most. */
const otherColumns = 32;

/** Functions whose result is made of all their arguments. */
const constructors: ReadonlySet<string> = new Set([
  "array_zip",
  "list_zip",
  "map",
  "map_from_entries",
  "row",
  "struct_concat",
  "struct_insert",
  "struct_pack",
  "struct_update",
  "union_value",
]);

/** Functions whose texts are so many times as long as what they are given. */
const growing: ReadonlyMap<string, number> = new Map([
  ["base64", 2],
  ["bin", 8],
  ["hex", 2],
  ["to_base64", 2],
  ["to_binary", 8],
  ["to_hex", 2],
  ["url_encode", 3],
]);

/** Functions that put all their arguments into one text. */
const joining: ReadonlySet<string> = new Set(["||", "concat", "concat_ws", "list_concat"]);

/** What there is to know of an expression, or at most of any column of a relation. */
interface Measure {
  /** Scalars in its type. */
  readonly size: number;
  /** How many times as long as what is stored. */
  readonly growth: number;
}

/** Columns of a relation, and the most that there is of any. */
interface Width extends Measure {
  readonly columns: number;
}

/** An expression of a SELECT, with its parts and those that it takes over by names given before. */
interface Item extends Measure {
  readonly parts: number;
}

interface Scope {
  readonly name: string;
  readonly width: Width;
  readonly outer: Scope | null;
}

const nothing: Width = { columns: 0, size: 1, growth: 1 };

/** Refuses a query that would take too long to plan. @throws ServiceError BAD_REQUEST */
export function checkWidth(node: Tree): void {
  new Widths().ofQuery(node, null);
}

class Widths {
  #columns = 0;
  #joins = 0;
  #nesting = 0;
  /** Subqueries within expressions, by the expressions that they are. */
  readonly #found = new Map<Tree, Width>();
  readonly #alone: Around = {
    from: nothing,
    tables: new Set(),
    aliases: new Map(),
    subqueries: this.#found,
  };

  ofQuery(node: Tree, outer: Scope | null): Width {
    let scope = outer;
    const ctes = treeOf(node, "cte_map");
    for (const entry of ctes === null ? [] : treesOf(ctes, "map")) {
      const body = treeOf(treeOf(treeOf(entry, "value") ?? {}, "query") ?? {}, "node");
      const width = body === null ? nothing : this.ofQuery(body, scope);
      scope = { name: foldName(textOf(entry, "key")), width, outer: scope };
    }
    switch (textOf(node, "type")) {
      case "SELECT_NODE":
        return this.#ofSelect(node, scope);
      case "RECURSIVE_CTE_NODE": {
        const left = this.#ofPart(node, "left", scope);
        const name = foldName(textOf(node, "cte_name"));
        this.#ofPart(node, "right", { name, width: left, outer: scope });
        return left;
      }
      default: {
        const parts = [
          this.#ofPart(node, "left", scope),
          this.#ofPart(node, "right", scope),
          ...treesOf(node, "children").map((child) => this.ofQuery(child, scope)),
        ];
        this.#subqueries(node["modifiers"], scope);
        return largest(parts);
      }
    }
  }

  #ofPart(node: Tree, key: string, scope: Scope | null): Width {
    const part = treeOf(node, key);
    return part === null ? nothing : this.ofQuery(part, scope);
  }

  #ofSelect(node: Tree, scope: Scope | null): Width {
    const table = treeOf(node, "from_table");
    const from = table === null ? nothing : this.#ofTable(table, scope);
    for (const [key, value] of Object.entries(node)) {
      if (key !== "cte_map" && key !== "from_table") this.#subqueries(value, scope);
    }
    const around = {
      from,
      tables: namesOf(table),
      aliases: new Map<string, Item>(),
      subqueries: this.#found,
    };
    let columns = 0;
    let size = 1;
    let growth = 1;
    for (const item of treesOf(node, "select_list")) {
      const measured = measure(item, around);
      columns += holdsStar(item) ? from.columns : 1;
      if (spreads(item, around.tables)) columns += measured.size;
      const alias = foldName(textOf(item, "alias"));
      if (alias !== "") around.aliases.set(alias, measured);
      size = Math.max(size, measured.size);
      growth = Math.max(growth, measured.growth);
    }
    this.#count(columns);
    return { columns, size, growth };
  }

  #count(columns: number): void {
    this.#columns += columns;
    if (columns > maxColumns || this.#columns > maxAllColumns) {
      throw refuse(
        `A SELECT has at most ${maxColumns} columns, and all of a query together ${maxAllColumns}.`,
      );
    }
  }

  #ofTable(table: Tree, scope: Scope | null): Width {
    switch (textOf(table, "type")) {
      case "BASE_TABLE":
        return this.#ofName(foldName(textOf(table, "table_name")), scope);
      case "SUBQUERY": {
        const query = treeOf(treeOf(table, "subquery") ?? {}, "node");
        return query === null ? nothing : this.ofQuery(query, scope);
      }
      case "JOIN": {
        this.#join();
        const left = this.#ofTable(treeOf(table, "left") ?? {}, scope);
        const right = this.#ofTable(treeOf(table, "right") ?? {}, scope);
        this.#subqueries(table["condition"], scope);
        return { ...largest([left, right]), columns: left.columns + right.columns };
      }
      case "EXPRESSION_LIST": {
        const { values } = table;
        this.#subqueries(values, scope);
        const [first] = Array.isArray(values) ? values : [];
        const row = Array.isArray(first) ? first.filter(isTree) : [];
        return { ...measure({ children: row }, this.#alone), columns: row.length };
      }
      case "PIVOT": {
        const source = this.#ofTable(treeOf(table, "source") ?? {}, scope);
        this.#subqueries(table["aggregates"], scope);
        this.#subqueries(table["pivots"], scope);
        return { ...source, columns: source.columns + maxPivotColumns };
      }
      case "EMPTY":
        return nothing;
      default: {
        const query = treeOf(table, "query");
        if (query !== null) this.ofQuery(query, scope);
        this.#subqueries(table["function"], scope);
        const made = measure(treeOf(table, "function") ?? {}, this.#alone);
        return { ...made, columns: Math.max(otherColumns, made.size) };
      }
    }
  }

  #ofName(name: string, scope: Scope | null): Width {
    for (let s = scope; s !== null; s = s.outer) if (s.name === name) return s.width;
    const view = viewOf(name, true);
    return {
      columns: view === null ? otherColumns : columnsOfView(view).length,
      size: 16,
      growth: 1,
    };
  }

  #join(): void {
    this.#joins++;
    if (this.#joins > maxJoins) {
      throw refuse(`A query has at most ${maxJoins} joins and subqueries in expressions.`);
    }
  }

  /** Queries within expressions. */
  #subqueries(value: TreeValue | undefined, scope: Scope | null): void {
    if (Array.isArray(value)) {
      for (const item of value) this.#subqueries(item, scope);
    } else if (isTree(value)) {
      if (value["class"] === "CONSTANT") return;
      const query =
        value["class"] === "SUBQUERY" ? treeOf(treeOf(value, "subquery") ?? {}, "node") : null;
      if (query !== null) {
        this.#join();
        this.#nesting++;
        if (this.#nesting > maxNesting) {
          throw refuse(`Subqueries in expressions nest at most ${maxNesting} deep.`);
        }
        this.#found.set(value, this.ofQuery(query, scope));
        this.#nesting--;
      }
      for (const [key, part] of Object.entries(value)) {
        if (key !== "subquery") this.#subqueries(part, scope);
      }
    }
  }
}

function largest(widths: readonly Width[]): Width {
  return {
    columns: widths.reduce((most, { columns }) => Math.max(most, columns), 0),
    size: widths.reduce((most, { size }) => Math.max(most, size), 1),
    growth: widths.reduce((most, { growth }) => Math.max(most, growth), 1),
  };
}

/** What an expression can name. */
interface Around {
  readonly from: Width;
  /** Tables, each of which is a value, too: its row. */
  readonly tables: ReadonlySet<string>;
  /** Columns that are named further up in the list. */
  readonly aliases: ReadonlyMap<string, Item>;
  /** Subqueries, by the expressions that they are. */
  readonly subqueries: ReadonlyMap<Tree, Measure>;
}

function measure(expression: Tree, around: Around): Item {
  const { from, tables, aliases } = around;
  const kind = textOf(expression, "class");
  if (kind === "COLUMN_REF") {
    const names = expression["column_names"];
    const list = Array.isArray(names) ? names : [];
    const last = list.at(-1);
    const name = typeof last === "string" ? foldName(last) : "";
    const taken = list.length === 1 ? aliases.get(name) : undefined;
    const row = tables.has(name) ? from.columns * from.size : 1;
    return {
      size: bounded(Math.max(from.size, taken?.size ?? 1, row)),
      growth: Math.max(from.growth, taken?.growth ?? 1),
      parts: 1 + (taken?.parts ?? 0),
    };
  }
  if (kind === "CONSTANT") return { size: 1, growth: 1, parts: 1 };
  if (kind === "STAR" || kind === "SUBQUERY") {
    const { size, growth } = around.subqueries.get(expression) ?? from;
    return { size, growth, parts: 1 };
  }
  const inner = partsOf(expression).map((part) => measure(part, around));
  let parts = 1;
  let size = kind === "CAST" ? scalarsOf(expression["cast_type"]) : 1;
  let growth = 1;
  for (const part of inner) {
    parts += part.parts;
    size = Math.max(size, part.size);
    growth = Math.max(growth, part.growth);
  }
  // A long list of values takes nothing over.
  if (aliases.size > 0 && parts > maxTakenOver && parts > countOf(expression)) {
    throw refuse("A column is made of too many of the ones before it.");
  }
  if (kind !== "FUNCTION") return { size: bounded(size), growth, parts };
  const name = foldName(textOf(expression, "function_name"));
  if (constructors.has(name)) size = inner.reduce((sum, part) => sum + part.size, 1);
  if (joining.has(name)) growth = inner.reduce((sum, part) => sum + part.growth, 0);
  else growth *= growthOf(name, treesOf(expression, "children"));
  if (growth > maxGrowth) throw refuse(`${name} makes a text too many times as long.`);
  return { size: bounded(size), growth, parts };
}

function bounded(size: number): number {
  if (size > maxTypeSize) throw refuse("A struct is made of too many values.");
  return size;
}

/** How many times as long as its arguments the text of a call may be. */
function growthOf(name: string, values: readonly Tree[]): number {
  const constantAt = (position: number): string => constantText(values[position] ?? {}) ?? "";
  switch (name) {
    case "replace":
      return Math.max(1, constantAt(2).length / Math.max(1, constantAt(1).length));
    case "regexp_replace":
      return Math.max(1, constantAt(2).length);
    case "format":
    case "printf":
      return Math.max(1, constantAt(0).split(/[{%]/u).length - 1);
    default:
      return growing.get(name) ?? 1;
  }
}

/** Scalars of a type that is written out. */
function scalarsOf(type: TreeValue | undefined): number {
  if (Array.isArray(type)) return type.reduce<number>((sum, part) => sum + scalarsOf(part), 0);
  if (!isTree(type)) return 0;
  const own = type["class"] === "TYPE" ? 1 : 0;
  return Object.values(type).reduce<number>((sum, part) => sum + scalarsOf(part), own);
}

function countOf(expression: Tree): number {
  return partsOf(expression).reduce((sum, part) => sum + countOf(part), 1);
}

/** Names of the tables of a FROM. */
function namesOf(table: Tree | null): ReadonlySet<string> {
  const names = new Set<string>();
  const collect = (part: Tree): void => {
    const alias = textOf(part, "alias");
    names.add(foldName(alias === "" ? textOf(part, "table_name") : alias));
    for (const side of ["left", "right"]) {
      const next = treeOf(part, side);
      if (next !== null) collect(next);
    }
  };
  if (table !== null) collect(table);
  names.delete("");
  return names;
}

/** Whether an item of a SELECT stands for the fields of a struct: `unnest(s)`, or `s.*` where `s` is no table. */
function spreads(item: Tree, tables: ReadonlySet<string>): boolean {
  if (item["class"] === "STAR") {
    const relation = foldName(textOf(item, "relation_name"));
    return relation !== "" && !tables.has(relation);
  }
  return item["class"] === "FUNCTION" && foldName(textOf(item, "function_name")) === "unnest";
}

/** Expressions directly below another. */
function partsOf(expression: Tree): Tree[] {
  if (expression["class"] === "CONSTANT") return [];
  const parts: Tree[] = [];
  for (const value of Object.values(expression)) {
    if (Array.isArray(value)) parts.push(...value.filter(isTree));
    else if (isTree(value)) parts.push(value);
  }
  return parts;
}

/** Whether an item of a SELECT stands for as many columns as its tables have; those of a subquery are its own. */
function holdsStar(expression: Tree): boolean {
  if (expression["class"] === "STAR") return true;
  if (expression["class"] === "SUBQUERY") return false;
  return partsOf(expression).some(holdsStar);
}
