/**
 * DuckDB's syntax tree as JSON (`json_serialize_sql`): parsing it without losing digits, and reading it
 * without trusting its shape.
 */
import { ServiceError } from "../../runtime/errors.js";
import { refuse } from "./query-text.js";

/** A node of the tree, or any other object in it. */
export interface Tree {
  [key: string]: TreeValue | undefined;
}

/** Anything in the tree. */
export type TreeValue = null | boolean | number | string | TreeValue[] | Tree;

/** Integers of this many digits or more may not survive a JavaScript number. */
const unsafeDigits = 16;
// No query text contains NUL (the gate refuses it), so no string of the tree starts like this.
const writtenMark = "\\u0000int:";
/** What a number starts with that is kept as text. */
export const numberMark = "\u0000int:";

/**
 * Parses a tree; integers that a number cannot hold, and doubles, are kept as marked text for {@link printTree}.
 * @throws ServiceError BAD_REQUEST for a number beyond DOUBLE
 */
export function parseTree(json: string): Tree {
  const tree: unknown = JSON.parse(markNumbers(json));
  if (!isTree(tree)) {
    throw new ServiceError("INTERNAL", "the syntax tree is not an object");
  }
  return tree;
}

/**
 * Writes a tree (or a part of one) as the JSON that `json_deserialize_sql` reads. DuckDB prints the DOUBLE of `1e3` as
 * `1000.0`, which is a DECIMAL, and the DECIMAL `1.` as an INTEGER; so parameters stand for such numbers until
 * {@link withNumerals}.
 */
export function printTree(tree: TreeValue): string {
  const json = JSON.stringify(tree);
  const hasNumerals = /"value":\{"type":\{"id":"(?:DECIMAL|DOUBLE)"/u.test(json);
  return unmarked(hasNumerals ? JSON.stringify(tree, numeralAsParameter) : json);
}

/** As {@link printTree}, with numbers as DuckDB prints them: they are so in the names that it gives to columns. */
export function printNamed(tree: TreeValue): string {
  return unmarked(JSON.stringify(tree));
}

const unmarked = (json: string): string => json.replaceAll(/"\\u0000int:(-?\d[\d.eE+-]*)"/gu, "$1");

function numeralAsParameter(_key: string, node: unknown): unknown {
  const constant = isTree(node) && node["class"] === "CONSTANT" ? treeOf(node, "value") : null;
  const text = constant === null ? null : numeralOf(constant);
  return text === null
    ? node
    : {
        class: "PARAMETER",
        type: "VALUE_PARAMETER",
        alias: textOf(node as Tree, "alias"),
        identifier: `svc_number_${text}_`,
      };
}

/** What SQL writes for a DOUBLE or a DECIMAL, so that it has the same type; null for other constants. */
function numeralOf({ type, value }: Tree): string | null {
  const id = isTree(type) ? textOf(type, "id") : "";
  if (id === "DOUBLE" && typeof value === "string") {
    const digits = value.replace(numberMark, "");
    return /e/iu.test(digits) ? digits : `${digits}e0`;
  }
  const { width, scale } = (id === "DECIMAL" && isTree(type) ? treeOf(type, "type_info") : null) ?? {};
  if (typeof width !== "number" || typeof scale !== "number") {
    return null;
  }
  const integer = integerOf(value);
  const digits = String(integer < 0n ? -integer : integer).padStart(width, "0");
  const point = digits.length - scale;
  return `${integer < 0n ? "-" : ""}${digits.slice(0, point)}.${digits.slice(point)}`;
}

/** An integer of the tree; larger ones than 64 bits come in two halves. */
function integerOf(value: TreeValue | undefined): bigint {
  if (isTree(value)) {
    return (integerOf(value["upper"]) << 64n) + integerOf(value["lower"]);
  }
  return BigInt(typeof value === "string" ? value.replace(numberMark, "") : Number(value));
}

/** The SQL that DuckDB has printed of a tree of {@link printTree}, with its numbers. */
export function withNumerals(sql: string): string {
  return sql.replaceAll(
    /'(?:[^']|'')*'|"(?:[^"]|"")*"|\$svc_number_([\d.e+-]+)_/giu,
    (token, number?: string) => number ?? token,
  );
}

