/**
 * How much there is to plan. DuckDB plans in one call that no interrupt reaches, and its time grows with the
 * columns, the joins and the size of the types, all of which a short text can multiply: `SELECT *, *` within
 * itself sixteen times, a struct of two structs of two structs. Counted here from the syntax tree, from above:
 * what is counted may be more than there is, never less.
 */
import { foldName } from "./identifier.js";
import { refuse } from "./query-text.js";
import { isTree, textOf, type Tree, type TreeValue, treeOf, treesOf } from "./syntax-tree.js";
import { columnsOfView, viewOf } from "./views.js";

/** Most columns of one SELECT. */
const maxColumns = 5000;
/** Most columns of all SELECTs together. */
const maxAllColumns = 50_000;
/** Most joins. */
const maxJoins = 100;
/** Most scalars that the type of a value is made of. */
const maxTypeSize = 10_000;

/** Columns that a table function or a listing has at most. */
const otherColumns = 32;

/** Functions whose result is made of all their arguments. */
const constructors: ReadonlySet<string> = new Set([
  "map",
  "map_from_entries",
  "row",
  "struct_concat",
  "struct_insert",
  "struct_pack",
  "struct_update",
  "union_value",
]);

/** Columns of a relation, and the largest type among them. */
interface Width {
  readonly columns: number;
  readonly size: number;
}

interface Scope {
  readonly name: string;
  readonly width: Width;
  readonly outer: Scope | null;
}

const nothing: Width = { columns: 0, size: 1 };

/** Refuses a query that would take too long to plan. @throws ServiceError BAD_REQUEST */
export function checkWidth(node: Tree): void {
  new Widths().ofQuery(node, null);
}

class Widths {
  #columns = 0;
  #joins = 0;

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
    /** Columns may be named further on in the list. */
    const aliases = new Map<string, number>();
    let columns = 0;
    let size = 1;
    for (const item of treesOf(node, "select_list")) {
      columns += holdsStar(item) ? from.columns : 1;
      const itemSize = this.#sizeOf(item, from.size, aliases);
      const alias = foldName(textOf(item, "alias"));
      if (alias !== "") aliases.set(alias, itemSize);
      if (itemSize > size) size = itemSize;
    }
    this.#count(columns);
    for (const [key, value] of Object.entries(node)) {
      if (key !== "cte_map" && key !== "from_table") this.#subqueries(value, scope);
    }
    return { columns, size };
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
        this.#joins++;
        if (this.#joins > maxJoins) throw refuse(`A query has at most ${maxJoins} joins.`);
        const left = this.#ofTable(treeOf(table, "left") ?? {}, scope);
        const right = this.#ofTable(treeOf(table, "right") ?? {}, scope);
        this.#subqueries(table["condition"], scope);
        return {
          columns: left.columns + right.columns,
          size: Math.max(left.size, right.size),
        };
      }
      case "EXPRESSION_LIST": {
        const { values } = table;
        this.#subqueries(values, scope);
        const [first] = Array.isArray(values) ? values : [];
        const row = Array.isArray(first) ? first.filter(isTree) : [];
        return { columns: row.length, size: this.#sizeOf({ children: row }, 1, new Map()) };
      }
      case "EMPTY":
        return nothing;
      default: {
        const query = treeOf(table, "query");
        if (query !== null) this.ofQuery(query, scope);
        this.#subqueries(table["function"], scope);
        const size = this.#sizeOf(treeOf(table, "function") ?? {}, 1, new Map());
        return { columns: otherColumns, size };
      }
    }
  }

  #ofName(name: string, scope: Scope | null): Width {
    for (let s = scope; s !== null; s = s.outer) if (s.name === name) return s.width;
    const view = viewOf(name, true);
    return { columns: view === null ? otherColumns : columnsOfView(view).length, size: 16 };
  }

  /** Scalars in the type of an expression over columns whose types have at most `from` of them. */
  #sizeOf(expression: Tree, from: number, aliases: ReadonlyMap<string, number>): number {
    const kind = textOf(expression, "class");
    if (kind === "COLUMN_REF") {
      const names = expression["column_names"];
      const last = Array.isArray(names) ? names.at(-1) : null;
      return Math.max(from, typeof last === "string" ? (aliases.get(foldName(last)) ?? 1) : 1);
    }
    if (kind === "STAR" || kind === "SUBQUERY") return from;
    const sizes = partsOf(expression).map((part) => this.#sizeOf(part, from, aliases));
    if (kind === "FUNCTION" && constructors.has(foldName(textOf(expression, "function_name")))) {
      const sum = sizes.reduce((a, b) => a + b, 1);
      if (sum > maxTypeSize) throw refuse("A struct is made of too many values.");
      return sum;
    }
    return sizes.reduce((a, b) => Math.max(a, b), 1);
  }

  /** Queries within expressions. */
  #subqueries(value: TreeValue | undefined, scope: Scope | null): void {
    if (Array.isArray(value)) {
      for (const item of value) this.#subqueries(item, scope);
    } else if (isTree(value)) {
      if (value["class"] === "CONSTANT") return;
      const query =
        value["class"] === "SUBQUERY" ? treeOf(treeOf(value, "subquery") ?? {}, "node") : null;
      if (query !== null) this.ofQuery(query, scope);
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
  };
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
