/**
 * The SQL gate: what query text may say.
 *
 * Text is bounded first (query-text.ts), then DuckDB's own parser turns it into a tree, and `gateTree`
 * walks that tree. It fails closed: a node, table, table function or function that it does not know is
 * refused. Names resolve here exactly as DuckDB resolves them (a CTE hides a view of the same name, and
 * only where it is in scope), because a name that slips past would reach DuckDB's catalog or a file.
 *
 * Calls that are ours (`view_instance`, `list_partitions`, `list_view_sets`, `SHOW TABLES`, admin functions) are
 * replaced in the tree by tables that the session makes before it runs the query.
 */
import { isUuid } from "../../runtime/text/uuid.js";
import { type AdminFunctionName, adminFunctions, isAdminFunction } from "../sql/admin-functions.js";
import { OwnColumns, type TakenColumns, tableWith } from "./own-columns.js";
import { allowedTableFunctions, isAllowedFunction } from "./allowed-functions.js";
import { checkAggregateName, positional, TimeCopies } from "./call-names.js";
import { expandRangeCalls, openTraceCall, type Templates } from "./call-templates.js";
import { catalogName, schemaName } from "../sql/catalog-names.js";
import { rewriteComparisons } from "./comparisons.js";
import { type Clocks, clocksOf, commonProcess, type Constraint, constraintsOfSelect } from "./constraints.js";
import { boundDurations } from "./duration-bounds.js";
import {
  type CteName,
  type GivenNames,
  dropSchemas,
  givenNames,
  inScope,
  namedColumns,
  type Scope,
} from "./given-names.js";
import type { AttributeColumn } from "../sql/file-source.js";
import { foldName } from "../sql/identifier.js";
import type { GatedCall, GatedTree } from "./gated-tree.js";
import { expressionClasses, plainType, queryNodes, tableReferences } from "./known-nodes.js";
import { metricMacros } from "../sql/metric-macros.js";
import { checkPivot } from "./pivot.js";
import { allowedSentence, refuse, shown, unknownNode } from "./query-text.js";
import { syntaxError } from "./syntax-error.js";
import {
  becomeTable,
  constantText,
  isTree,
  textOf,
  type Tree,
  type TreeValue,
  treeOf,
  treesOf,
} from "./syntax-tree.js";
import { isRangeFunction } from "../sql/range-functions.js";
import {
  attributesOfView,
  columnsRead,
  informationSchema,
  isOfProcesses,
  isTraceFunction,
  type Listing,
  type TraceFunction,
  type ViewName,
  viewNamesFor,
  viewOf,
} from "../sql/views.js";

/** Deepest nesting of the tree; DuckDB itself stops at expressions of depth 1000. */
const maxTreeDepth = 4000;
/** Most SELECTs in the tree: planning a UNION of twenty thousand takes seconds. */
const maxSelects = 2000;
/** Most objects in the tree. */
const maxTreeNodes = 200_000;

/** What a text has whose columns may have the schema in front. */
const qualifies = new RegExp(String.raw`\b${schemaName}"?\s*\.`, "iu");

/** How a text is walked. */
interface GateOptions {
  /** The text is a prepared statement whose parameters have no values yet. */
  readonly parametersAllowed?: boolean;
  /** What was parsed, so that an error of syntax can point at its place. */
  readonly text?: string;
  /** Trees of the templates that the text may need. */
  readonly templates?: Templates;
  /** Parameters have values that only tell the columns: any is the id of a trace, or a time. */
  readonly standIns?: boolean;
  /** Tables get columns of ours where that spares reading more: see {@link OwnColumns}. */
  readonly ownColumns?: boolean;
  /** Admins have the admin functions and `query_log`; to others these names are unknown. */
  readonly admin?: boolean;
}

/**
 * Checks what `json_serialize_sql` made of the text and rewrites it in place.
 * @param document its result: `{error, statements: [...]}`
 * @throws ServiceError BAD_REQUEST with a sentence that says what is refused and what is allowed
 */
