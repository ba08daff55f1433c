/**
 * What a query reads and what it returns, without reading anything: the gate, the schema of the result,
 * and the bounds of each view. The gate looks at a tree here, in the server; an engine parses the text, prints the tree
 * and describes the query over empty views. That takes three jobs at most, each a round trip.
 */
import type { EngineStep, FieldNames, ParameterType, StepResult } from "../../engine/protocol.js";
import { ServiceError } from "../../runtime/errors.js";
import { quoteName } from "../../runtime/text/sql-text.js";
import type { ArrowField } from "../../wire/flight/flight-arrow.js";
import { decodeSchemaMessage } from "../../wire/flight/flight-arrow-schema.js";
import { type AdminArgument, type AdminFunctionCall, adminFunctions, signatureOf } from "../sql/admin-functions.js";
import { isTimeExpression } from "../gate/constraints.js";
import { deserializeStep, printedResult, type RunSteps, serializeStep, textResult } from "./engine-instances.js";
import { boundsOf, nextOf, type ScanBounds, type Times } from "./scan-bounds.js";
import { foldName } from "../sql/identifier.js";
import { metricMacros } from "../sql/metric-macros.js";
import type { GatedTrees, GateWork, ParameterCasts, PrintedName } from "./gate-trees.js";
import type { GatedCall, GatedTree, Scan } from "../gate/gated-tree.js";
import { templatesFor } from "../gate/call-templates.js";
import { checkText, splitText } from "../gate/query-text.js";
import {
  announced,
  type BoundParameter,
  declaredParameters,
  type DescribedParameter,
  type ParameterDeclaration,
  parameterTemplates,
  type ParameterUse,
  sampleOfTypes,
  standIns,
} from "../gate/parameters.js";
import { placeholders } from "../gate/own-columns.js";
import { constantInteger, constantText } from "../gate/syntax-tree.js";
import {
  catalogueViews,
  createFileViewSql,
  createRowTableSql,
  isFileView,
  type Listing,
  listings,
} from "../sql/views.js";

/** A query that has passed the gate, as it is executed. */
export interface Executable {
  readonly explain: "none" | "plan" | "analyze";
  /** SQL of the SELECT, without EXPLAIN. */
  readonly sql: string;
  /** Statements that make what it calls: before it, on the same connection. */
  readonly macros?: readonly string[];
  /** What the columns of its result were described as: what is executed may be another text. Absent: DuckDB's names. */
  readonly names?: readonly FieldNames[];
  /** Every column of its result is of numbers, dates or times. */
  readonly numbersOnly?: boolean;
  /** It is mostly reading: see {@link isPlainRead}. */
  readonly isPlain?: boolean;
}

/** What there is to know about a query before it runs. Plain data. */
export interface Inspection {
  readonly executable: Executable;
  readonly fields: readonly ArrowField[];
  readonly scans: readonly ScanBounds[];
  readonly listings: readonly Listing[];
  /** Admin functions to run before the query. */
  readonly calls: readonly AdminFunctionCall[];
  /** The same for queries that differ in their constants only. */
  readonly fingerprint: string;
  /** See `rowsEnough` of plain-read.ts. */
  readonly rowsEnough: number | null;
  /** What a statement asks for that was inspected to be prepared, else empty. */
  readonly parameters: readonly DescribedParameter[];
}

/** An {@link Executable} and what the gate found in it. */
interface GatedQuery extends Executable {
  readonly isPlain: boolean;
  readonly rowsEnough: number | null;
  readonly tree: GatedTree;
  /** The same query as it is described: its tables have no column of ours, and errors tell of nothing of ours. */
  readonly described: { readonly sql: string; readonly tree: GatedTree };
  readonly fingerprint: string;
  /** SQL of the times that the query compares with, each of one number of nanoseconds, in their order. */
  readonly times: readonly string[];
  /** What its parameters are cast to: see {@link GatedTrees}. */
  readonly casts: ParameterCasts | null;
}

/** What inspections are made with. */
export interface Inspector {
  readonly run: RunSteps;
  readonly gate: (work: GateWork) => Promise<readonly GatedTrees[]>;
}

