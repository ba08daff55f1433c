/**
 * Calls that stand for a query: its tree takes the place of the call before the gate walks anything, so that all rules
 * for a caller's text apply to it. DuckDB parses the templates of those that a text may call along with the text.
 */
import { isTimeExpression } from "./constraints.js";
import { foldName } from "../sql/identifier.js";
import { refuse } from "./query-text.js";
import { constantText, isNullConstant, textOf, type Tree, treeOf, treesIn, treesOf } from "./syntax-tree.js";
import {
  isRangeFunction,
  rangeBegin,
  rangeEnd,
  type RangeFunction,
  rangeFunctions,
  rangeTemplate,
} from "../sql/range-functions.js";
import { traceFunctionNames } from "../sql/views.js";

/** Most calls in a query: each is some hundred nodes of its tree. */
const maxCalls = 100;

/** What stands in a template for the id of a trace that is not known yet. */
const openTrace = "svc trace";

/** Texts of the templates that a statement may need, by their key. */
export function templatesFor(text: string): ReadonlyMap<string, string> {
  const lower = text.toLowerCase();
  const found = new Map<string, string>();
  for (const name of Object.keys(rangeFunctions)) {
    if (isRangeFunction(name) && lower.includes(name)) {
      found.set(keyOf(name, true), rangeTemplate(name, true));
      found.set(keyOf(name, false), rangeTemplate(name, false));
    }
  }
  if (traceFunctionNames.some((name) => lower.includes(name))) {
    found.set(openTrace, `SELECT * FROM (SELECT * FROM svc_trace WHERE trace_id = '${openTrace}') AS svc_template`);
  }
  return found;
}

const rangePlaces: ReadonlySet<string> = new Set([rangeBegin, rangeEnd]);

const keyOf = (name: RangeFunction, ranged: boolean): string => `${name}${ranged ? " of a range" : ""}`;

/**
 * Puts the queries of `service_edges(begin, end)` and the like in the places of their calls. Says whether there was one.
 * @param templates the trees of {@link templatesFor}, as DuckDB wrote them
 * @param standIns values of parameters only tell the columns, so that NULL will do
 * @throws ServiceError BAD_REQUEST when arguments are no times
 */
export function expandRangeCalls(document: Tree, templates: Templates, standIns: boolean): boolean {
  let calls = 0;
  for (const node of treesIn(document)) {
    const call = textOf(node, "type") === "TABLE_FUNCTION" ? treeOf(node, "function") : null;
    const name = foldName(call === null ? "" : textOf(call, "function_name"));
    if (call === null || !isRangeFunction(name)) {
      continue;
    }
    const values = treesOf(call, "children");
    if (textOf(call, "catalog") !== "" || textOf(call, "schema") !== "") {
      throw refuse(`The table function ${name} is called by its bare name.`);
    }
    const [begin, end] = values;
    if ((values.length !== 0 && values.length !== 2) || !values.every((value) => isTime(value, standIns))) {
      throw refuse(
        `${name} takes a begin and an end, times without columns and subqueries, or nothing: ${name}(now() - INTERVAL 1 HOUR, now()).`,
      );
    }
    calls++;
    if (calls > maxCalls) {
      throw refuse(`A query calls ${Object.keys(rangeFunctions).join(" and ")} at most ${maxCalls} times.`);
    }
    const template = templateOf(templates, keyOf(name, values.length === 2));
    // Found before they change: an argument may hold the same words.
    const places = [...treesIn(template)].filter((part) => rangePlaces.has(constantText(part) ?? ""));
    for (const part of places) {
      become(part, structuredClone((constantText(part) === rangeBegin ? begin : end) ?? {}), {});
    }
    become(node, template, namesOf(node, name));
  }
  return calls > 0;
}

/** Whether an argument is a time that a range may begin or end with; one that is bound later is checked then. */
function isTime(value: Tree, standIns: boolean): boolean {
  if (textOf(value, "alias") !== "" || (isNullConstant(value) && !standIns)) {
    return false;
  }
  const bound = structuredClone(value);
  for (const part of treesIn(bound)) {
    if (part["class"] === "PARAMETER") {
      part["class"] = "CONSTANT";
    }
  }
  return isTimeExpression(bound);
}

/**
 * Makes a subquery of the call of a trace function whose id is a parameter, so that the statement still asks for it.
 * @param table what it selects from
 */
export function openTraceCall(node: Tree, id: Tree, table: string, name: string, templates: Templates): void {
  const template = templateOf(templates, openTrace);
  for (const part of treesIn(template)) {
    if (textOf(part, "table_name") === "svc_trace") {
      part["table_name"] = table;
    } else if (constantText(part) === openTrace) {
      become(part, structuredClone(id), {});
    }
  }
  become(node, template, namesOf(node, name));
}

/** Trees of templates by their key. */
export type Templates = ReadonlyMap<string, Tree>;

/** The subquery of a template, to be changed. */
function templateOf(templates: Templates, key: string): Tree {
  const document = templates.get(key);
  const select = document === undefined ? null : treeOf(treesOf(document, "statements")[0] ?? {}, "node");
  const subquery = select === null ? null : treeOf(select, "from_table");
  if (subquery === null) {
    throw refuse("Write the name of this table function plainly, without escapes.");
  }
  return structuredClone(subquery);
}

/** What the caller calls a table reference, and a sample of it. */
function namesOf(node: Tree, name: string): Tree {
  return {
    alias: textOf(node, "alias") === "" ? name : textOf(node, "alias"),
    sample: node["sample"] ?? null,
    column_name_alias: node["column_name_alias"] ?? [],
  };
}

function become(node: Tree, other: Tree, names: Tree): void {
  for (const key of Object.keys(node)) {
    delete node[key];
  }
  Object.assign(node, other, names);
}
