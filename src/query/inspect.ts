/**
 * What a query reads and what it returns, without reading anything: the gate, the schema of the result,
 * and the bounds of each view. Runs in a query thread, on a connection whose views are all empty.
 */
import type { DuckDBConnection, DuckDBPreparedStatement } from "@duckdb/node-api";

import { ServiceError } from "../runtime/errors.js";
import type { ArrowField } from "../wire/flight-arrow.js";
import {
  type AdminArgument,
  type AdminCall,
  adminFunctions,
  signatureOf,
} from "./admin-functions.js";
import { createCodecs } from "./arrow-read.js";
import { type Constraint, isTimeExpression } from "./constraints.js";
import type { RawBindings } from "./duckdb-bindings.js";
import { fingerprintOf } from "./fingerprint.js";
import { foldName } from "./identifier.js";
import { type GatedCall, type GatedTree, gateTree, type Scan } from "./gate.js";
import { checkText, splitText } from "./query-text.js";
import {
  announcedAs,
  castParameters,
  declaredParameters,
  type DescribedParameter,
  type ParameterUse,
  replaceParameters,
  standIns,
} from "./parameters.js";
import {
  constantInteger,
  constantText,
  parseTree,
  printTree,
  type Tree,
  treeOf,
  treesOf,
} from "./syntax-tree.js";
import {
  catalogueViews,
  createFileViewSql,
  createRowTableSql,
  fileViews,
  isFileView,
  type Listing,
  listings,
  quoteName,
  type ViewName,
} from "./views.js";

/** One view that the query reads, and what is known about the rows it wants. */
export interface ScanBounds {
  /** Table name in the executed query. */
  readonly name: string;
  readonly view: ViewName;
  readonly processId: string | null;
  /** The only traces whose rows are wanted, each once, when the query lists them; else null. */
  readonly traceIds: readonly string[] | null;
  /** Inclusive bounds of the lake's `time`, nanoseconds since the epoch; null where there is none. */
  readonly minTimeNs: bigint | null;
  readonly maxTimeNs: bigint | null;
}

/** A query that has passed the gate, as it is executed. */
export interface Executable {
  readonly explain: "none" | "plan" | "analyze";
  /** SQL of the SELECT, without EXPLAIN. */
  readonly sql: string;
}

/** What there is to know about a query before it runs. Plain data; it crosses threads. */
export interface Inspection {
  readonly executable: Executable;
  readonly fields: readonly ArrowField[];
  readonly scans: readonly ScanBounds[];
  readonly listings: readonly Listing[];
  /** Admin functions to run before the query. */
  readonly calls: readonly AdminCall[];
  /** The same for queries that differ in their constants only. */
  readonly fingerprint: string;
  /** What a statement asks for that was inspected to be prepared, else empty. */
  readonly parameters: readonly DescribedParameter[];
}

/** An {@link Executable} and what the gate found in it. */
export interface GatedQuery extends Executable {
  readonly tree: GatedTree;
  readonly fingerprint: string;
}

/** How a text is inspected. */
export interface InspectOptions {
  readonly parameters?: ParameterUse;
  /** The caller is admin. */
  readonly admin?: boolean;
}

/** The result of EXPLAIN. */
export const explainFields: readonly ArrowField[] = ["explain_key", "explain_value"].map(
  (name) => ({ name, nullable: true, type: { kind: "utf8" }, children: [] }),
);

/**
 * Passes text through the gate.
 * @throws ServiceError BAD_REQUEST
 */
export async function gateText(
  connection: DuckDBConnection,
  text: string,
  { parameters = "none", admin = false }: InspectOptions = {},
): Promise<GatedQuery> {
  checkText(text);
  const { explain, text: select } = splitText(text);
  const document = await serialize(connection, select);
  const bound = typeof parameters === "string" ? [] : parameters;
  if (bound.length > 0) {
    await replaceParameters(document, bound, (sql) => serialize(connection, sql));
  }
  const fingerprint = fingerprintOf(document);
  const tree = gateTree(document, {
    parametersAllowed: parameters === "declare",
    text: select,
    admin,
  });
  if (explain !== "none" && tree.calls.length > 0) {
    throw new ServiceError("BAD_REQUEST", "EXPLAIN does not take admin functions.");
  }
  const sql = tree.rewritten || bound.length > 0 ? await deserialize(connection, document) : select;
  return { explain, sql, tree, fingerprint };
}

/**
 * Gates a query and works out its schema and bounds.
 * @throws ServiceError BAD_REQUEST; DuckDB's own errors as they are
 */