/** How a text is inspected. */
export interface InspectOptions {
  readonly parameters?: ParameterUse;
  /** The values of the parameters only stand in for others: any is good enough to tell the columns. */
  readonly standIns?: boolean;
  /** The caller is admin. */
  readonly admin?: boolean;
}

/** The result of EXPLAIN. */
export const explainFields: readonly ArrowField[] = ["explain_key", "explain_value"].map((name) => ({
  name,
  nullable: true,
  type: { kind: "utf8" },
  children: [],
}));

/** Bounds of times are evaluated as the operand of this cast. */
const timeFrame = "SELECT epoch_ns(CAST(0 AS TIMESTAMP_NS))";

/**
 * Passes text through the gate.
 * @throws ServiceError BAD_REQUEST
 */
export async function gateText(
  inspector: Inspector,
  text: string,
  { parameters = "none", ...o }: InspectOptions = {},
): Promise<GatedQuery> {
  const [query] = await gateTexts(inspector, text, [parameters], o);
  if (query === undefined) {
    throw new ServiceError("INTERNAL");
  }
  return query;
}

/** Passes text through the gate once for each use of its parameters; in two jobs, however many these are. */
async function gateTexts(
  { run, gate }: Inspector,
  text: string,
  uses: readonly ParameterUse[],
  { admin = false, standIns = false }: Pick<InspectOptions, "admin" | "standIns">,
): Promise<GatedQuery[]> {
  checkText(text);
  const { explain, text: select } = splitText(text);
  const callTexts = templatesFor(select);
  const valueTexts = uses.map((use) => (typeof use === "string" || use.length === 0 ? null : parameterTemplates(use)));
  const parsed = (
    await run(
      [select, timeFrame, ...callTexts.values(), ...valueTexts.filter((one) => one !== null)].map(serializeStep),
    )
  ).values();
  const next = (): string => textResult(parsed.next().value);
  const gated = await gate({
    text: select,
    isExplained: explain !== "none",
    admin,
    standIns,
    tree: next(),
    timeFrame: next(),
    templates: [...callTexts.keys()].map((key) => [key, next()]),
    uses: uses.map((parameters, i) => ({ parameters, templates: valueTexts[i] === null ? null : next() })),
  });
  const prints = gated.flatMap(({ named, described, executed, times }) => [
    ...named.map(({ printed }) => deserializeStep(printed)),
    ...(described.printed === null ? [] : [deserializeStep(described.printed)]),
    ...(executed === null ? [] : [executed, ...executed.named].map(({ printed }) => deserializeStep(printed))),
    // The query itself says what is wrong with an expression, if anything is.
    ...times.map((time) => ({ ...deserializeStep(time), optional: true })),
  ]);
  const printed = (prints.length === 0 ? [] : await run(prints)).values();
  const nextPrinted = (): string => printedResult(printed.next().value);
  const nextNames = (named: readonly PrintedName[]): [string, string][] =>
    named.map(({ placeholder }) => [placeholder, quoteName(nameOf(nextPrinted()))]);
  return gated.map(({ fingerprint, isPlain, rowsEnough, named, described, executed, times, casts }) => {
    const names = nextNames(named);
    const describedSql = described.printed === null ? select : withNames(nextPrinted(), names);
    const sql = executed === null ? describedSql : withNames(nextPrinted(), [...names, ...nextNames(executed.named)]);
    return {
      explain,
      sql,
      isPlain,
      rowsEnough,
      tree: executed?.tree ?? described.tree,
      described: { sql: describedSql, tree: described.tree },
      fingerprint,
      times: times.map(() => {
        const { value } = printed.next();
        return value?.error === undefined ? printedResult(value) : "SELECT NULL";
      }),
      casts,
    };
  });
}

/** A printed text with names in the place of their placeholders. */
function withNames(sql: string, names: readonly (readonly [placeholder: string, name: string])[]): string {
  const byPlaceholder = new Map(names);
  return names.length === 0 ? sql : sql.replaceAll(placeholders, (found) => byPlaceholder.get(found) ?? found);
}

/** What DuckDB calls the column of such a SELECT: its text. */
function nameOf(select: string): string {
  return select.replace(/^SELECT /u, "");
}

