/**
 * Parameters of prepared statements. A bound value takes its parameter's place in the syntax tree, as a
 * cast (of bytes, as the decoding) of a text constant, before the gate walks the tree. So all rules for
 * a caller's text (functions, bounds of time, pruning) apply to it, and no other code knows parameters.
 */
import type { ParameterType } from "../../engine/protocol.js";
import { ServiceError } from "../../runtime/errors.js";
import type { ArrowField } from "../../wire/flight/flight-arrow.js";
import { textOf, treesIn, type Tree, treeOf, treesOf } from "./syntax-tree.js";
import { foldName } from "../sql/identifier.js";
import { expressionsOf } from "./own-columns.js";

/** A parameter as the statement asks for it. Plain data; it is written into handles. */
export interface ParameterDeclaration {
  /** `1`, `2`, ... for `?` and `$1`, else the name behind the `$`. */
  readonly name: string;
  /** DuckDB's type, null where the statement does not say. */
  readonly type: string | null;
}

/** A value for a parameter: DuckDB's type of the value, and the value as text. */
export interface ParameterValue {
  readonly type: string;
  /** Text that casts to the type, of a BLOB its bytes in base64. Null is SQL's NULL. */
  readonly text: string | null;
}

/** A declaration and the value bound to it. */
export interface BoundParameter extends ParameterDeclaration {
  readonly value: ParameterValue;
}

/** Parameters of a text: refused, to be worked out, or bound. */
export type ParameterUse = "none" | "declare" | readonly BoundParameter[];

/** A declared parameter with the Arrow field that it announces to clients. */
export interface DescribedParameter extends ParameterDeclaration {
  readonly field: ArrowField;
}

/** Types that values can have, and the kinds of them, lists aside; only values of a fitting kind bind. */
const kinds: readonly (readonly [RegExp, string])[] = [
  [/^(?:U?(?:TINYINT|SMALLINT|INTEGER|BIGINT|HUGEINT)|FLOAT|DOUBLE|DECIMAL\(\d+,\d+\))$/u, "number"],
  [/^(?:VARCHAR|UUID)$/u, "text"],
  [/^BLOB$/u, "bytes"],
  [/^BOOLEAN$/u, "truth"],
  [/^(?:DATE|TIMESTAMP(?:_S|_MS|_NS)?|TIMESTAMP WITH TIME ZONE)$/u, "date"],
  [/^TIME(?:_NS)?$/u, "time"],
  [/^INTERVAL$/u, "interval"],
];

/** Kinds that are often written as text; what is none of them is an error of the cast. */
const takesText: ReadonlySet<string> = new Set(["date", "time", "interval"]);

function kindOf(type: string): string | null {
  if (type.endsWith("[]")) {
    const item = kindOf(type.slice(0, -2));
    return item === null || item === "bytes" || item.startsWith("list") ? null : `list of ${item}`;
  }
  return kinds.find(([pattern]) => pattern.test(type))?.[1] ?? null;
}

/** Most parameters of a statement. */
const maxParameters = 1000;

/**
 * What a statement asks for, with types that clients can bind.
 * @param asked as DuckDB says it
 * @throws ServiceError BAD_REQUEST when there are too many, or numbers have gaps: `$2` without `$1`
 */
export function declaredParameters(asked: readonly ParameterType[]): ParameterDeclaration[] {
  if (asked.length > maxParameters) {
    throw new ServiceError("BAD_REQUEST", `A statement takes at most ${maxParameters} parameters.`);
  }
  if (asked.some(({ name }) => name === "")) {
    throw new ServiceError("BAD_REQUEST", "Numbered parameters start at $1 and leave no number out.");
  }
  // Types that nothing binds to take text, which DuckDB casts.
  return asked.map(({ name, type }) => ({
    name,
    type: type === null || kindOf(type) !== null ? type : "VARCHAR",
  }));
}

/** SQL with a column of each type; of text where there is none, or none that is bound. */
export function sampleOfTypes(types: readonly (string | null)[]): string {
  const columns = types.map((type) => {
    const known = type !== null && kindOf(type) !== null ? type : "VARCHAR";
    // Types that no result has; their values are bound as decimals.
    return `CAST(NULL AS ${known.replace(/U?HUGEINT/u, "DECIMAL(38,0)")})`;
  });
  return `SELECT ${columns.join(", ")}`;
}

