/** Names that a query gives: to columns of its own making, and to common table expressions. */
import { foldName } from "../sql/identifier.js";
import { isTree, textOf, treesIn, type Tree, type TreeValue } from "./syntax-tree.js";

/** Lists of names of columns: of CTEs, of tables, of UNPIVOT. */
const nameLists: ReadonlySet<string> = new Set([
  "aliases",
  "column_name_alias",
  "unpivot_names",
  "rename_list",
  "replace_list",
]);

/**
 * Names, folded, that are anywhere in a part of a tree given to something else than a column of the same name. A
 * column reference by any other name is to a column of a view, or to one that came through unchanged.
 */
export function givenNames(part: Tree): ReadonlySet<string> {
  const names = new Set<string>();
  for (const node of treesIn(part)) {
    const alias = foldName(textOf(node, "alias"));
    if (alias !== "" && alias !== columnName(node)) {
      names.add(alias);
    }
    for (const key of nameLists) {
      const list = node[key];
      if (Array.isArray(list)) {
        addListed(names, list);
      }
    }
  }
  return names;
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
