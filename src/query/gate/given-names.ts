/**
 * Names in a query: those that it gives, to columns of its own making and to common table expressions, and all that may
 * name a column that it reads.
 */
import { catalogName, schemaName } from "../sql/catalog-names.js";
import { foldName } from "../sql/identifier.js";
import { viewOf } from "../sql/views.js";
import { aliasOf } from "./constraints.js";
import { tableReferences } from "./known-nodes.js";
import { isTree, textOf, treesIn, treesOf, type Tree, type TreeValue } from "./syntax-tree.js";

/** Lists of names of columns: of CTEs, of tables, of UNPIVOT. */
const nameLists: ReadonlySet<string> = new Set([
  "aliases",
  "column_name_alias",
  "unpivot_names",
  "rename_list",
  "replace_list",
]);

/** Names of a document, folded, wherever in it they are given. */
export interface GivenNames {
  /**
   * Given to something else than a column of the same name. A column reference by any other name is to a column of a
   * view, or to one that came through unchanged.
   */
  readonly given: ReadonlySet<string>;
  /** Of tables, and of nothing else. */
  readonly tables: ReadonlySet<string>;
  /** Fields of structs, or values of a PIVOT, may have become columns: the document may not have their names. */
  readonly hasOthers: boolean;
}

/** Finds the names that a document gives. */
export function givenNames(document: Tree): GivenNames {
  const given = new Set<string>();
  const tables = new Set<string>();
  const aliases = new Set<string>();
  const stars = new Set<string>();
  /** What a SELECT passes on by its own name, with the name in front of it. */
  const passedOn: (readonly [owner: string, name: string])[] = [];
  let hasOthers = false;
  for (const node of treesIn(document)) {
    const type = textOf(node, "type");
    if (node["class"] === undefined && tableReferences.has(type)) {
      tables.add(aliasOf(node));
      aliases.add(foldName(textOf(node, "alias")));
    } else {
      const alias = foldName(textOf(node, "alias"));
      if (alias !== "" && alias !== columnName(node)) {
        given.add(alias);
      }
    }
    for (const item of treesOf(node, "select_list")) {
      const names = item["column_names"];
      const owner = Array.isArray(names) ? names.at(-2) : undefined;
      const name = columnName(item);
      if (name !== null && typeof owner === "string") {
        passedOn.push([foldName(owner), name]);
      }
    }
    for (const key of nameLists) {
      const list = node[key];
      if (Array.isArray(list)) {
        addListed(given, list);
      }
    }
    switch (textOf(node, "class")) {
      case "LAMBDA":
        for (const part of treesIn(node["lhs"] ?? null)) {
          const parameter = columnName(part);
          if (parameter !== null) {
            given.add(parameter);
          }
        }
        break;
      case "STAR":
        stars.add(foldName(textOf(node, "relation_name")));
        hasOthers ||= node["columns"] === true && textOf(node, "alias") !== "";
        break;
      default:
        hasOthers ||= type === "PIVOT" || foldName(textOf(node, "function_name")) === "unnest";
    }
  }
  const onlyTables = new Set([...tables].filter((name) => !given.has(name)));
  for (const [owner, name] of passedOn) {
    // A field of a struct.
    if (!onlyTables.has(owner)) {
      given.add(name);
    }
  }
  return {
    given: new Set([...given, ...aliases]),
    tables: onlyTables,
    hasOthers: hasOthers || [...stars].some((name) => name !== "" && !onlyTables.has(name)),
  };
}

/**
 * The name of the column of a view, or of one that came through unchanged, that an expression is for certain; else null.
 */
export function viewColumn(expression: Tree, { given, tables, hasOthers }: GivenNames): string | null {
  const names = expression["column_names"];
  const name = columnName(expression);
  if (name === null || !Array.isArray(names) || hasOthers || given.has(name)) {
    return null;
  }
  const [table] = names;
  const isQualified = names.length === 2 && typeof table === "string" && tables.has(foldName(table));
  return names.length === 1 || isQualified ? name : null;
}

/** The name of the column that an expression is, folded and without its qualifiers, else null. */
export function columnName(expression: Tree): string | null {
  const names = expression["column_names"];
  if (expression["class"] !== "COLUMN_REF" || !Array.isArray(names)) {
    return null;
  }
  const last = names.at(-1);
  return typeof last === "string" ? foldName(last) : null;
}

