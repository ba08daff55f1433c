/** DISTINCT, ORDER BY and LIMIT of a query in DuckDB's syntax tree. */
import { constantInteger, textOf, type Tree, treeOf, treesOf } from "../gate/syntax-tree.js";
import { LocalOnly } from "./spark-types.js";

/** What stands behind a query: DISTINCT, ORDER BY, LIMIT and OFFSET. */
export interface Modifiers {
  readonly distinct: boolean;
  readonly orders: readonly Tree[];
  /** SQL. */
  readonly limit: string;
}

/** Reads them of a node. @throws LocalOnly for what Spark has not */
export function readModifiers(node: Tree): Modifiers {
  let distinct = false;
  let orders: readonly Tree[] = [];
  let limit = "";
  for (const modifier of treesOf(node, "modifiers")) {
    switch (textOf(modifier, "type")) {
      case "DISTINCT_MODIFIER":
        if (treesOf(modifier, "distinct_on_targets").length > 0) {
          throw new LocalOnly("DISTINCT ON");
        }
        distinct = true;
        break;
      case "ORDER_MODIFIER":
        orders = treesOf(modifier, "orders");
        break;
      case "LIMIT_MODIFIER":
        limit = ["limit", "offset"]
          .map((key) => {
            const tree = treeOf(modifier, key);
            if (tree === null || treeOf(tree, "value")?.["is_null"] === true) {
              return "";
            }
            const count = constantInteger(tree);
            if (count === null || count < 0 || count > 2 ** 31 - 1) {
              throw new LocalOnly("a LIMIT that is computed, or beyond 32 bits");
            }
            return ` ${key.toUpperCase()} ${count}`;
          })
          .join("");
        break;
      default:
        throw new LocalOnly("LIMIT with a percentage");
    }
  }
  return { distinct, orders, limit };
}
