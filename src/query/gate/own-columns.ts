/**
 * Columns that a table gets beside its own, so that a query reads less.
 *
 * Attributes that a query reads by constant names (`attr(properties, 'http.route')`, `properties ->> 'http.route'`)
 * become references to such columns: objects that have the attribute as a column are read there, so that DuckDB skips
 * row groups by it.
 *
 * What a WHERE compares with constants is not `time` but {@link comparedTime}: of objects whose rows all meet the
 * conditions it is a constant that does, so that DuckDB drops the conditions and does not read their `time`.
 *
 * A table that has more columns than the caller knows must not show them. So a SELECT stays as it is when something
 * in it could: `COLUMNS(...)`, or the whole row by the table's name. `*` leaves them out. Columns of the result keep
 * their names: each expression that changes gets, as an alias, what DuckDB would have called it.
 */
import { randomBytes } from "node:crypto";

import { isPlainAttribute } from "../../lake/tables/attributes.js";
import { foldName } from "../sql/identifier.js";
import { type AttributeColumn, comparedTime } from "../sql/file-source.js";
import {
  aliasOf,
  type Constraint,
  isColumn,
  isRenamed,
  plainReferences,
  pushTo,
  tableOfColumn,
} from "./constraints.js";
import { queryNodes } from "./known-nodes.js";
import { constantText, textOf, type Tree, treeOf, treesIn, treesOf, type TreeValue } from "./syntax-tree.js";

/** Views whose rows are those of tables. */
const tableViews: ReadonlySet<string> = new Set([
  "attribute_samples",
  "histograms",
  "log_entries",
  "measures",
  "otel_spans",
  "spans",
]);

/** What gives an attribute as text, and the functions that make something else of that text. */
const textCalls: ReadonlySet<string> = new Set(["attr", "property_get", "->>"]);
const typedCalls: Readonly<Record<string, string>> = {
  attr_int: "svc_int_of_text",
  attr_double: "svc_double_of_text",
  attr_bool: "svc_bool_of_text",
};

/** Most attributes of one query. */
const maxAttributes = 32;

/** An expression of a SELECT that has no name but what it says. */
export interface NamedExpression {
  /** Its alias in the tree; nothing else in the statement is called so. */
  readonly placeholder: string;
  /** As the caller wrote it. */
  readonly expression: Tree;
}

/** What makes placeholders, of which a statement has one for each number. */
export class Placeholders {
  readonly #mark = randomBytes(12).toString("hex");
  #count = 0;

  next(): string {
    return `svc_name_${this.#mark}_${this.#count++}`;
  }
}

/** What {@link Placeholders} make. */
export const placeholders = /svc_name_[\da-f]{24}_\d+/gu;

/** The columns of ours that a table needs. */
export interface TakenColumns {
  readonly attributes: readonly AttributeColumn[];
  /** It needs {@link comparedTime}. */
  readonly comparesTime: boolean;
}

/** Whether a text may hold something for {@link OwnColumns}. */
export function mayReadOwnColumns(text: string): boolean {
  return /attr|property_get|->>|time/iu.test(text);
}

/** The name of a view with these columns, in the executed query. */
export function tableWith(view: string, { attributes, comparesTime }: TakenColumns): string {
  const numbers = attributes.map(({ column }) => column.replace(/^\D+/u, "_")).join("");
  return `svc_${view}_with${numbers}${comparesTime ? "_time" : ""}`;
}

/** The columns of one query. */
export class OwnColumns {
  readonly #given: () => ReadonlySet<string>;
  readonly #columns = new Map<string, AttributeColumn>();
  readonly #named: NamedExpression[] = [];
  readonly #made = new WeakSet<Tree>();
  readonly #placeholders = new Placeholders();

  /** @param given names that the query gives to something of its own */
  constructor(given: () => ReadonlySet<string>) {
    this.#given = given;
  }

  /** Expressions whose placeholders have to become names in the printed text. */
  get named(): readonly NamedExpression[] {
    return this.#named;
  }