/**
 * Times are asked for in milliseconds, the unit that JDBC has: its driver writes them into whatever it
 * is asked for. Finer ones may still be bound.
 */
export function announced(field: ArrowField): ArrowField {
  const { type } = field;
  if (type.kind === "timestamp") {
    return { ...field, type: { ...type, unit: "millisecond" } };
  }
  if (type.kind === "time64") {
    return { ...field, type: { kind: "time32", unit: "millisecond" } };
  }
  return { ...field, children: field.children.map(announced) };
}

/**
 * Casts of parameters, by the parameter's name, without the parameter: where DuckDB does not say what a parameter is,
 * `?::DATE` still does.
 */
export function castParameters(document: Tree): Map<string, Tree> {
  const casts = new Map<string, Tree>();
  for (const node of treesIn(document)) {
    const child = node["class"] === "CAST" ? treeOf(node, "child") : null;
    if (child === null || child["class"] !== "PARAMETER") {
      continue;
    }
    const name = foldName(textOf(child, "identifier"));
    if (!casts.has(name)) {
      casts.set(name, { ...node, child: nullConstant, alias: "" });
    }
  }
  return casts;
}

const nullConstant: Tree = {
  class: "CONSTANT",
  type: "VALUE_CONSTANT",
  alias: "",
  value: { type: { id: "NULL", type_info: null }, is_null: true },
};

/** Some value of each kind; of bytes in base64. */
const samples: Readonly<Record<string, string>> = {
  number: "1",
  text: "svc sample",
  bytes: "YQ==",
  truth: "true",
  date: "2000-01-01",
  time: "00:00:00",
  interval: "1 day",
};

/**
 * Declarations bound to NULL, or to some value: for the columns of a statement whose values are not known. Columns
 * that differ between the two depend on the values.
 */
export function standIns(declared: readonly ParameterDeclaration[], values: "nulls" | "samples"): BoundParameter[] {
  return declared.map(({ name, type }) => {
    const kind = type === null ? null : kindOf(type);
    const stand = type !== null && kind !== null ? type : "VARCHAR";
    const sample = kind?.startsWith("list") === true ? "[]" : samples[kind ?? "text"];
    const text = values === "nulls" ? null : (sample ?? "");
    return { name, type, value: { type: stand, text } };
  });
}

/**
 * Joins values to declarations.
 * @throws ServiceError BAD_REQUEST when there are too few or too many, or a type does not fit
 */
export function bindParameters(
  declared: readonly ParameterDeclaration[],
  values: readonly ParameterValue[],
): BoundParameter[] {
  if (values.length !== declared.length) {
    throw new ServiceError(
      "BAD_REQUEST",
      `The statement takes ${declared.length} parameters and ${values.length} were bound.`,
    );
  }
  return declared.map((declaration, i) => {
    const value = values[i] ?? { type: "VARCHAR", text: null };
    if (!fits(declaration.type, value)) {
      throw new ServiceError(
        "BAD_REQUEST",
        `The parameter ${declaration.name} is of type ${declaration.type} and does not take a ${value.type}; bind a value of that type, or cast what you bind: ?::${value.type}::${declaration.type}.`,
      );
    }
    return { ...declaration, value };
  });
}

/** An empty list, or one of nulls alone, is sent as one of no type; texts are in quotes. */
const untypedList = /^\[(?:NULL(?:,NULL)*)?\]$/u;

function fits(type: string | null, { type: given, text }: ParameterValue): boolean {
  if (type === null || text === null) {
    return true;
  }
  const wanted = kindOf(type);
  const kind = kindOf(given);
  if (wanted?.startsWith("list") === true && kind === "list of text" && untypedList.test(text)) {
    return true;
  }
  if (wanted !== null && kind === "list of text") {
    const item = /^list of (.+)$/u.exec(wanted)?.[1];
    return item === "text" || (item !== undefined && takesText.has(item));
  }
  return wanted !== null && (kind === wanted || (kind === "text" && takesText.has(wanted)));
}

/** A column of a SELECT that is named by what it says. */
interface UnnamedColumn {
  readonly item: Tree;
  /** As it was before the values came, which its name must not tell. */
  readonly expression: Tree;
}

