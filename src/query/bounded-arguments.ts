/**
 * What the gate bounds of a call by its arguments: functions whose result, or whose time, an argument multiplies. The
 * size of one value is bounded by macros (bounded-functions.ts); here is bounded how many such calls a query
 * makes, and what no macro can look at.
 */
import { refuse } from "./query-text.js";
import {
  constantInteger,
  constantText,
  holds,
  isNullConstant,
  textOf,
  type Tree,
  treesOf,
} from "./syntax-tree.js";
import { foldName } from "./identifier.js";

/** Functions that make a value of a size that an argument names, and the position of that argument. */
const sizes: ReadonlyMap<string, number> = new Map([
  ["array_resize", 1],
  ["bitstring", 1],
  ["generate_series", 0],
  ["list_resize", 1],
  ["lpad", 1],
  ["range", 0],
  ["repeat", 1],
  ["rpad", 1],
]);

/** Functions whose time is the product of the lengths of two texts. */
const distances: ReadonlySet<string> = new Set([
  "damerau_levenshtein",
  "editdist3",
  "jaro_similarity",
  "jaro_winkler_similarity",
  "levenshtein",
]);

/** Names of what is counted. */
export const makerNames: readonly string[] = [...sizes.keys(), ...distances, "replace"].sort();

/** A size that stands in the text and is no larger does not count as made up. */
export const smallSize = 256;

/**
 * Most calls of {@link makerNames} in a query: a vector has 2048 rows, so each may hold 134 MB, and all columns of
 * a chunk are computed before an interrupt is looked at.
 */
export const maxMakers = 8;

/** How much longer than what it replaces a replacement may be without being counted. */
const replacementGrowth = 4;

/**
 * Whether a call makes values up: `large` ones count. `small` ones are bounded by their arguments as they stand
 * there, and need no macro.
 */
export function makerOf(name: string, values: readonly Tree[]): "none" | "small" | "large" {
  if (distances.has(name)) return "large";
  if (name === "replace") {
    const from = constantText(values[1] ?? {});
    const to = constantText(values[2] ?? {});
    const small = from !== null && to !== null && to.length <= from.length * replacementGrowth;
    return small ? "small" : "large";
  }
  const position = sizes.get(name);
  if (position === undefined) return "none";
  const size = constantInteger(values[position] ?? {});
  if (size === null || size > smallSize) return "large";
  if (name === "repeat") return constantText(values[0] ?? {}) === null ? "large" : "small";
  const ranged = name === "range" || name === "generate_series";
  return ranged && values.length > 1 ? "large" : "small";
}

const volatileFunctions: ReadonlySet<string> = new Set([
  "gen_random_uuid",
  "random",
  "uuid",
  "uuidv4",
  "uuidv7",
]);

/** Whether a part of the tree is a call that returns something else each time. */
export function isVolatile(tree: Tree): boolean {
  return (
    tree["class"] === "FUNCTION" && volatileFunctions.has(foldName(textOf(tree, "function_name")))
  );
}

/**
 * What a lambda of `reduce` may call: what it returns is as large as what it is given. The parameters of a
 * lambda themselves are a `row`.
 */
export const reducers: ReadonlySet<string> = new Set(
  "row + - * / // % & | << >> xor add subtract multiply divide mod abs sign round floor ceil least greatest coalesce and or not hash md5 pow power sqrt ln log exp bit_count epoch epoch_ms epoch_ns length strlen len".split(
    " ",
  ),
);

/** Arguments, by position, that must stand in the text as constants to be bounded. */
const constantArguments: ReadonlyMap<string, number> = new Map([
  ["format", 0],
  ["from_json", 1],
  ["from_json_strict", 1],
  ["json_transform", 1],
  ["json_transform_strict", 1],
  ["printf", 0],
  // A macro cannot stand in front of it: its options must be constant, too.
  ["regexp_replace", 2],
]);

/** The format of `strftime` is bounded where it is a constant: it is its first or its second argument. */
const strftimeFormat = (call: Tree): Tree | undefined =>
  treesOf(call, "children").find((argument) => constantText(argument) !== null);

/** Longest replacement of `regexp_replace` in UTF-16 code units. */
const maxReplacement = 256;
/** Longest format in UTF-16 code units, and most of its fields. */
const maxFormat = 4096;
const maxFields = 64;

