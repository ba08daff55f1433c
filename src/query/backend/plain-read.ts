/** Queries that are mostly reading: more threads than one would only wait for the one that gives their rows out. */
import { constantInteger, sidesOf, textOf, type Tree, treeOf, treesOf } from "../gate/syntax-tree.js";

/** Whether a query gives out columns of one table as they are, of all rows or of those of a time range. */
export function isPlainRead(document: Tree): boolean {
  const [statement, ...more] = treesOf(document, "statements");
  const select = treeOf(statement ?? {}, "node");
  const from = treeOf(select ?? {}, "from_table");
  return (
    select !== null &&
    more.length === 0 &&
    select["type"] === "SELECT_NODE" &&
    from?.["type"] === "BASE_TABLE" &&
    treeOf(from, "sample") === null &&
    // GROUP BY ALL has no expressions.
    select["aggregate_handling"] === "STANDARD_HANDLING" &&
    treesOf(treeOf(select, "cte_map") ?? {}, "map").length === 0 &&
    treesOf(select, "group_expressions").length === 0 &&
    ["having", "qualify", "sample"].every((clause) => treeOf(select, clause) === null) &&
    treesOf(select, "modifiers").every(({ type }) => type === "LIMIT_MODIFIER") &&
    treesOf(select, "select_list").every(isColumn) &&
    isOfTime(treeOf(select, "where_clause"))
  );
}

/** How many rows of its table are enough for a plain read without conditions, whichever they are; null: all are wanted. */
export function rowsEnough(document: Tree): number | null {
  const select = treeOf(treesOf(document, "statements")[0] ?? {}, "node") ?? {};
  const [modifier] = treesOf(select, "modifiers");
  if (modifier === undefined || !isPlainRead(document) || treeOf(select, "where_clause") !== null) {
    return null;
  }
  const [limit, offset] = [treeOf(modifier, "limit"), treeOf(modifier, "offset")];
  const rows = limit === null ? null : constantInteger(limit);
  const skipped = offset === null ? 0 : constantInteger(offset);
  return rows === null || skipped === null ? null : rows + skipped;
}

/** Not a constant: NULL would have another type in place. */
function isColumn(item: Tree): boolean {
  return item["class"] === "COLUMN_REF" || (item["class"] === "STAR" && item["columns"] !== true && isBare(item));
}

/** Without REPLACE, and not a call of UNPACK. */
function isBare(star: Tree): boolean {
  return treeOf(star, "expr") === null && treesOf(star, "replace_list").length === 0;
}

/** Whether a condition compares `time` alone. */
function isOfTime(condition: Tree | null): boolean {
  if (condition === null) {
    return true;
  }
  if (condition["class"] === "CONJUNCTION") {
    return treesOf(condition, "children").every(isOfTime);
  }
  const sides = sidesOf(condition);
  const operands =
    sides === null
      ? condition["class"] === "BETWEEN"
        ? ["input", "lower", "upper"].map((side) => treeOf(condition, side) ?? {})
        : null
      : [sides.left, sides.right];
  return operands?.every(isTimeOrConstant) ?? false;
}

function isTimeOrConstant(operand: Tree): boolean {
  switch (textOf(operand, "class")) {
    case "COLUMN_REF":
      return Array.isArray(operand["column_names"]) && operand["column_names"].at(-1) === "time";
    case "CONSTANT":
      return true;
    case "CAST":
      return isTimeOrConstant(treeOf(operand, "child") ?? {});
    case "FUNCTION":
      return treesOf(operand, "children").every(isTimeOrConstant);
    default:
      return false;
  }
}
