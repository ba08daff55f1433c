/** Evaluates expressions of the deny list. */
import type { EngineStep } from "../../engine/protocol.js";
import { ServiceError } from "../../runtime/errors.js";
import type { MatchContext, MatchResult } from "./backend.js";
import { deserializeStep, printedResult, type RunSteps, serializeStep, textResult } from "./engine-instances.js";
import { gateTree } from "../gate/gate.js";
import { checkText } from "../gate/query-text.js";
import type { Scrubber } from "./scrub.js";
import { parseTree, printTree, textOf, type Tree, treeOf, treesOf } from "../gate/syntax-tree.js";

/** The statement that an expression takes its place in. */
const frame = 'SELECT true FROM (VALUES ($1, $2, $3, $4, $5)) AS c("user", email, client, sql, sql_hash)';

/** Statements by expression; expressions that are refused are not kept. */
export type MatchStatements = Map<string, string>;

const maxStatements = 2000;

/** Whether each expression is true of `context`. Throws for no expression, only when there is no engine. */
export async function matchRules(
  run: RunSteps,
  statements: MatchStatements,
  expressions: readonly string[],
  context: MatchContext,
  scrub: Scrubber,
): Promise<MatchResult[]> {
  const { user, email, client, sql, sql_hash } = context;
  if (statements.size + expressions.length > maxStatements) {
    statements.clear();
  }
  const fresh = expressions.filter((expression) => !statements.has(expression));
  const refused = fresh.length === 0 ? null : await compile(run, statements, fresh);
  const values = [user, email, client, sql, sql_hash].map((text) => ({ type: "VARCHAR", text }));
  const asked = expressions.flatMap((expression) => {
    const statement = statements.get(expression);
    return statement === undefined ? [] : [statement];
  });
  const answers = (
    asked.length === 0
      ? []
      : await run(
          asked.map((one): EngineStep => ({
            kind: "rows",
            sql: one,
            values,
            maxBytes: 64,
            optional: true,
          })),
        )
  ).values();
  return expressions.map((expression): MatchResult => {
    const failure = refused?.get(expression);
    if (failure !== undefined) {
      return { failure: scrub(failure) };
    }
    const { value } = answers.next();
    if (value?.error !== undefined) {
      return { failure: scrub(value.error) };
    }
    return { matches: value?.rows?.[0]?.[0] === true };
  });
}

/** Makes statements of expressions. @returns why some of them cannot be statements */
async function compile(
  run: RunSteps,
  statements: MatchStatements,
  expressions: readonly string[],
): Promise<ReadonlyMap<string, string>> {
  const refused = new Map<string, string>();
  const whole = expressions.filter((expression) => {
    try {
      checkText(`SELECT ${expression}`);
      return true;
    } catch (error) {
      refused.set(expression, messageOf(error));
      return false;
    }
  });
  const [framed, ...parsed] = await run(
    [frame, ...whole.map((expression) => `SELECT ${expression}`)].map(serializeStep),
  );
  const trees: { readonly expression: string; readonly tree: Tree }[] = [];
  for (const [i, expression] of whole.entries()) {
    try {
      const item = expressionOf(parseTree(textResult(parsed[i])), `SELECT ${expression}`);
      trees.push({ expression, tree: inFrame(parseTree(textResult(framed)), item) });
    } catch (error) {
      refused.set(expression, messageOf(error));
    }
  }
  if (trees.length === 0) {
    return refused;
  }
  const printed = await run(trees.map(({ tree }) => ({ ...deserializeStep(printTree(tree)), optional: true })));
  for (const [i, { expression }] of trees.entries()) {
    const failure = printed[i]?.error;
    if (failure === undefined) {
      statements.set(expression, printedResult(printed[i]));
    } else {
      refused.set(expression, failure);
    }
  }
  return refused;
}

/** The one expression that a text selects. @throws ServiceError BAD_REQUEST when it is more than that */
function expressionOf(document: Tree, text: string): Tree {
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
  return item;
}

/** The expression's tree goes into the frame's; its text is never put together with other text but to be parsed. */
function inFrame(statement: Tree, item: Tree): Tree {
  const target = onlySelect(statement);
  const cast = target === null ? undefined : treesOf(target, "select_list")[0];
  if (cast === undefined) {
    throw new ServiceError("INTERNAL", "the frame selects nothing");
  }
  // `true` is a cast to BOOLEAN, which may contain any expression.
  cast["child"] = { ...item, alias: "" };
  return statement;
}

function onlySelect(document: Tree): Tree | null {
  const node = treeOf(treesOf(document, "statements")[0] ?? {}, "node");
  return node !== null && textOf(node, "type") === "SELECT_NODE" ? node : null;
}

function holdsSubquery(tree: Tree): boolean {
  return JSON.stringify(tree).includes('"class":"SUBQUERY"');
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