/**
 * Gates a query and works out its schema and bounds.
 * @throws ServiceError BAD_REQUEST; DuckDB's own errors as they are
 */
export async function inspect(inspector: Inspector, text: string, o: InspectOptions = {}): Promise<Inspection> {
  const { run } = inspector;
  const query = await gateText(inspector, text, o);
  const { schema, asked, times } = await describe(run, query);
  const declared = o.parameters === "declare" ? declaredParameters(asked) : [];
  const described = declared.length === 0 ? schema : await describeOpen(inspector, text, o, declared);
  const { executable, ...rest } = inspected(query, times.values());
  return {
    ...rest,
    executable: { ...executable, names: namesOf(schema), numbersOnly: hasNumbersOnly(schema) },
    fields: query.explain === "none" ? described : explainFields,
    parameters: await withFields(run, query.casts, declared),
  };
}

/**
 * Gates a statement for several sets of values, and works out its bounds for each. What is wrong with one of them is
 * told when it runs: they have no fields.
 * @throws ServiceError BAD_REQUEST
 */
export async function inspectSets(
  inspector: Inspector,
  text: string,
  sets: readonly (readonly BoundParameter[])[],
  admin: boolean,
): Promise<Inspection[]> {
  const { run } = inspector;
  const queries = await gateTexts(inspector, text, sets, { admin });
  const steps = queries.flatMap(({ times }) => times.map(timeStep));
  const times = (steps.length === 0 ? [] : await run(steps)).map(timeResult).values();
  return queries.map((query) => ({ ...inspected(query, times), fields: [], parameters: [] }));
}

/** @param times as many are taken as the query has */
function inspected(
  { explain, sql, isPlain, rowsEnough, fingerprint, tree }: GatedQuery,
  times: Times,
): Omit<Inspection, "fields" | "parameters"> {
  return {
    executable: { explain, sql, isPlain, macros: tree.macros.map(createMacro) },
    scans: tree.scans.map((scan) => boundsOf(scan, times)),
    listings: tree.listings,
    calls: tree.calls.map((call) => callOf(call, times)),
    fingerprint,
    rowsEnough,
  };
}

function timeStep(sql: string): EngineStep {
  return { kind: "rows", sql, maxBytes: 64, optional: true };
}

function timeResult({ rows }: StepResult): bigint | null {
  const value = rows?.[0]?.[0] ?? null;
  return value === null ? null : BigInt(String(value));
}

interface Description {
  readonly schema: readonly ArrowField[];
  /** Parameters that have no value. */
  readonly asked: readonly ParameterType[];
  /** Values of {@link GatedQuery.times}; null where one is no time. */
  readonly times: readonly (bigint | null)[];
}

/** What columns and their fields are called. */
export function namesOf(fields: readonly ArrowField[]): FieldNames[] {
  return fields.map(({ name, children }) => ({ name, children: namesOf(children) }));
}

function hasNumbersOnly(schema: readonly ArrowField[]): boolean {
  return schema.length > 0 && schema.every(({ type }) => /^(?:int|float|date|time)/u.test(type.kind));
}

/** None where values of parameters would tell them. */
function schemaOf(described: StepResult | undefined): ArrowField[] {
  if (described?.schema === undefined) {
    return [];
  }
  return decodeSchemaMessage(Buffer.from(described.schema, "base64"));
}

/** The columns of a query over empty views, so that errors are told now; and the times that it compares with. */
async function describe(run: RunSteps, { described: { sql, tree }, times }: GatedQuery): Promise<Description> {
  const views = [
    ...tree.macros.map(createMacro),
    ...tree.scans.map(emptyScanSql),
    ...tree.listings.map((listing) => createRowTableSql(listing, listings[listing])),
    ...tree.calls.map(({ table, name }) => createRowTableSql(table, adminFunctions[name].columns)),
  ];
  const results = await run([
    ...views.map((view): EngineStep => ({ kind: "execute", sql: view })),
    { kind: "describe", sql },
    ...times.map(timeStep),
  ]);
  const result = results[views.length];
  return {
    schema: schemaOf(result),
    asked: result?.parameters ?? [],
    times: results.slice(views.length + 1).map(timeResult),
  };
}