export async function inspect(
  bindings: RawBindings,
  connection: DuckDBConnection,
  text: string,
  o: InspectOptions = {},
): Promise<Inspection> {
  const query = await gateText(connection, text, o);
  const { scans } = query.tree;
  for (const scan of scans) await connection.run(emptyScanSql(scan));
  for (const listing of query.tree.listings) {
    await connection.run(createRowTableSql(listing, listings[listing]));
  }
  for (const { table, name } of query.tree.calls) {
    await connection.run(createRowTableSql(table, adminFunctions[name].columns));
  }
  const declared =
    o.parameters === "declare" ? await declarations(bindings, connection, query.sql) : [];
  const described =
    declared.length === 0
      ? await describe(bindings, connection, query.sql)
      : await describeOpen(bindings, connection, text, o, declared);
  const fields = query.explain === "none" ? described : explainFields;
  const bounded: ScanBounds[] = [];
  for (const scan of scans) bounded.push(await boundsOf(connection, scan));
  const calls: AdminCall[] = [];
  for (const call of query.tree.calls) calls.push(await callOf(connection, call));
  const { explain, fingerprint } = query;
  return {
    executable: { explain, sql: query.sql },
    fields,
    scans: bounded,
    listings: query.tree.listings,
    calls,
    fingerprint,
    parameters: declared,
  };
}

/** The columns of a query, so that errors are told now. */
async function describe(
  bindings: RawBindings,
  connection: DuckDBConnection,
  sql: string,
): Promise<readonly ArrowField[]> {
  const prepared = await connection.prepare(sql);
  try {
    const columns = Array.from({ length: prepared.columnCount }, (_, i) => ({
      name: prepared.columnName(i),
      type: () => prepared.columnType(i),
    }));
    return createCodecs(bindings, columns).codecs.map(({ field }) => field);
  } finally {
    prepared.destroySync();
  }
}

/**
 * The columns of a statement whose parameters have no values. Empty when only values would tell them: what is wrong
 * with the statement itself has been told when it was prepared.
 */
async function describeOpen(
  bindings: RawBindings,
  connection: DuckDBConnection,
  text: string,
  o: InspectOptions,
  declared: readonly DescribedParameter[],
): Promise<readonly ArrowField[]> {
  const of = async (values: "nulls" | "samples"): Promise<readonly ArrowField[]> => {
    const { sql } = await gateText(connection, text, {
      ...o,
      parameters: standIns(declared, values),
    });
    return describe(bindings, connection, sql);
  };
  let fields: readonly ArrowField[];
  try {
    fields = await of("nulls");
  } catch (error) {
    if (declared.some(({ type }) => type === null)) return [];
    throw error;
  }
  // The digits to round to, the part of a date: functions may take their type from a value.
  const others = await of("samples").catch(() => null);
  return JSON.stringify(others) === JSON.stringify(fields) ? fields : [];
}

async function declarations(
  bindings: RawBindings,
  connection: DuckDBConnection,
  sql: string,
): Promise<DescribedParameter[]> {
  const prepared = await connection.prepare(sql);
  let declared: DescribedParameter[];
  try {
    declared = declaredParameters(bindings, prepared);
  } finally {
    prepared.destroySync();
  }
  if (declared.every(({ type }) => type !== null)) return declared;
  const casts = castParameters(await serialize(connection, sql));
  const frame = await serialize(connection, "SELECT NULL");
  const select = treeOf(treesOf(frame, "statements")[0] ?? {}, "node");
  if (select === null || casts.size === 0) return declared;
  select["select_list"] = [...casts.values()];
  const names = [...casts.keys()];
  const types = await connection.prepare(await deserialize(connection, frame));
  try {
    return declared.map((parameter) => {
      const at = names.indexOf(foldName(parameter.name));
      if (parameter.type !== null || at < 0) return parameter;
      return announcedAs(bindings, parameter, () => types.columnType(at));
    });
  } finally {
    types.destroySync();
  }
}

function emptyScanSql({ name, view }: Scan): string {
  return isFileView(view)
    ? createFileViewSql(name, view, { groups: [], processId: null, beginNs: null, endNs: null })
    : createRowTableSql(name, catalogueViews[view]);
}

/** The tree of a text. */
export async function serialize(connection: DuckDBConnection, text: string): Promise<Tree> {
  return parseTree(await oneText(connection, "SELECT json_serialize_sql($1::VARCHAR)", text));
}

/** The SQL of a tree. */
export async function deserialize(connection: DuckDBConnection, document: Tree): Promise<string> {
  return oneText(connection, "SELECT json_deserialize_sql($1::JSON)", printTree(document));
}

/** Statements that a connection has prepared; they end with it. */
const preparedTexts = new WeakMap<DuckDBConnection, Map<string, DuckDBPreparedStatement>>();

/** Runs a statement from a text to a text; prepared once, for each text of a caller takes it several times. */
async function oneText(connection: DuckDBConnection, sql: string, value: string): Promise<string> {
  const known = preparedTexts.get(connection) ?? new Map<string, DuckDBPreparedStatement>();
  preparedTexts.set(connection, known);
  const prepared = known.get(sql) ?? (await connection.prepare(sql));
  known.set(sql, prepared);
  prepared.bindVarchar(1, value);
  const reader = await prepared.runAndReadAll();
  const text = reader.getRows()[0]?.[0];
  if (typeof text !== "string") throw new TypeError("DuckDB returned no text");
  return text;
}

/** How bounds of a view's `time` are those of what is read; null when they say nothing about it. */
function timeOf(view: ViewName): { readonly slackAfterNs: bigint } | null {
  if (isFileView(view)) return fileViews[view].time;
  return view === "query_log" ? { slackAfterNs: 0n } : null;
}

