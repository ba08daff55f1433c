/** Evaluates expressions of the deny list, in a query thread. */
import type { DuckDBConnection } from "@duckdb/node-api";

import { ServiceError } from "../runtime/errors.js";
import type { MatchContext, MatchResult } from "./denials.js";
import { gateTree } from "./gate.js";
import { checkText } from "./query-text.js";
import { deserialize, serialize } from "./inspect.js";
import type { Scrubber } from "./scrub.js";
import { textOf, type Tree, treeOf, treesOf } from "./syntax-tree.js";

/** The statement that an expression takes its place in. */
const frame =
  'SELECT true FROM (VALUES ($1, $2, $3, $4, $5)) AS c("user", email, client, sql, sql_hash)';

/** Statements by expression; expressions that are refused are not kept. */
export type MatchStatements = Map<string, string>;

const maxStatements = 2000;

/** Whether each expression is true of `context`. Never throws for an expression. */
export async function matchRules(
  connection: DuckDBConnection,
  statements: MatchStatements,
  expressions: readonly string[],
  context: MatchContext,
  scrub: Scrubber,
): Promise<MatchResult[]> {
  const { user, email, client, sql, sql_hash } = context;
  const results: MatchResult[] = [];
  for (const expression of expressions) {
    try {
      let statement = statements.get(expression);
      if (statement === undefined) {
        statement = await compile(connection, expression);
        if (statements.size >= maxStatements) statements.clear();
        statements.set(expression, statement);
      }
      const reader = await connection.runAndReadAll(statement, [
        user,
        email,
        client,
        sql,
        sql_hash,
      ]);
      results.push({ matches: reader.getRows()[0]?.[0] === true });
    } catch (error) {
      results.push({ failure: scrub(error instanceof Error ? error.message : String(error)) });
    }
  }
  return results;
}

/** The expression's tree goes into the frame's; its text is never put together with other text but to be parsed. */
async function compile(connection: DuckDBConnection, expression: string): Promise<string> {
  const text = `SELECT ${expression}`;
  checkText(text);
  const document = await serialize(connection, text);
  const { scans, listings, calls } = gateTree(document, { text });
  const select = onlySelect(document);
  const items = select === null ? [] : treesOf(select, "select_list");
  const [item] = items;
  if (
    select === null ||
    item === undefined ||
    items.length !== 1 ||
    scans.length + listings.length + calls.length > 0 ||
    textOf(treeOf(select, "from_table") ?? {}, "type") !== "EMPTY" ||
    treeOf(select, "where_clause") !== null ||
    treesOf(select, "modifiers").length > 0 ||
    holdsSubquery(item)
  ) {
    throw new ServiceError("BAD_REQUEST", "it must be one expression without a subquery");
  }
  const statement = await serialize(connection, frame);
  const target = onlySelect(statement);
  if (target === null) throw new ServiceError("INTERNAL", "the frame is not a SELECT");
  const cast = treesOf(target, "select_list")[0];
  if (cast === undefined) throw new ServiceError("INTERNAL", "the frame selects nothing");
  // `true` is a cast to BOOLEAN, which any expression may stand under.
  cast["child"] = { ...item, alias: "" };
  return deserialize(connection, statement);
}

function onlySelect(document: Tree): Tree | null {
  const node = treeOf(treesOf(document, "statements")[0] ?? {}, "node");
  return node !== null && textOf(node, "type") === "SELECT_NODE" ? node : null;
}

function holdsSubquery(tree: Tree): boolean {
  return JSON.stringify(tree).includes('"class":"SUBQUERY"');
}
