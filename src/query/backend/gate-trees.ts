/**
 * The gate as a function of texts: what an engine has parsed comes in as JSON, and what it is to print goes out as JSON.
 *
 * The tree of a list of 150,000 numbers is 23 MB of JSON, which takes a core one to three seconds. A server has a thread
 * for such trees, and looks at small ones itself.
 */
import { fingerprintOf } from "../fingerprint.js";
import { isTimeExpression } from "../gate/constraints.js";
import { gateTree } from "../gate/gate.js";
import type { GatedTree, Scan } from "../gate/gated-tree.js";
import { mayReadOwnColumns, type NamedExpression, Placeholders } from "../gate/own-columns.js";
import { castParameters, type ParameterUse, replaceParameters } from "../gate/parameters.js";
import { parseTree, printNamed, printTree, type Tree, treeOf, treesOf } from "../gate/syntax-tree.js";
import { adminFunctions } from "../sql/admin-functions.js";
import { ServiceError } from "../../runtime/errors.js";
import { isPlainRead, rowsEnough } from "./plain-read.js";
import { timeOf } from "./scan-bounds.js";

/** A text to be gated, once for each use of its parameters, and what an engine made of it. Plain data. */
export interface GateWork {
  /** SQL of the SELECT, without EXPLAIN. */
  readonly text: string;
  readonly isExplained: boolean;
  readonly admin: boolean;
  /** The values of the parameters only stand in for others. */
  readonly standIns: boolean;
  /** Trees as JSON: of the text, and of a SELECT of a time. */
  readonly tree: string;
  readonly timeFrame: string;
  /** Of the templates that the text may need, by their keys. */
  readonly templates: readonly (readonly [key: string, tree: string])[];
  readonly uses: readonly {
    readonly parameters: ParameterUse;
    /** The tree of the templates of values that are bound; null when none is. */
    readonly templates: string | null;
  }[];
}

/** What the gate let through for one use. Plain data: trees that are to be printed are JSON, and no others are left. */
export interface GatedTrees {
  readonly fingerprint: string;
  /** See {@link isPlainRead}. */
  readonly isPlain: boolean;
  /** See {@link rowsEnough}. */
  readonly rowsEnough: number | null;
  /** Columns that are named by what they say, with parameters in it: the same placeholders in both queries. */
  readonly named: readonly PrintedName[];
  /** The query as it is described; `printed` is null when it is its text. */
  readonly described: { readonly tree: GatedTree; readonly printed: string | null };
  /** The query as it is executed; null when that is the same. */
  readonly executed: {
    readonly tree: GatedTree;
    readonly printed: string;
    readonly named: readonly { readonly placeholder: string; readonly printed: string }[];
  } | null;
  /** SELECTs of the times that the query compares with, each of one number of nanoseconds. */
  readonly times: readonly string[];
  /** Of a text that declares its parameters; null when it casts none. */
  readonly casts: ParameterCasts | null;
}

/** An expression, printed to be the name in place of its placeholder. */
export interface PrintedName {
  readonly placeholder: string;
  readonly printed: string;
}

/** Casts of parameters, each of NULL in place of one: their names, and a SELECT of them in their order. */
export interface ParameterCasts {
  readonly names: readonly string[];
  readonly printed: string;
}

/** Gates a tree on another thread; the signal gives it up. @throws ServiceError BAD_REQUEST */
export type GateThread = (work: GateWork, signal: AbortSignal) => Promise<readonly GatedTrees[]>;

/** Characters of trees that a server looks at between two requests: some 30 ms. To start a thread takes 100. */
const mostHere = 1 << 19;

/** Whether another thread should gate it. */
export function isLarge({ tree, templates, uses }: GateWork): boolean {
  const ofTemplates = templates.reduce((sum, [, { length }]) => sum + length, 0);
  return uses.reduce((sum, one) => sum + tree.length + (one.templates ?? "").length, ofTemplates) > mostHere;
}