  /**
   * Changes a SELECT; SELECTs within it are not looked into. Says which of its tables need which columns.
   * @param isOther whether a table's name, folded, is that of something else here than the view
   * @param constraints what its WHERE says of its tables
   */
  take(
    select: Tree,
    isOther: (name: string) => boolean,
    constraints: ReadonlyMap<Tree, readonly Constraint[]>,
  ): ReadonlyMap<Tree, TakenColumns> {
    const found = new Map<Tree, TakenColumns>();
    const from = treeOf(select, "from_table");
    const references = from === null ? null : plainReferences(from);
    if (references === null) {
      return found;
    }
    const own = expressionsOf(select);
    // The parameter of a lambda may be called like the column.
    if (own.some((part) => part["class"] === "LAMBDA" || (part["class"] === "STAR" && part["columns"] === true))) {
      return found;
    }
    const views = references.filter((reference) => {
      const name = foldName(textOf(reference, "table_name"));
      return (
        textOf(reference, "type") === "BASE_TABLE" && tableViews.has(name) && !isOther(name) && !isRenamed(reference)
      );
    });
    if (views.length === 0) {
      return found;
    }
    const bare = bareNames(select);
    const stars = own.filter((part) => part["class"] === "STAR");
    // Something that the query calls so is not the column.
    const callsOn = this.#given().has("properties") ? () => [] : attributeCalls(own, references.length === 1);
    const changing = new Map<Tree, readonly [column: AttributeColumn, alias: string]>();
    for (const reference of views) {
      const alias = aliasOf(reference);
      // Something may read whole rows, as structs, by the table's name.
      if (bare.has(alias)) {
        continue;
      }
      const times = new Set(
        (constraints.get(reference) ?? []).flatMap((constraint) =>
          "column" in constraint && constraint.column !== null ? [constraint.column] : [],
        ),
      );
      for (const time of times) {
        time["column_names"] = [alias, comparedTime];
      }
      const columns = new Map<string, AttributeColumn>();
      const calls = callsOn(alias);
      const apart = groupedApart(select, calls);
      for (const { part, attribute } of calls) {
        const column = apart.has(attribute) ? null : this.#columnOf(attribute);
        if (column !== null) {
          columns.set(attribute, column);
          changing.set(part, [column, alias]);
        }
      }
      const attributes = [...columns.values()];
      const comparesTime = times.size > 0;
      if (attributes.length > 0 || comparesTime) {
        hide(stars, alias, [...attributes.map(({ column }) => column), ...(comparesTime ? [comparedTime] : [])]);
        found.set(reference, { attributes, comparesTime });
      }
    }
    this.#name(select, changing);
    for (const [part, [column, alias]] of changing) {
      become(part, column, alias);
      this.#made.add(part);
    }
    return found;
  }

  /** Whether a call is one that stands for the caller's. */
  isOurs(call: Tree): boolean {
    return this.#made.has(call);
  }

  #columnOf(attribute: string): AttributeColumn | null {
    const known = this.#columns.get(attribute);
    if (known !== undefined) {
      return known;
    }
    if (this.#columns.size === maxAttributes) {
      return null;
    }
    const column = { attribute, column: `svc_attribute_${this.#columns.size}` };
    this.#columns.set(attribute, column);
    return column;
  }

  /** Gives what a SELECT returns the names that it has before it changes. */
  #name(select: Tree, changing: ReadonlyMap<Tree, unknown>): void {
    if (changing.size === 0) {
      return;
    }
    for (const item of treesOf(select, "select_list")) {
      if (
        item["class"] !== "STAR" &&
        textOf(item, "alias") === "" &&
        expressionsOf({ item }).some((part) => changing.has(part))
      ) {
        const placeholder = this.#placeholders.next();
        this.#named.push({ placeholder, expression: structuredClone(item) });
        item["alias"] = placeholder;
      }
    }
  }
}

/** Every expression of a SELECT but those of SELECTs within it. */
export function expressionsOf(select: Tree): Tree[] {
  const found: Tree[] = [];
  const stack: TreeValue[] = Object.entries(select).flatMap(([key, value]) =>
    key === "cte_map" || value === undefined ? [] : [value],
  );
  for (let value = stack.pop(); value !== undefined; value = stack.pop()) {
    if (typeof value !== "object" || value === null) {
      continue;
    }
    if (!Array.isArray(value)) {
      if (queryNodes.has(textOf(value, "type"))) {
        continue;
      }
      if (typeof value["class"] === "string") {
        found.push(value);
      }
    }
    for (const child of Object.values(value)) {
      if (typeof child === "object") {
        stack.push(child);
      }
    }
  }
  return found;
}