/** Fields of a format of `format` or `printf`, or more. */
const fieldsOf = (format: string): number => format.split(/[{%]/u).length - 1;

/** Functions whose second argument is a path into JSON. */
const takesPath: ReadonlySet<string> = new Set([
  "->>",
  "json_array_length",
  "json_exists",
  "json_extract",
  "json_extract_path",
  "json_extract_path_text",
  "json_extract_string",
  "json_keys",
  "json_type",
  "json_value",
]);

/**
 * A path that looks anywhere (`..`, `**`) finds as many places as a value has; two of them find the square of
 * that. DuckDB takes wildcards in constants only, so a path is one that stands there, or has none.
 * @throws ServiceError BAD_REQUEST
 */
export function checkPath(name: string, values: readonly Tree[]): void {
  const path = values[1];
  if (path === undefined) return;
  const refused = `A path of ${name} is written out, with .. or ** once at most.`;
  if (holds(path, (part) => countAnywhere(textOfConstant(part)) > 1)) throw refuse(refused);
  const fixed = !holds(path, (part) => movable.has(textOf(part, "class")));
  const plain =
    constantText(path) !== null ||
    constantInteger(path) !== null ||
    isNullConstant(path) ||
    isListOfConstants(path);
  if (fixed && !plain) throw refuse(refused);
}

const countAnywhere = (path: string): number => path.split(/\.\.|\*\*/u).length - 1;

const textOfConstant = (part: Tree): string =>
  part["class"] === "CONSTANT" ? (constantText(part) ?? "") : "";

/** What may differ from row to row, or is not known yet. */
const movable: ReadonlySet<string> = new Set(["COLUMN_REF", "LAMBDA_REF", "PARAMETER", "SUBQUERY"]);

function isListOfConstants(path: Tree): boolean {
  if (foldName(textOf(path, "function_name")) !== "list_value") return false;
  return treesOf(path, "children").every((item) => constantText(item) !== null);
}

/** Longest structure of JSON in UTF-16 code units, and its deepest nesting: DuckDB reads it by recursion. */
const maxStructure = 65_536;
const maxStructureDepth = 100;

/**
 * A width in a format is memory, and so is a replacement; a structure is a type. They must stand in the text, and
 * be small.
 * @param open parameters have no values yet
 * @throws ServiceError BAD_REQUEST
 */
export function checkArguments(name: string, call: Tree, open: boolean): void {
  if (name === "strftime") {
    const format = constantText(strftimeFormat(call) ?? {});
    if (format !== null && format.length > maxFormat) {
      throw refuse(`The format of strftime has at most ${maxFormat} characters.`);
    }
    return;
  }
  if (takesPath.has(name)) checkPath(name, treesOf(call, "children"));
  const position = constantArguments.get(name);
  if (position === undefined) return;
  const argument = treesOf(call, "children")[position] ?? {};
  if ((open && argument["class"] === "PARAMETER") || isNullConstant(argument)) return;
  const text = constantText(argument);
  if (text === null) throw refuse(`${name} takes its argument ${position + 1} as a constant.`);
  switch (name) {
    case "regexp_replace":
      if (text.length > maxReplacement) {
        throw refuse(`The replacement of ${name} has at most ${maxReplacement} characters.`);
      }
      return;
    case "format":
    case "printf":
      if (isUnboundedFormat(text)) {
        throw refuse(`The format of ${name} takes widths of three digits at most, written out.`);
      }
      if (text.length > maxFormat || fieldsOf(text) > maxFields) {
        throw refuse(
          `The format of ${name} has at most ${maxFormat} characters and ${maxFields} fields.`,
        );
      }
      return;
    default:
      checkStructure(name, text);
  }
}

function checkStructure(name: string, text: string): void {
  let depth = 0;
  for (const c of text) {
    if (c === "[" || c === "{" || c === "(") depth++;
    else if (c === "]" || c === "}" || c === ")") depth--;
    if (depth > maxStructureDepth) break;
  }
  if (text.length > maxStructure || depth > maxStructureDepth) {
    throw refuse(
      `The structure of ${name} has at most ${maxStructure} characters and ${maxStructureDepth} levels.`,
    );
  }
  // Read as JSON, because a letter of a type may be written as an escape.
  if (namesVariant(parsedStructure(name, text))) {
    throw refuse(`The structure of ${name} cannot hold VARIANT.`);
  }
}

function parsedStructure(name: string, text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw refuse(`The structure of ${name} is no JSON.`);
  }
}

/** Whether a type in a structure is a VARIANT, or made of some; the names of fields may be anything. */
function namesVariant(structure: unknown): boolean {
  if (typeof structure === "string") return /variant/iu.test(structure);
  return (
    typeof structure === "object" &&
    structure !== null &&
    Object.values(structure).some(namesVariant)
  );
}

/** Whether a format asks for a width of more than three digits, or takes one from an argument. */
function isUnboundedFormat(format: string): boolean {
  return /\d{4}|%[^a-z%]*\*|\{[^}]*\{/iu.test(format.replaceAll("{{", ""));
}
