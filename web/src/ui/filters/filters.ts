/**
 * Filters of a page, as texts in the address: `service_name=shop`, `level_name!=debug`, `msg~timeout`, `duration_ms>500`,
 * `http.route` (it has one), `!user.id` (it has none), `msg=" a line\n"`, `"a=b"=c`. What is no column of the view is an
 * attribute; one that is called as a column is `properties.level`.
 */

const filterOperators = ["!=", "!~", ">=", "<=", "=", "~", ">", "<"] as const;
type FilterOperator = (typeof filterOperators)[number] | "exists" | "missing";

export interface Filter {
  /** A column, or the key of an attribute. */
  readonly key: string;
  readonly operator: FilterOperator;
  /** Empty for `exists` and `missing`. */
  readonly value: string;
}

/** Null for an empty text. Everything else means something. */
export function parseFilter(text: string): Filter | null {
  const trimmed = text.replaceAll("\0", "").trim(); // where it counts it is written as JSON
  const isMissing = trimmed.startsWith("!");
  const named = isMissing ? trimmed.slice(1) : trimmed;
  const key = unquoted(named, isDifficultKey);
  const found = /^("(?:[^"\\]|\\.)*"|[^!=~<>]+?)\s*(!=|!~|>=|<=|=|~|>|<)\s*(.*)$/s.exec(trimmed);
  if (key !== named || found === null) {
    return named === "" ? null : { key, operator: isMissing ? "missing" : "exists", value: "" };
  }
  const [, name = "", operator = "=", value = ""] = found;
  return {
    key: unquoted(name, isDifficultKey),
    operator: operator as FilterOperator,
    value: unquoted(value, isDifficultValue),
  };
}

export function formatFilter({ key, operator, value }: Filter): string {
  const name = quoted(key, isDifficultKey);
  return operator === "exists"
    ? name
    : operator === "missing"
      ? `!${name}`
      : `${name}${operator}${quoted(value, isDifficultValue)}`;
}

/** As JSON where it would not read the same otherwise. */
function quoted(text: string, isDifficult: (text: string) => boolean): string {
  return isDifficult(text) ? JSON.stringify(text) : text;
}

function unquoted(text: string, isDifficult: (text: string) => boolean): string {
  const value = jsonText(text);
  return value !== null && isDifficult(value) ? value : text;
}

/** White space around it, or quotes of its own, or NUL. */
function isDifficultValue(value: string): boolean {
  return value !== value.trim() || value.includes("\0") || jsonText(value) !== null;
}

function isDifficultKey(key: string): boolean {
  return key === "" || isDifficultValue(key) || /[!=~<>]/.test(key);
}

/** The text that some JSON is; null: it is something else. */
function jsonText(json: string): string | null {
  try {
    const value: unknown = json.startsWith('"') ? JSON.parse(json) : null;
    return typeof value === "string" ? value : null;
  } catch {
    return null;
  }
}

/** Those of an address. */
export function parseFilters(texts: readonly string[]): readonly Filter[] {
  return texts.map(parseFilter).filter((filter) => filter !== null);
}

/** A condition for SQL, with a value for each of its `?`. */
export interface Condition {
  /** `true` when there is nothing to ask for. */
  readonly sql: string;
  readonly parameters: readonly (string | number)[];
}

/** What a view has; see `conditionOf`. */
export interface FilterColumns {
  /** Names of columns that hold text. */
  readonly text: readonly string[];
  /** Names of columns that hold numbers. */
  readonly number: readonly string[];
  /** Keys that stand for an expression of text. */
  readonly expressions?: Readonly<Record<string, string>>;
  /** The column of JSON in which all other keys are; null: other keys match nothing. */
  readonly attributes: string | null;
  /** Names that a list of the page has for something else than attributes. */
  readonly listed?: readonly string[];
}

/** The key that means an attribute, also where a column has its name. */
export function attributeKey(name: string, columns: FilterColumns): string {
  return isTaken(name, columns) ? `${columns.attributes}.${name}` : name;
}

/** The attribute of an {@link attributeKey}. */
export function attributeOf(key: string, columns: FilterColumns): string {
  const prefix = `${columns.attributes}.`;
  const name = key.slice(prefix.length);
  return key.startsWith(prefix) && isTaken(name, columns) ? name : key;
}