/** Names of references that are one name, folded; in SELECTs within it as well. */
function bareNames(select: Tree): ReadonlySet<string> {
  const found = new Set<string>();
  for (const part of treesIn(select)) {
    const names = part["column_names"];
    const [name] = part["class"] === "COLUMN_REF" && Array.isArray(names) && names.length === 1 ? names : [];
    if (typeof name === "string") {
      found.add(foldName(name));
    }
  }
  return found;
}

/** A call that reads an attribute. */
interface AttributeCall {
  readonly part: Tree;
  readonly attribute: string;
}

/** Finds the calls that read attributes of a table, by its name. @param alone it is the only one */
function attributeCalls(expressions: readonly Tree[], alone: boolean): (alias: string) => readonly AttributeCall[] {
  const found = new Map<string, AttributeCall[]>();
  for (const part of expressions) {
    const [column] = treesOf(part, "children");
    const table = tableOfColumn(column);
    const attribute = attributeOf(part, table ?? "", alone);
    if (attribute !== null) {
      pushTo(found, table ?? "", { part, attribute });
    }
  }
  return (alias) => [...(found.get(alias) ?? []), ...(alone ? (found.get("") ?? []) : [])];
}

/**
 * Attributes that grouping sets name in several ways. To DuckDB each way is a group of its own, null where a set lacks it;
 * as one column they would be one.
 */
function groupedApart(select: Tree, calls: readonly AttributeCall[]): ReadonlySet<string> {
  const found = new Set<string>();
  const { group_expressions: groups, group_sets: sets } = select;
  if (!Array.isArray(sets) || sets.length < 2 || groups === undefined) {
    return found;
  }
  const grouped = new Set(expressionsOf({ groups }));
  const ways = new Map<string, string>();
  for (const { part, attribute } of calls) {
    if (grouped.has(part)) {
      const way = foldName(
        `${textOf(part, "function_name")} ${JSON.stringify(treesOf(part, "children")[0]?.["column_names"])}`,
      );
      if ((ways.get(attribute) ?? way) !== way) {
        found.add(attribute);
      }
      ways.set(attribute, way);
    }
  }
  return found;
}

/** The attribute that a call reads of a table, else null. */
function attributeOf(call: Tree, alias: string, alone: boolean): string | null {
  const name = call["class"] === "FUNCTION" ? foldName(textOf(call, "function_name")) : "";
  if (!textCalls.has(name) && !Object.hasOwn(typedCalls, name)) {
    return null;
  }
  const [column, attribute, ...rest] = treesOf(call, "children");
  if (column === undefined || attribute === undefined || rest.length > 0) {
    return null;
  }
  const text = constantText(attribute);
  return text !== null && isPlainAttribute(text) && isColumn(column, "properties", alias, alone) ? text : null;
}

/** Makes a call the column, or a function of it. */
function become(call: Tree, { column }: AttributeColumn, alias: string): void {
  const made = typedCalls[foldName(textOf(call, "function_name"))];
  const reference: Tree = { class: "COLUMN_REF", type: "COLUMN_REF", alias: "", column_names: [alias, column] };
  if (made !== undefined) {
    call["function_name"] = made;
    call["children"] = [reference];
    return;
  }
  const named = textOf(call, "alias");
  for (const key of Object.keys(call)) {
    delete call[key];
  }
  Object.assign(call, { ...reference, alias: named });
}

/** Leaves columns out of the stars that would show them. */
function hide(stars: readonly Tree[], alias: string, columns: readonly string[]): void {
  for (const star of stars) {
    const relation = foldName(textOf(star, "relation_name"));
    if (relation === "" || relation === alias) {
      const hidden = Array.isArray(star["exclude_list"]) ? star["exclude_list"] : [];
      const names = columns.filter((column) => !hidden.includes(column));
      star["exclude_list"] = [...hidden, ...names];
    }
  }
}