export function gateTree(document: Tree, o: GateOptions = {}): GatedTree {
  if (document["error"] === true) {
    throw syntaxError(document, o.text ?? "");
  }
  const statements = treesOf(document, "statements");
  const [statement] = statements;
  if (statement === undefined) {
    throw refuse(`There is no statement. ${allowedSentence}.`);
  }
  if (statements.length > 1) {
    throw refuse(`Several statements were sent. ${allowedSentence}.`);
  }
  const node = treeOf(statement, "node");
  if (node === null) {
    throw refuse(`This statement is not allowed. ${allowedSentence}.`);
  }
  let known: GivenNames | null = null;
  const names = (): GivenNames => (known ??= givenNames(document));
  const given = (): ReadonlySet<string> => names().given;
  const unqualified = qualifies.test(o.text ?? "") && dropSchemas(document);
  const expanded = expandRangeCalls(document, o.templates ?? new Map(), o.standIns === true);
  const rewritten = rewriteComparisons(node, names) || expanded || unqualified;
  // Something that the query calls so is not the column.
  const own = o.ownColumns === true ? new OwnColumns(given) : null;
  const gate = new Gate(o, treeOf(node, "from_table"), clocksOf(document), given, own);
  gate.queryNode(node, null, 0);
  const result = gate.result(namedColumns(document));
  return { ...result, rewritten: rewritten || result.rewritten };
}

interface MutableScan {
  readonly name: string;
  readonly view: ViewName;
  readonly instance: Instance | null;
  readonly attributes: readonly AttributeColumn[];
  readonly comparesTime: boolean;
  readonly constraints: (readonly Constraint[])[];
}

/** The one process or trace that a call names. */
interface Instance {
  readonly kind: "process" | "trace";
  readonly id: string;
}

/** One walk over one tree. */
class Gate {
  readonly #scans = new Map<string, MutableScan>();
  readonly #listings = new Set<Listing>();
  readonly #macros = new Set<string>();
  /** What the SELECT around a table reference says about it. */
  readonly #constraints = new Map<Tree, readonly Constraint[]>();
  readonly #calls: GatedCall[] = [];
  readonly #own: OwnColumns | null;
  /** What a table reference needs of them. */
  readonly #ownOf = new Map<Tree, TakenColumns>();
  readonly #o: GateOptions;
  readonly #admin: boolean;
  /** What follows FROM of the outermost SELECT. */
  readonly #outermost: Tree | null;
  readonly #clocks: Clocks;
  readonly #copies: TimeCopies;
  #nodes = 0;
  #selects = 0;
  #renamed = 0;
  #rewritten = false;

  constructor(
    o: GateOptions,
    outermost: Tree | null,
    clocks: Clocks,
    given: () => ReadonlySet<string>,
    own: OwnColumns | null,
  ) {
    this.#own = own;
    this.#clocks = clocks;
    this.#copies = new TimeCopies(given);
    this.#o = o;
    this.#admin = o.admin === true;
    this.#outermost = outermost;
  }

  /** @param named the names in the query; null: it may read columns without them */
  result(named: ReadonlySet<string> | null): GatedTree {
    return {
      scans: [...this.#scans.values()].map(({ name, view, instance, attributes, comparesTime, constraints }) => ({
        name,
        view,
        processId: instance?.kind === "process" ? instance.id : commonProcess(constraints),
        ofTrace: instance?.kind === "trace" ? instance.id : null,
        constraints,
        attributes,
        comparesTime,
        columns: named === null ? null : columnsRead(view, named),
      })),
      listings: [...this.#listings],
      calls: this.#calls,
      macros: [...this.#macros],
      named: this.#own?.named ?? [],
      rewritten: this.#rewritten,
    };
  }

