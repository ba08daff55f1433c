/** The kinds of nodes in DuckDB's syntax tree that the gate lets through; it refuses any other. */

/** Classes of expressions. */
export const expressionClasses: ReadonlySet<string> = new Set([
  "BETWEEN",
  "CASE",
  "CAST",
  "COLLATE",
  "COLUMN_REF",
  "COMPARISON",
  "CONJUNCTION",
  "CONSTANT",
  "DEFAULT",
  "FUNCTION",
  "LAMBDA",
  "LAMBDA_REF",
  "OPERATOR",
  "POSITIONAL_REFERENCE",
  "STAR",
  "SUBQUERY",
  "TYPE",
  "WINDOW",
]);

/** Types of queries. */
export const queryNodes: ReadonlySet<string> = new Set(["SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE"]);

/** Types of what may follow FROM. */
export const tableReferences: ReadonlySet<string> = new Set([
  "BASE_TABLE",
  "EMPTY",
  "EXPRESSION_LIST",
  "JOIN",
  "PIVOT",
  "SHOW_REF",
  "SUBQUERY",
  "TABLE_FUNCTION",
]);

/** Objects with a `type` that are neither: result modifiers, sort orders, details of types. */
export const plainType =
  /^(?:ORDER_[A-Z_]+|ASCENDING|DESCENDING|LIMIT_MODIFIER|LIMIT_PERCENT_MODIFIER|DISTINCT_MODIFIER|[A-Z_]+_TYPE_INFO)$/u;
