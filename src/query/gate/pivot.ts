/** PIVOT and UNPIVOT in the gate; the table within and the expressions are walked like any other. */
import { refuse } from "./query-text.js";
import { textOf, type Tree, treesOf } from "./syntax-tree.js";

/** Most columns that a PIVOT makes of values. */
const maxPivotColumns = 1000;

/** How PIVOT is written here. */
export const pivotSentence =
  "PIVOT takes the values that become columns as a list of constants: PIVOT ... ON level IN (1, 2, 3) USING count(*)";

/**
 * Refuses a PIVOT whose values are not listed, or too many: each combination is a column.
 * @throws ServiceError BAD_REQUEST
 */
export function checkPivot(node: Tree): void {
  const pivots = treesOf(node, "pivots");
  // It would be the name of a type.
  if (pivots.some((pivot) => textOf(pivot, "pivot_enum") !== "")) {
    throw refuse(`${pivotSentence}.`);
  }
  const values = pivots.reduce((product, pivot) => product * treesOf(pivot, "entries").length, 1);
  if (values * Math.max(1, treesOf(node, "aggregates").length) > maxPivotColumns) {
    throw refuse(`PIVOT and UNPIVOT make at most ${maxPivotColumns} columns of values.`);
  }
}