  /** A SELECT, a set operation or a recursive CTE. */
  queryNode(node: Tree, scope: Scope | null, depth: number, own?: CteName): void {
    this.#count(depth);
    const type = textOf(node, "type");
    if (!queryNodes.has(type)) {
      throw unknownNode(type);
    }
    this.#selects++;
    if (this.#selects > maxSelects) {
      throw refuse(`A query holds at most ${maxSelects} SELECTs.`);
    }
    let inner = scope;
    const ctes = treeOf(node, "cte_map");
    for (const entry of ctes === null ? [] : treesOf(ctes, "map")) {
      const named = this.#cteName(foldName(textOf(entry, "key")));
      const definition = treeOf(entry, "value");
      const query = definition === null ? null : treeOf(definition, "query");
      const body = query === null ? null : treeOf(query, "node");
      if (definition === null || body === null || named.name === "") {
        throw unknownNode("CTE");
      }
      entry["key"] = named.executed;
      // A CTE sees those before it, not itself; only the second half of a recursive one does.
      this.queryNode(body, inner, depth + 1, named);
      for (const [key, value] of Object.entries(definition)) {
        if (key !== "query") {
          this.#value(value, inner, depth + 1);
        }
      }
      inner = { ...named, outer: inner };
    }
    if (type === "SELECT_NODE") {
      const isOther = (name: string): boolean => inScope(inner, name) !== null;
      if (boundDurations(node, isOther)) {
        this.#rewritten = true;
      }
      const found = constraintsOfSelect(node, this.#clocks);
      for (const [reference, constraints] of found) {
        this.#constraints.set(reference, constraints);
      }
      for (const [reference, columns] of this.#own?.take(node, isOther, found) ?? []) {
        this.#ownOf.set(reference, columns);
      }
    }
    let second = inner;
    if (type === "RECURSIVE_CTE_NODE") {
      if (own === undefined || foldName(textOf(node, "cte_name")) !== own.name) {
        throw unknownNode("recursive CTE");
      }
      node["cte_name"] = own.executed;
      second = { ...own, outer: inner };
    }
    for (const [key, value] of Object.entries(node)) {
      if (key !== "cte_map") {
        this.#value(value, key === "right" ? second : inner, depth + 1);
      }
    }
  }

  /**
   * A name of a CTE that could be a file, or a table of DuckDB's own, is exchanged. A second fence behind the scopes:
   * were it taken for the CTE's here and not by DuckDB, it would still be nothing. And the name of a view, because
   * views may be CTEs in front of it.
   */
  #cteName(name: string): CteName {
    const isOther = !/[^\p{L}\p{N}_ $-]/u.test(name) && !/^(?:duckdb|pg|pragma|sqlite|svc)_/u.test(name);
    if (isOther && viewOf(name, true) === null) {
      return { name, executed: name };
    }
    this.#rewritten = true;
    this.#renamed++;
    return { name, executed: `svc_cte_${this.#renamed}` };
  }

