/** What a call says by a name in its arguments, and what the gate makes of it. */
import { isAllowedFunction } from "./allowed-functions.js";
import { columnName } from "./given-names.js";
import { foldName } from "../sql/identifier.js";
import { refuse } from "./query-text.js";
import { timeCopiers } from "../sql/sql-macros.js";
import { constantText, holds, isNullConstant, textOf, type Tree, treesOf } from "./syntax-tree.js";

/** Functions whose second argument is the name of an aggregate. */
const takesAggregate: ReadonlySet<string> = new Set([
  "aggregate",
  "array_aggr",
  "array_aggregate",
  "list_aggr",
  "list_aggregate",
]);

/** The aggregate that a call names as text is one that may be called. @throws ServiceError BAD_REQUEST */
export function checkAggregateName(name: string, call: Tree): void {
  if (!takesAggregate.has(name)) {
    return;
  }
  const argument = treesOf(call, "children")[1];
  if (argument === undefined || isNullConstant(argument)) {
    return;
  } // DuckDB says what is wrong with it
  const aggregate = constantText(argument);
  if (aggregate === null) {
    throw refuse(`${name} takes the name of an aggregate, written out.`);
  }
  if (!isAllowedFunction(aggregate)) {
    throw refuse(`The function ${JSON.stringify(aggregate.slice(0, 80))} is not available.`);
  }
}

/** Most calls that copy what may be a copy: each may double what there is to plan. */
const maxTimeCopies = 8;

/** Bounds what macros multiply that copy their time: one within another, or of a column that another has made. */
export class TimeCopies {
  readonly #given: () => ReadonlySet<string>;
  #calls = 0;

  /** @param given names that the query gives to columns of its own */
  constructor(given: () => ReadonlySet<string>) {
    this.#given = given;
  }

  /** Counts a call. @throws ServiceError BAD_REQUEST when there are too many */
  check(name: string, call: Tree): void {
    if (!timeCopiers.has(name)) {
      return;
    }
    const copies = (part: Tree): boolean =>
      this.#given().has(columnName(part) ?? "") || timeCopiers.has(foldName(textOf(part, "function_name")));
    if (!holds(treesOf(call, "children")[1], copies)) {
      return;
    }
    this.#calls++;
    if (this.#calls > maxTimeCopies) {
      throw refuse(
        `A query calls ${[...timeCopiers].join(", ")} at most ${maxTimeCopies} times with a column that the query itself has named, or with the result of such a call.`,
      );
    }
  }
}

/**
 * The arguments of one of our own calls.
 * @throws ServiceError BAD_REQUEST when one has a name, which would be ignored
 */
export function positional(name: string, call: Tree): Tree[] {
  const parameters = treesOf(call, "children");
  if (parameters.some((parameter) => textOf(parameter, "alias") !== "")) {
    throw refuse(`${name} takes its arguments by place, without names.`);
  }
  return parameters;
}