/** Whether a value of the tree is an object. */
export function isTree(value: unknown): value is Tree {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** A text field; the serialiser leaves empty ones out. */
export function textOf(node: Tree, key: string): string {
  const value = node[key];
  return typeof value === "string" ? value : "";
}

/** An object field, or null. */
export function treeOf(node: Tree, key: string): Tree | null {
  const value = node[key];
  return isTree(value) ? value : null;
}

/** The sides of a comparison; null for anything else. */
export function sidesOf(condition: Tree): { readonly left: Tree; readonly right: Tree } | null {
  const left = treeOf(condition, "left");
  const right = treeOf(condition, "right");
  return condition["class"] !== "COMPARISON" || left === null || right === null ? null : { left, right };
}

/** The objects of an array field. */
export function treesOf(node: Tree, key: string): Tree[] {
  const value = node[key];
  return Array.isArray(value) ? value.filter((item) => isTree(item)) : [];
}

/** Whether anything in a part of the tree is as `wanted` says. */
export function holds(value: TreeValue | undefined, wanted: (tree: Tree) => boolean): boolean {
  if (Array.isArray(value)) {
    return value.some((item) => holds(item, wanted));
  }
  if (!isTree(value)) {
    return false;
  }
  return wanted(value) || Object.values(value).some((part) => holds(part, wanted));
}

/**
 * Every object in a part of a tree, outermost first; their parts are read after the caller is done with them. Walks
 * without recursion: it comes before the gate has bounded the depth.
 */
export function* treesIn(part: TreeValue): Generator<Tree> {
  const stack: TreeValue[] = [part];
  for (let node = stack.pop(); node !== undefined; node = stack.pop()) {
    if (typeof node !== "object" || node === null) {
      continue;
    }
    if (isTree(node)) {
      yield node;
    }
    for (const child of Object.values(node)) {
      if (typeof child === "object") {
        stack.push(child);
      }
    }
  }
}

/** The text of a VARCHAR constant, else null; bound parameters are such constants, cast to VARCHAR. */
export function constantText(expression: Tree): string | null {
  if (expression["class"] === "CAST") {
    const child = treeOf(expression, "child");
    return child !== null && isVarchar(treeOf(expression, "cast_type")) ? constantText(child) : null;
  }
  if (expression["class"] !== "CONSTANT") {
    return null;
  }
  const value = treeOf(expression, "value");
  if (value === null || treeOf(value, "type")?.["id"] !== "VARCHAR") {
    return null;
  }
  return typeof value["value"] === "string" ? value["value"] : null;
}

/** Whether an expression is NULL, cast or not. */
export function isNullConstant(expression: Tree): boolean {
  if (expression["class"] === "CAST") {
    return isNullConstant(treeOf(expression, "child") ?? {});
  }
  return expression["class"] === "CONSTANT" && treeOf(expression, "value")?.["is_null"] === true;
}

function isVarchar(type: Tree | null): boolean {
  if (type === null) {
    return false;
  }
  if (type["id"] === "VARCHAR") {
    return true;
  }
  // Types are names until a statement is bound.
  const name = treeOf(treeOf(type, "type_info") ?? {}, "expr");
  return (
    name !== null &&
    textOf(name, "type_name") === "VARCHAR" &&
    textOf(name, "schema") === "" &&
    treesOf(name, "children").length === 0
  );
}

/** The number of an integer constant that a JavaScript number holds exactly, else null. */
export function constantInteger(expression: Tree): number | null {
  if (expression["class"] !== "CONSTANT") {
    return null;
  }
  const constant = treeOf(expression, "value");
  const type = constant === null ? null : treeOf(constant, "type");
  // A decimal's value is an integer, too: 1.5 is 15 with a scale.
  if (type === null || !/^(?:TINYINT|SMALLINT|INTEGER|BIGINT)$/u.test(textOf(type, "id"))) {
    return null;
  }
  const value = constant?.["value"];
  return typeof value === "number" && Number.isSafeInteger(value) ? value : null;
}

function markNumbers(json: string): string {
  if (!new RegExp(`\\d{${unsafeDigits}}|\\d[.eE]|Infinity`, "u").test(json)) {
    return json;
  }
  return json.replaceAll(
    // A string is matched whole and left alone, so only numbers outside of strings are marked.
    /"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|Infinity/gu,
    (token) => {
      if (token === "Infinity") {
        throw refuse("A number of the query is beyond what a DOUBLE holds, 1.8e308.");
      }
      // A double that is whole must not be printed as an integer.
      return /^-?\d{16,}$|^-?\d+[.eE]/u.test(token) ? `"${writtenMark}${token}"` : token;
    },
  );
}

/** Makes a table reference out of another in place, keeping the names that the caller gave it. */
export function becomeTable(node: Tree, tableName: string, alias: string): void {
  const replacement: Tree = {
    type: "BASE_TABLE",
    alias: textOf(node, "alias") === "" ? alias : textOf(node, "alias"),
    sample: node["sample"] ?? null,
    query_location: node["query_location"] ?? 0,
    schema_name: "",
    table_name: tableName,
    column_name_alias: node["column_name_alias"] ?? [],
    catalog_name: "",
    at_clause: null,
  };
  for (const key of Object.keys(node)) {
    delete node[key];
  }
  Object.assign(node, replacement);
}