/**
 * The columns of a statement whose parameters have no values. Empty when only values would tell them: what is wrong
 * with the statement itself has been told when it was prepared.
 */
async function describeOpen(
  inspector: Inspector,
  text: string,
  o: InspectOptions,
  declared: readonly ParameterDeclaration[],
): Promise<readonly ArrowField[]> {
  const of = async (values: "nulls" | "samples"): Promise<readonly ArrowField[]> => {
    const parameters = standIns(declared, values);
    return (await describe(inspector.run, await gateText(inspector, text, { ...o, parameters, standIns: true })))
      .schema;
  };
  let fields: readonly ArrowField[];
  try {
    fields = await of("nulls");
  } catch (error) {
    if (declared.some(({ type }) => type === null)) {
      return [];
    }
    throw error;
  }
  // The digits to round to, the part of a date: functions may take their type from a value.
  const others = await of("samples").catch(() => null);
  return JSON.stringify(others) === JSON.stringify(fields) ? fields : [];
}

/** Declarations with what they announce to clients. */
async function withFields(
  run: RunSteps,
  casts: ParameterCasts | null,
  declared: readonly ParameterDeclaration[],
): Promise<DescribedParameter[]> {
  if (declared.length === 0) {
    return [];
  }
  const known = casts !== null && declared.some(({ type }) => type === null) ? await castTypes(run, casts) : null;
  const types = declared.map(({ name, type }) => type ?? known?.get(foldName(name)) ?? null);
  const [result] = await run([{ kind: "describe", sql: sampleOfTypes(types) }]);
  const fields = schemaOf(result);
  return declared.map((declaration, i) => {
    const field = fields[i];
    if (field === undefined) {
      throw new ServiceError("INTERNAL");
    }
    return { ...declaration, field: announced({ ...field, name: declaration.name }) };
  });
}

/** What the parameters of a statement are cast to, by their names. */
async function castTypes(run: RunSteps, { names, printed }: ParameterCasts): Promise<ReadonlyMap<string, string>> {
  const [select] = await run([deserializeStep(printed)]);
  const sql = `SELECT typeof(COLUMNS(*)) FROM (${printedResult(select)})`;
  const [asked] = await run([{ kind: "rows", sql, maxBytes: maxTypeBytes }]);
  const types = asked?.rows?.[0] ?? [];
  return new Map(names.map((name, i) => [name, String(types[i])]));
}

/** Of the names of all types that parameters are cast to. */
const maxTypeBytes = 1 << 20;

function createMacro(name: string): string {
  return `CREATE TEMP MACRO ${metricMacros[name]}`;
}

function emptyScanSql({ name, view }: Scan): string {
  return isFileView(view) ? createFileViewSql(name, view, []) : createRowTableSql(name, catalogueViews[view]);
}

/** An admin call with the values of its arguments. @throws ServiceError BAD_REQUEST */
function callOf(call: GatedCall, times: Times): AdminFunctionCall {
  const { name, table } = call;
  const { parameters } = adminFunctions[name];
  const refuse = (detail: string): ServiceError => new ServiceError("BAD_REQUEST", `${signatureOf(name)}: ${detail}`);
  if (call.parameters.length !== parameters.length) {
    throw refuse(`takes ${parameters.length} arguments, not ${call.parameters.length}.`);
  }
  const values = parameters.map(([parameter, kind], i): [string, AdminArgument] => {
    const expression = call.parameters[i] ?? {};
    const value =
      kind === "time"
        ? isTimeExpression(expression)
          ? nextOf(times)
          : null
        : kind === "integer"
          ? constantInteger(expression)
          : constantText(expression);
    if (value === null) {
      const wanted = { time: "a time", integer: "a whole number", text: "text", view: "text" };
      throw refuse(`${parameter} takes ${wanted[kind]}, written out.`);
    }
    return [parameter, value];
  });
  // Each value is of its parameter's kind, which is what the type of a call says.
  return { table, name, values: Object.fromEntries(values) } as AdminFunctionCall;
}
