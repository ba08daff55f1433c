/**
 * Conditions on `duration_ms` of spans, which is computed, imply conditions on `duration_ns`, which is stored. Those are
 * added, so that DuckDB skips row groups by their statistics and drops rows where it reads them.
 */
import { aliasOf, conditionsByTable, conjuncts, isColumn, isRenamed, plainReferences } from "./constraints.js";
import { foldName } from "../sql/identifier.js";
import { numberMark, sidesOf, textOf, type Tree, treeOf } from "./syntax-tree.js";

const spanTables: ReadonlySet<string> = new Set(["spans", "otel_spans"]);

/** What a comparison with `duration_ms` at its left says, by its type. */
const bounds: Readonly<Record<string, readonly ("COMPARE_GREATERTHANOREQUALTO" | "COMPARE_LESSTHANOREQUALTO")[]>> = {
  COMPARE_EQUAL: ["COMPARE_GREATERTHANOREQUALTO", "COMPARE_LESSTHANOREQUALTO"],
  COMPARE_GREATERTHAN: ["COMPARE_GREATERTHANOREQUALTO"],
  COMPARE_GREATERTHANOREQUALTO: ["COMPARE_GREATERTHANOREQUALTO"],
  COMPARE_LESSTHAN: ["COMPARE_LESSTHANOREQUALTO"],
  COMPARE_LESSTHANOREQUALTO: ["COMPARE_LESSTHANOREQUALTO"],
};

const mirrored: Readonly<Record<string, string>> = {
  COMPARE_GREATERTHAN: "COMPARE_LESSTHAN",
  COMPARE_GREATERTHANOREQUALTO: "COMPARE_LESSTHANOREQUALTO",
  COMPARE_LESSTHAN: "COMPARE_GREATERTHAN",
  COMPARE_LESSTHANOREQUALTO: "COMPARE_GREATERTHANOREQUALTO",
};

/**
 * Adds what the conditions at the top of a SELECT's WHERE imply. Says whether there was anything.
 * @param isOther whether a table's name, folded, is that of something else here than the view
 */
export function boundDurations(select: Tree, isOther: (name: string) => boolean): boolean {
  const from = treeOf(select, "from_table");
  const where = treeOf(select, "where_clause");
  const references = from === null || where === null ? null : plainReferences(from);
  if (where === null || references === null) {
    return false;
  }
  const implied: Tree[] = [];
  const conditions = conjuncts(where);
  const conditionsOn = conditionsByTable(conditions, references);
  for (const reference of references) {
    const name = foldName(textOf(reference, "table_name"));
    if (textOf(reference, "type") !== "BASE_TABLE" || !spanTables.has(name) || isOther(name) || isRenamed(reference)) {
      continue;
    }
    const alias = aliasOf(reference);
    const isDuration = (part: Tree): boolean => isColumn(part, "duration_ms", alias, references.length === 1);
    implied.push(...conditionsOn(alias).flatMap((condition) => impliedBy(condition, isDuration)));
  }
  if (implied.length === 0) {
    return false;
  }
  select["where_clause"] = {
    class: "CONJUNCTION",
    type: "CONJUNCTION_AND",
    alias: "",
    children: [...conditions, ...implied],
  };
  return true;
}

function impliedBy(condition: Tree, isDuration: (part: Tree) => boolean): Tree[] {
  if (condition["type"] === "COMPARE_BETWEEN") {
    const input = treeOf(condition, "input");
    return input === null || !isDuration(input)
      ? []
      : [
          ...nanoseconds("COMPARE_GREATERTHANOREQUALTO", input, treeOf(condition, "lower")),
          ...nanoseconds("COMPARE_LESSTHANOREQUALTO", input, treeOf(condition, "upper")),
        ];
  }
  const sides = sidesOf(condition);
  if (sides === null) {
    return [];
  }
  const { left, right } = sides;
  const type = textOf(condition, "type");
  if (isDuration(left)) {
    return nanoseconds(type, left, right);
  }
  return isDuration(right) ? nanoseconds(mirrored[type] ?? type, right, left) : [];
}

/** Conditions on nanoseconds that milliseconds imply: a little wider, because `duration_ms` is a rounded quotient. */
function nanoseconds(type: string, column: Tree, value: Tree | null): Tree[] {
  const milliseconds = value === null ? null : constantNumber(value);
  const names = column["column_names"];
  if (milliseconds === null || !Array.isArray(names)) {
    return [];
  }
  const exact = milliseconds * 1e6;
  const error = 1 + Math.abs(exact) * 2 ** -50;
  return (bounds[type] ?? []).flatMap((comparison): Tree[] => {
    const bound = comparison === "COMPARE_LESSTHANOREQUALTO" ? Math.ceil(exact + error) : Math.floor(exact - error);
    if (!Number.isSafeInteger(bound)) {
      return [];
    }
    return [
      {
        class: "COMPARISON",
        type: comparison,
        alias: "",
        left: {
          class: "COLUMN_REF",
          type: "COLUMN_REF",
          alias: "",
          column_names: [...names.slice(0, -1), "duration_ns"],
        },
        right: {
          class: "CONSTANT",
          type: "VALUE_CONSTANT",
          alias: "",
          value: { type: { id: "BIGINT", type_info: null }, is_null: false, value: bound },
        },
      },
    ];
  });
}

const integers = /^(?:TINYINT|SMALLINT|INTEGER|BIGINT)$/u;

/** The number of a constant, as written or bound, else null. */
function constantNumber(expression: Tree): number | null {
  if (expression["class"] === "CAST") {
    const child = treeOf(expression, "child");
    const type = treeOf(expression, "cast_type") ?? {};
    const named = textOf(treeOf(treeOf(type, "type_info") ?? {}, "expr") ?? {}, "type_name");
    const name = (named === "" ? textOf(type, "id") : named).toUpperCase();
    const value = child === null ? null : (constantNumber(child) ?? textNumber(child));
    return value !== null && (name === "DOUBLE" || (integers.test(name) && Number.isInteger(value))) ? value : null;
  }
  const constant = expression["class"] === "CONSTANT" ? treeOf(expression, "value") : null;
  const type = constant === null ? null : treeOf(constant, "type");
  const given = constant?.["value"];
  if (type === null || (typeof given !== "number" && typeof given !== "string")) {
    return null;
  }
  const id = textOf(type, "id");
  const scale = id === "DECIMAL" ? treeOf(type, "type_info")?.["scale"] : 0;
  if (typeof scale !== "number" || !(integers.test(id) || id === "DECIMAL" || id === "DOUBLE")) {
    return null;
  }
  const value = Number(typeof given === "string" ? given.replace(numberMark, "") : given) / 10 ** scale;
  return Number.isFinite(value) ? value : null;
}

/** The number that a text constant spells in digits. */
function textNumber(expression: Tree): number | null {
  const text = expression["class"] === "CONSTANT" ? treeOf(expression, "value")?.["value"] : null;
  return typeof text === "string" && /^-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?$/u.test(text) ? Number(text) : null;
}