/**
 * Puts values in the places of their parameters.
 * @param document what `json_serialize_sql` made of the text; changed in place
 * @param templates what it made of {@link parameterTemplates}
 * @returns the columns whose names would change with the values
 * @throws ServiceError BAD_REQUEST when a parameter has no value
 */
export function replaceParameters(
  document: Tree,
  bound: readonly BoundParameter[],
  templates: Tree,
): readonly UnnamedColumn[] {
  const values = valueTrees(bound, templates);
  const unnamed = unnamedColumns(document);
  for (const node of treesIn(document)) {
    if (node["class"] === "PARAMETER") {
      const name = textOf(node, "identifier");
      const value = values.get(foldName(name));
      if (value === undefined) {
        throw unbound(name);
      }
      const alias = textOf(node, "alias");
      for (const key of Object.keys(node)) {
        delete node[key];
      }
      Object.assign(node, structuredClone(value), { alias });
      continue;
    }
    if (Array.isArray(node["named_param_map"])) {
      node["named_param_map"] = [];
    }
  }
  return unnamed;
}

/** Of SELECTs within such a column no name can be seen, and `COLUMNS(...)` names columns itself. */
function unnamedColumns(document: Tree): UnnamedColumn[] {
  const within = new Set<Tree>();
  const found: UnnamedColumn[] = [];
  for (const select of treesIn(document)) {
    for (const item of within.has(select) ? [] : treesOf(select, "select_list")) {
      let hasParameter = false;
      for (const part of treesIn(item)) {
        hasParameter ||= part["class"] === "PARAMETER";
        if (Array.isArray(part["select_list"])) {
          within.add(part);
        }
      }
      const isNamed = textOf(item, "alias") !== "";
      if (hasParameter && !isNamed && !expressionsOf({ item }).some((part) => part["class"] === "STAR")) {
        found.push({ item, expression: structuredClone(item) });
      }
    }
  }
  return found;
}

/** SQL with an expression for each value, whose text is still to be put in: it never is part of SQL text. */
export function parameterTemplates(bound: readonly BoundParameter[]): string {
  // Types come from a closed list.
  return `SELECT ${bound.map(templateOf).join(", ")}`;
}

function valueTrees(bound: readonly BoundParameter[], templates: Tree): Map<string, Tree> {
  const values = new Map<string, Tree>();
  const select = treeOf(treesOf(templates, "statements")[0] ?? {}, "node");
  const nodes = select === null ? [] : treesOf(select, "select_list");
  for (const [i, parameter] of bound.entries()) {
    const node = nodes[i];
    if (node === undefined) {
      throw new ServiceError("INTERNAL", "a value has no place in the tree");
    }
    if (parameter.value.text !== null) {
      setConstant(node, parameter.value.text);
    }
    values.set(foldName(parameter.name), node);
  }
  return values;
}

function templateOf({ type, value }: BoundParameter): string {
  const given = kindOf(value.type) === null ? "VARCHAR" : value.type;
  const wanted = type !== null && kindOf(type) !== null ? type : given;
  if (value.text === null) {
    return `CAST(NULL AS ${wanted})`;
  }
  const constant = constantOf(given);
  return wanted === given ? constant : `CAST(${constant} AS ${wanted})`;
}

function constantOf(type: string): string {
  if (type === "VARCHAR") {
    return "'x'";
  }
  return type === "BLOB" ? "from_base64('x')" : `CAST('x' AS ${type})`;
}

function setConstant(node: Tree, text: string): void {
  let inner = node;
  for (let child = operandOf(inner); child !== null; child = operandOf(inner)) {
    inner = child;
  }
  const value = treeOf(inner, "value");
  if (value === null) {
    throw new ServiceError("INTERNAL", "a value has no place in the tree");
  }
  value["value"] = text;
}

/** What a cast or a function is applied to. */
function operandOf(node: Tree): Tree | null {
  return treeOf(node, "child") ?? treesOf(node, "children")[0] ?? null;
}

function unbound(name: string): ServiceError {
  return new ServiceError("BAD_REQUEST", `The parameter $${name.slice(0, 80)} has no value.`);
}