/** An admin call with the values of its arguments. @throws ServiceError BAD_REQUEST */
async function callOf(connection: DuckDBConnection, call: GatedCall): Promise<AdminCall> {
  const { name, table } = call;
  const { parameters } = adminFunctions[name];
  const refuse = (detail: string): ServiceError =>
    new ServiceError("BAD_REQUEST", `${signatureOf(name)}: ${detail}`);
  if (call.parameters.length !== parameters.length) {
    throw refuse(`takes ${parameters.length} arguments, not ${call.parameters.length}.`);
  }
  const values: AdminArgument[] = [];
  for (const [i, [parameter, kind]] of parameters.entries()) {
    const expression = call.parameters[i] ?? {};
    const value =
      kind === "time"
        ? isTimeExpression(expression)
          ? await evaluate(connection, expression)
          : null
        : kind === "integer"
          ? constantInteger(expression)
          : constantText(expression);
    if (value === null) {
      const wanted = { time: "a time", integer: "a whole number", text: "text", view: "text" };
      throw refuse(`${parameter} takes ${wanted[kind]}, written out.`);
    }
    values.push(value);
  }
  return { table, name, values };
}

/** Comparisons may round one side to microseconds. */
const roundingNs = 1000n;

async function boundsOf(connection: DuckDBConnection, scan: Scan): Promise<ScanBounds> {
  const { name, view, processId } = scan;
  const time = timeOf(view);
  const traceIds = listedTraces(scan);
  if (time === null) return { name, view, processId, traceIds, minTimeNs: null, maxTimeNs: null };
  const minimums: (bigint | null)[] = [];
  const maximums: (bigint | null)[] = [];
  for (const place of scan.constraints) {
    minimums.push(await tightest(connection, place, "min"));
    maximums.push(await tightest(connection, place, "max"));
  }
  const min = widest(minimums, (a, b) => (a < b ? a : b));
  const max = widest(maximums, (a, b) => (a > b ? a : b));
  return {
    name,
    view,
    processId,
    traceIds,
    minTimeNs: min === null ? null : min - roundingNs,
    maxTimeNs: max === null ? null : max + roundingNs + time.slackAfterNs,
  };
}

/** Traces that any place lists; null when one of them lists none. */
function listedTraces(scan: Scan): string[] | null {
  const wanted = new Set<string>();
  for (const place of scan.constraints) {
    const list = place.find((constraint) => constraint.kind === "traces");
    if (list === undefined) return null;
    for (const traceId of list.traceIds) wanted.add(traceId);
  }
  return [...wanted];
}

/** All conditions of one place hold, so the tightest bound does. */
async function tightest(
  connection: DuckDBConnection,
  place: readonly Constraint[],
  side: "min" | "max",
): Promise<bigint | null> {
  let bound: bigint | null = null;
  for (const constraint of place) {
    if (constraint.kind !== side) continue;
    const value = await evaluate(connection, constraint.expression);
    if (value === null) continue;
    if (bound === null || (side === "min" ? value > bound : value < bound)) bound = value;
  }
  return bound;
}

/** Rows that any place wants are wanted; a place without a bound wants all. */
function widest(
  bounds: readonly (bigint | null)[],
  wider: (a: bigint, b: bigint) => bigint,
): bigint | null {
  let widestBound: bigint | null = null;
  for (const bound of bounds) {
    if (bound === null) return null;
    widestBound = widestBound === null ? bound : wider(widestBound, bound);
  }
  return widestBound;
}

/** The value of an expression without columns in nanoseconds since the epoch, null when it is no time. */
async function evaluate(connection: DuckDBConnection, expression: Tree): Promise<bigint | null> {
  try {
    const frame = await serialize(connection, "SELECT epoch_ns(CAST(0 AS TIMESTAMP_NS))");
    const select = treeOf(treesOf(frame, "statements")[0] ?? {}, "node");
    const call = select === null ? undefined : treesOf(select, "select_list")[0];
    const cast = call === undefined ? undefined : treesOf(call, "children")[0];
    if (cast === undefined) return null;
    cast["child"] = expression;
    const reader = await connection.runAndReadAll(await deserialize(connection, frame));
    const value = reader.getRows()[0]?.[0];
    return typeof value === "bigint" ? value : null;
  } catch {
    // The query itself will say what is wrong with the expression, if anything is.
    return null;
  }
}

/** Drops what {@link inspect} created, for a connection that is used again. */
export async function forget(connection: DuckDBConnection, inspection: Inspection): Promise<void> {
  for (const { name, view } of inspection.scans) {
    await connection.run(`DROP ${isFileView(view) ? "VIEW" : "TABLE"} temp.${quoteName(name)}`);
  }
  for (const listing of inspection.listings) {
    await connection.run(`DROP TABLE temp.${quoteName(listing)}`);
  }
  for (const { table } of inspection.calls) {
    await connection.run(`DROP TABLE temp.${quoteName(table)}`);
  }
}