/**
 * Takes the names of the one catalog and its schema off columns, as the gate takes them off tables.
 * @returns whether there were any
 */
export function dropSchemas(document: Tree): boolean {
  let dropped = false;
  let given: ReadonlySet<string> | null = null;
  for (const part of treesIn(document)) {
    const names = part["column_names"];
    if (part["class"] !== "COLUMN_REF" || !Array.isArray(names)) {
      continue;
    }
    const [first = "", second = ""] = names.slice(0, 2).map((name) => (typeof name === "string" ? foldName(name) : ""));
    const count = first === schemaName ? 1 : first === catalogName && second === schemaName ? 2 : 0;
    const table = names[count];
    const isOurs = typeof table === "string" && viewOf(foldName(table), true) !== null;
    // A struct of the query's own may be called so, and its field like a view.
    if (count === 0 || !isOurs || names.length <= count + 1) {
      continue;
    }
    given ??= givenNames(document).given;
    if (!given.has(first)) {
      part["column_names"] = names.slice(count);
      dropped = true;
    }
  }
  return dropped;
}

/** RENAME has the new name in `value`, REPLACE has it in `key`. */
function addListed(names: Set<string>, list: readonly TreeValue[]): void {
  for (const item of list) {
    const texts = isTree(item) ? [textOf(item, "key"), textOf(item, "value")] : [item];
    for (const text of texts) {
      if (typeof text === "string") {
        names.add(foldName(text));
      }
    }
  }
}

/** A name that a common table expression has, folded, and the one that it has in the executed query. */
export interface CteName {
  readonly name: string;
  readonly executed: string;
}

/** Names that common table expressions have given, innermost first. */
export interface Scope extends CteName {
  readonly outer: Scope | null;
}

/** The innermost one of a folded name. */
export function inScope(scope: Scope | null, name: string): CteName | null {
  for (let s = scope; s !== null; s = s.outer) {
    if (s.name === name) {
      return s;
    }
  }
  return null;
}

/**
 * Every name in a query, folded: more than the columns that it reads, and no less. Null when it reaches columns without their
 * names, by `*`, a position, all that two tables share, or a whole row. A view that has no other columns is bound in half
 * of the time.
 * @param document as the gate has rewritten it
 */
export function namedColumns(document: Tree): ReadonlySet<string> | null {
  const names = new Set<string>();
  const tables = new Set<string>();
  const lastNames = new Set<string>();
  const stack: (TreeValue | undefined)[] = [document];
  while (stack.length > 0) {
    const part = stack.pop();
    if (typeof part === "string") {
      // It folds more than DuckDB does: a few names more are no harm.
      names.add(part.toLowerCase());
    } else if (typeof part === "object" && part !== null && (Array.isArray(part) || part["class"] !== "CONSTANT")) {
      if (!Array.isArray(part)) {
        if (reachesUnnamed(part)) {
          return null;
        }
        if (part["class"] === "COLUMN_REF" && Array.isArray(part["column_names"])) {
          const last = part["column_names"].at(-1);
          lastNames.add(typeof last === "string" ? last.toLowerCase() : "");
        }
        if (part["type"] === "BASE_TABLE") {
          tables.add(textOf(part, "table_name").toLowerCase()).add(textOf(part, "alias").toLowerCase());
        }
      }
      for (const child of Array.isArray(part) ? part : Object.values(part)) {
        if (typeof child === "string" || typeof child === "object") {
          stack.push(child);
        }
      }
    }
  }
  // A table's name is the row as a struct, unless a column is called so.
  return [...lastNames].some((name) => tables.has(name)) ? null : names;
}

function reachesUnnamed(part: Tree): boolean {
  const { class: kind, type, ref_type: join, column_name_alias: renamed } = part;
  return (
    kind === "STAR" ||
    kind === "POSITIONAL_REFERENCE" ||
    type === "PIVOT" ||
    type === "SHOW_REF" ||
    join === "NATURAL" ||
    (type === "BASE_TABLE" && Array.isArray(renamed) && renamed.length > 0)
  );
}