/** Whether a column has the name. So that a key means one attribute, one called `properties.level` is no key of its own. */
function isTaken(name: string, { text, number, expressions = {}, listed = [], attributes }: FilterColumns): boolean {
  let column = name;
  while (column.startsWith(`${attributes}.`)) {
    column = column.slice(`${attributes}.`.length);
  }
  return [...text, ...number, ...Object.keys(expressions), ...listed].includes(column);
}

/**
 * All filters at once; of several `=` with one key any may be true. Keys and values are parameters or known names, never
 * text in the SQL.
 * @param audience of the scope; null: all.
 */
export function conditionOf(
  filters: readonly Filter[],
  columns: FilterColumns,
  audience: string | null = null,
): Condition {
  const parts: Condition[] = [...groups(filters).values()].map((group) => anyOf(group, columns));
  if (audience !== null) {
    parts.push({ sql: "audience = ?", parameters: [audience] });
  }
  return {
    sql: parts.length === 0 ? "true" : parts.map(({ sql }) => sql).join(" AND "),
    parameters: parts.flatMap(({ parameters }) => [...parameters]),
  };
}

/** Filters that are alternatives to each other, by what they have in common. */
function groups(filters: readonly Filter[]): ReadonlyMap<string, readonly Filter[]> {
  const found = new Map<string, Filter[]>();
  for (const filter of filters) {
    const name = filter.operator === "=" ? `${filter.key}=` : formatFilter(filter);
    found.set(name, [...(found.get(name) ?? []), filter]);
  }
  return found;
}

function anyOf(filters: readonly Filter[], columns: FilterColumns): Condition {
  const parts = filters.map((filter) => conditionOfOne(filter, columns));
  const sql = parts.map((part) => part.sql).join(" OR ");
  return { sql: parts.length === 1 ? sql : `(${sql})`, parameters: parts.flatMap((part) => [...part.parameters]) };
}

/** The SQL of a name that is neither a column nor an attribute, such as `pattern`; undefined for others. */
export function expressionOf(key: string, columns: FilterColumns): string | undefined {
  // Senders choose the keys of attributes, and `constructor` may be one.
  return Object.hasOwn(columns.expressions ?? {}, key) ? columns.expressions?.[key] : undefined;
}

function conditionOfOne({ key, operator, value }: Filter, columns: FilterColumns): Condition {
  if (columns.number.includes(key)) {
    const number = Number(value);
    if (operator === "exists" || operator === "missing") {
      return { sql: `"${key}" IS ${operator === "exists" ? "NOT " : ""}NULL`, parameters: [] };
    }
    const compared = operator === "~" ? "=" : operator === "!~" ? "!=" : operator;
    return Number.isFinite(number) && value.trim() !== ""
      ? { sql: `"${key}" ${compared} ?`, parameters: [number] }
      : { sql: "false", parameters: [] };
  }
  const expression = expressionOf(key, columns);
  const isColumn = columns.text.includes(key) || expression !== undefined;
  if (!isColumn && columns.attributes === null) {
    return { sql: "false", parameters: [] };
  }
  const name = bound(attributeOf(key, columns));
  const left = expression ?? (isColumn ? `"${key}"` : `attr(${columns.attributes}, ${name.sql})`);
  const before = isColumn ? [] : name.parameters;
  const right = bound(value);
  const both = [...before, ...right.parameters];
  switch (operator) {
    case "exists":
      return { sql: `(${left}) IS NOT NULL`, parameters: before };
    case "missing":
      return { sql: `(${left}) IS NULL`, parameters: before };
    case "=":
      return { sql: `(${left}) = ${right.sql}`, parameters: both };
    case "!=":
      return { sql: `(${left}) IS DISTINCT FROM ${right.sql}`, parameters: both };
    case "~":
      return { sql: `contains(lower(${left}), lower(${right.sql}))`, parameters: both };
    case "!~":
      return { sql: `NOT coalesce(contains(lower(${left}), lower(${right.sql})), false)`, parameters: both };
    case ">":
    case ">=":
    case "<":
    case "<=":
      return isColumn
        ? { sql: `${left} ${operator} ${right.sql}`, parameters: right.parameters }
        : { sql: `TRY_CAST(${left} AS DOUBLE) ${operator} ?`, parameters: [...before, Number(value)] };
  }
}

/** A text for SQL, whose parameters hold no NUL. */
function bound(text: string): Condition {
  const parameters = text.split("\0");
  const sql = parameters.map(() => "?").join(", ");
  return { sql: parameters.length === 1 ? sql : `concat_ws(chr(0), ${sql})`, parameters };
}