/** Gates here and now. @throws ServiceError BAD_REQUEST */
export function gateTrees(work: GateWork): GatedTrees[] {
  const { text, isExplained, admin, standIns } = work;
  const frame = parseTree(work.timeFrame);
  const templates = new Map(work.templates.map(([key, tree]) => [key, parseTree(tree)]));
  return work.uses.map(({ parameters, templates: values }) => {
    const document = parseTree(work.tree);
    const unnamed =
      values !== null && typeof parameters !== "string"
        ? replaceParameters(document, parameters, parseTree(values))
        : [];
    const fingerprint = fingerprintOf(document);
    const plain = { isPlain: isPlainRead(document), rowsEnough: rowsEnough(document) };
    const placeholders = new Placeholders();
    const named = unnamed.map(({ item, expression }) => {
      const placeholder = placeholders.next();
      item["alias"] = placeholder;
      return { placeholder, expression };
    });
    const printNames = (names: readonly NamedExpression[]): PrintedName[] =>
      names.map(({ placeholder, expression }) => ({
        placeholder,
        printed: printNamed(selecting(frame, [expression])),
      }));
    const how = { parametersAllowed: parameters === "declare", text, templates, admin, standIns };
    const copy = !how.parametersAllowed && !standIns && mayReadOwnColumns(text) ? structuredClone(document) : null;
    const tree = gateTree(document, how);
    if (isExplained && tree.calls.length > 0) {
      throw new ServiceError("BAD_REQUEST", "EXPLAIN does not take admin functions.");
    }
    const withColumns = copy === null ? tree : gateTree(copy, { ...how, ownColumns: true });
    const isSame = withColumns.scans.every(({ attributes, comparesTime }) => attributes.length === 0 && !comparesTime);
    return {
      fingerprint,
      ...plain,
      named: printNames(named),
      described: {
        tree: withoutExpressions(tree),
        printed: tree.rewritten || values !== null ? printTree(document) : null,
      },
      executed:
        copy === null || isSame
          ? null
          : {
              tree: withoutExpressions(withColumns),
              printed: printTree(copy),
              named: printNames(withColumns.named),
            },
      times: timesOf(isSame ? tree : withColumns).map((expression) => printTree(framed(frame, expression))),
      casts: how.parametersAllowed ? castsOf(document, frame) : null,
    };
  });
}

function castsOf(document: Tree, frame: Tree): ParameterCasts | null {
  const casts = castParameters(document);
  const [names, expressions] = [[...casts.keys()], [...casts.values()]];
  return names.length === 0 ? null : { names, printed: printTree(selecting(frame, expressions)) };
}

/** A SELECT of nothing but these. */
function selecting(frame: Tree, expressions: Tree[]): Tree {
  const copy = structuredClone(frame);
  const select = treeOf(treesOf(copy, "statements")[0] ?? {}, "node");
  if (select === null) {
    throw new ServiceError("INTERNAL");
  }
  select["select_list"] = expressions;
  return copy;
}

/** The frame with an expression in it: its value in nanoseconds since the epoch. */
function framed(frame: Tree, expression: Tree): Tree {
  const copy = structuredClone(frame);
  const select = treeOf(treesOf(copy, "statements")[0] ?? {}, "node");
  const call = select === null ? undefined : treesOf(select, "select_list")[0];
  const cast = call === undefined ? undefined : treesOf(call, "children")[0];
  if (cast === undefined) {
    throw new ServiceError("INTERNAL");
  }
  cast["child"] = expression;
  return copy;
}

/** Every time whose value has to be known, in the order in which `boundsOf` and the calls ask for them. */
function timesOf({ scans, calls }: GatedTree): Tree[] {
  return [
    ...scans.flatMap((scan) => boundExpressions(scan)),
    ...calls.flatMap(({ name, parameters }) =>
      adminFunctions[name].parameters.flatMap(([, kind], i) => {
        const expression = parameters[i];
        return kind === "time" && expression !== undefined && isTimeExpression(expression) ? [expression] : [];
      }),
    ),
  ];
}

function boundExpressions(scan: Scan): Tree[] {
  if (timeOf(scan.view) === null) {
    return [];
  }
  return scan.constraints.flatMap((place) =>
    place.flatMap((constraint) =>
      constraint.kind === "min" || constraint.kind === "max" ? [constraint.expression] : [],
    ),
  );
}

/** Expressions have been printed, and may be as large as the text. Those of calls, which only administrators make, stay. */
function withoutExpressions(tree: GatedTree): GatedTree {
  const none: Tree = {};
  return {
    ...tree,
    named: [],
    scans: tree.scans.map((scan) => ({
      ...scan,
      constraints: scan.constraints.map((place) =>
        place.map((constraint) =>
          constraint.kind === "min" || constraint.kind === "max"
            ? { ...constraint, expression: none, column: constraint.column === null ? null : none }
            : constraint,
        ),
      ),
    })),
  };
}