  #value(value: TreeValue | undefined, scope: Scope | null, depth: number): void {
    if (typeof value !== "object" || value === null) {
      return;
    }
    this.#count(depth);
    if (Array.isArray(value)) {
      for (const item of value) {
        this.#value(item, scope, depth + 1);
      }
      return;
    }
    const type = textOf(value, "type");
    if (typeof value["class"] === "string") {
      this.#expression(value, scope, depth);
    } else if (queryNodes.has(type)) {
      this.queryNode(value, scope, depth);
    } else if (tableReferences.has(type)) {
      this.#tableReference(value, scope, depth);
    } else if (type === "" || plainType.test(type)) {
      this.#children(value, scope, depth);
    } else {
      throw unknownNode(type);
    }
  }

  #children(node: Tree, scope: Scope | null, depth: number): void {
    for (const value of Object.values(node)) {
      this.#value(value, scope, depth + 1);
    }
  }

  #expression(node: Tree, scope: Scope | null, depth: number): void {
    const kind = textOf(node, "class");
    if (kind === "PARAMETER") {
      if (this.#o.parametersAllowed === true) {
        return;
      }
      throw refuse(
        "Parameters ($1, ?) are not supported in a statement that is sent as text; prepare it and bind them.",
      );
    }
    if (!expressionClasses.has(kind)) {
      throw unknownNode(kind);
    }
    if (kind === "CONSTANT") {
      return;
    } // a value, whatever it looks like
    if ((kind === "FUNCTION" || kind === "WINDOW") && this.#own?.isOurs(node) !== true) {
      this.#functionName(node);
    }
    this.#children(node, scope, depth);
  }

  #functionName(node: Tree): void {
    const name = textOf(node, "function_name");
    const schema = textOf(node, "schema");
    if (textOf(node, "catalog") !== "" || (schema !== "" && schema !== "main")) {
      throw refuse(`Functions are called by their bare name, not as ${shown(`${schema}.${name}`)}.`);
    }
    if (isAllowedFunction(name)) {
      if (Object.hasOwn(metricMacros, foldName(name))) {
        this.#macros.add(foldName(name));
      }
      checkAggregateName(foldName(name), node);
      this.#copies.check(foldName(name), node);
      return;
    }
    if (this.#admin && isAdminFunction(foldName(name))) {
      throw refuse(`${name} is called after FROM: SELECT * FROM ${foldName(name)}(...).`);
    }
    throw refuse(`The function ${shown(name)} is not available.`);
  }

  #tableReference(node: Tree, scope: Scope | null, depth: number): void {
    switch (textOf(node, "type")) {
      case "BASE_TABLE":
        this.#baseTable(node, scope);
        break;
      case "TABLE_FUNCTION":
        if (this.#tableFunction(node)) {
          return;
        }
        break;
      case "SHOW_REF":
        if (this.#show(node)) {
          return;
        }
        break;
      case "PIVOT":
        checkPivot(node);
        break;
      default:
        break;
    }
    for (const [key, value] of Object.entries(node)) {
      // The call of a table function has been checked against its own list.
      if (key === "function" && isTree(value)) {
        this.#children(value, scope, depth + 1);
      } else {
        this.#value(value, scope, depth + 1);
      }
    }
  }

  #baseTable(node: Tree, scope: Scope | null): void {
    const name = textOf(node, "table_name");
    if (this.#informationSchema(node, name)) {
      return;
    }
    const qualified = this.#qualified(node, name);
    if (node["at_clause"] !== undefined && node["at_clause"] !== null) {
      throw refuse("AT (time travel) is not supported.");
    }
    const lower = foldName(name);
    const cte = inScope(scope, lower);
    if (cte !== null) {
      // Without its schema the name would be the CTE's.
      if (qualified) {
        throw refuse(`${shown(name)} is a table and a CTE here; rename the CTE.`);
      }
      if (cte.executed === cte.name) {
        return;
      }
      node["table_name"] = cte.executed;
      if (textOf(node, "alias") === "") {
        node["alias"] = name;
      }
      return;
    }
    const view = viewOf(lower, this.#admin);
    if (view === null) {
      throw refuse(
        isRangeFunction(lower)
          ? `${lower} is called with a range: SELECT * FROM ${lower}(begin, end).`
          : isTraceFunction(lower)
            ? `${lower} is called with the id of a trace: SELECT * FROM ${lower}('0123456789abcdef0123456789abcdef').`
            : `There is no table ${shown(name)}. ${this.#tables()}`,
      );
    }
    const own = this.#ownOf.get(node);
    const constraints = this.#constraints.get(node) ?? [];
    if (own === undefined) {
      this.#scan({ name: lower, view, instance: null }, constraints);
      return;
    }
    const executed = tableWith(lower, own);
    this.#scan({ name: executed, view, instance: null, ...own }, constraints);
    this.#replace(node, executed, name);
  }

  /** True when it was a table of `information_schema` and has been replaced by ours. */
  #informationSchema(node: Tree, name: string): boolean {
    if (foldName(textOf(node, "schema_name")) !== "information_schema") {
      return false;
    }
    const catalog = foldName(textOf(node, "catalog_name"));
    const lower = foldName(name);
    if ((catalog !== "" && catalog !== catalogName) || !(lower in informationSchema)) {
      throw refuse(
        `Of information_schema there are ${Object.keys(informationSchema).join(" and ")}. ${this.#tables()}`,
      );
    }
    const listing = informationSchema[lower as keyof typeof informationSchema];
    this.#listings.add(listing);
    this.#replace(node, listing, lower);
    return true;
  }

  /**
   * Takes the names of the one catalog and its schema off a table, as tools write them that have read the
   * metadata; says whether there were any.
   */
  #qualified(node: Tree, name: string): boolean {
    const catalog = foldName(textOf(node, "catalog_name"));
    const schema = foldName(textOf(node, "schema_name"));
    if (catalog === "" && schema === "") {
      return false;
    }
    if ((catalog !== "" && catalog !== catalogName) || schema !== schemaName) {
      throw refuse(
        `There is one catalog, ${catalogName}, with one schema, ${schemaName}; write ${shown(name)} without a schema. ${this.#tables()}`,
      );
    }
    node["catalog_name"] = "";
    node["schema_name"] = "";
    this.#rewritten = true;
    return true;
  }

  /** True when the call was ours and has been replaced. */
  #tableFunction(node: Tree): boolean {
    const call = treeOf(node, "function");
    if (call === null || call["class"] !== "FUNCTION") {
      throw unknownNode("table function");
    }
    const name = foldName(textOf(call, "function_name"));
    const schema = textOf(call, "schema");
    if (textOf(call, "catalog") !== "" || (schema !== "" && schema !== "main")) {
      throw refuse(`The table function ${shown(name)} is called by its bare name.`);
    }
    switch (name) {
      case "view_instance":
        this.#viewInstance(node, call);
        return true;
      case "list_partitions":
      case "list_view_sets": {
        if (treesOf(call, "children").length > 0) {
          throw refuse(`${name}() takes no arguments.`);
        }
        const listing: Listing = `svc_${name}`;
        this.#listings.add(listing);
        this.#replace(node, listing, name);
        return true;
      }
      default:
        if (this.#admin && isAdminFunction(name)) {
          this.#adminCall(node, call, name);
          return true;
        }
        if (isTraceFunction(name)) {
          this.#traceFunction(node, call, name);
          return true;
        }
        if (!allowedTableFunctions.has(name)) {
          throw refuse(`The table function ${shown(name)} is not available. ${this.#tables()}`);
        }
        return false;
    }
  }

  #adminCall(node: Tree, call: Tree, name: AdminFunctionName): void {
    if (adminFunctions[name].changes && (node !== this.#outermost || this.#calls.length > 0)) {
      throw refuse(
        `${name} changes something, so call it alone: SELECT ... FROM ${name}(...), without joins, subqueries, EXPLAIN or DESCRIBE.`,
      );
    }
    const parameters = positional(name, call);
    this.#children({ parameters }, null, 0);
    const table = `svc_call_${this.#calls.length}`;
    this.#calls.push({ table, name, parameters });
    this.#replace(node, table, name);
  }

  #tables(): string {
    return `The tables are ${viewNamesFor(this.#admin).join(", ")}.`;
  }

  #viewInstance(node: Tree, call: Tree): void {
    const [first, second, ...rest] = positional("view_instance", call).map(constantText);
    const view = viewOf(foldName(first ?? ""), false);
    const process = foldName(second ?? "");
    if (view === null || !isOfProcesses(view) || !isUuid(process) || rest.length > 0) {
      throw refuse(
        `view_instance takes the name of a view and a process id, both as text: view_instance('log_entries', '01234567-89ab-cdef-0123-456789abcdef'). The views are ${viewNamesFor(false).filter(isOfProcesses).join(", ")}.`,
      );
    }
    const name = `svc_instance_${view}_${process.replaceAll("-", "")}`;
    const constraints = this.#constraints.get(node) ?? [];
    this.#scan({ name, view, instance: { kind: "process", id: process } }, constraints);
    this.#replace(node, name, "view_instance");
  }

  #traceFunction(node: Tree, call: Tree, view: TraceFunction): void {
    const [id, ...rest] = positional(view, call);
    if (this.#o.parametersAllowed === true && id?.["class"] === "PARAMETER" && rest.length === 0) {
      const open = `svc_${view}_open`;
      this.#scan({ name: open, view, instance: null }, []);
      openTraceCall(node, id, open, view, this.#o.templates ?? new Map());
      this.#rewritten = true;
      return;
    }
    const said = (id === undefined ? null : constantText(id))?.toLowerCase() ?? "";
    const trace = this.#o.standIns === true ? "0".repeat(32) : said;
    if (!/^[0-9a-f]{32}$/u.test(trace) || rest.length > 0) {
      throw refuse(
        `${view} takes a trace id, 32 hexadecimal digits, as text: ${view}('0123456789abcdef0123456789abcdef').`,
      );
    }
    const name = `svc_${view}_${trace}`;
    this.#scan({ name, view, instance: { kind: "trace", id: trace } }, this.#constraints.get(node) ?? []);
    this.#replace(node, name, view);
  }

  /** True when it was SHOW TABLES and has been replaced; a DESCRIBE or SUMMARIZE of a query is walked. */
  #show(node: Tree): boolean {
    const kind = textOf(node, "show_type");
    if (treeOf(node, "query") !== null && (kind === "DESCRIBE" || kind === "SUMMARY")) {
      return false;
    }
    if (kind === "SHOW_UNQUALIFIED" && textOf(node, "table_name") === '"tables"') {
      this.#listings.add("svc_show_tables");
      this.#replace(node, "svc_show_tables", "tables");
      return true;
    }
    throw refuse("Of SHOW there is only SHOW TABLES; DESCRIBE takes one of the tables or a query.");
  }

  /** Makes a table reference out of another, keeping the names that the caller gave it. */
  #replace(node: Tree, tableName: string, alias: string): void {
    becomeTable(node, tableName, alias);
    this.#rewritten = true;
  }

  /** @param scan without attributes of its own it has those of its view */
  #scan(
    scan: Pick<MutableScan, "name" | "view" | "instance"> & Partial<MutableScan>,
    constraints: readonly Constraint[],
  ): void {
    const known = this.#scans.get(scan.name);
    if (known === undefined) {
      const attributes = attributesOfView(scan.view);
      this.#scans.set(scan.name, { attributes, comparesTime: false, ...scan, constraints: [constraints] });
    } else {
      known.constraints.push(constraints);
    }
  }

  #count(depth: number): void {
    this.#nodes++;
    if (this.#nodes > maxTreeNodes) {
      throw refuse("The query is too large.");
    }
    if (depth > maxTreeDepth) {
      throw refuse("The query nests too deep.");
    }
  }
}
