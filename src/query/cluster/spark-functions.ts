/**
 * DuckDB's functions in Spark SQL. A function that is not here runs on this machine only, as does one whose arguments
 * are of other types: the meaning of the translation is known for these. docs/cluster.md says how results may differ.
 */
import { isPlainAttribute } from "../../lake/tables/attributes.js";
import {
  commonType,
  type Expression,
  floored,
  isInteger,
  isNumber,
  LocalOnly,
  sparkLong,
  sparkText,
  type SqlType,
  withoutMixture,
} from "./spark-types.js";
import { intervalNs, timeNs, unitNs } from "./spark-constants.js";

/** What a call becomes. */
interface Translated {
  readonly sql: string;
  readonly type: SqlType;
  /** Rows that the aggregate leaves out, beside those of its own FILTER. */
  readonly where?: string;
}

/** One function. */
interface FunctionRule {
  readonly kind: "scalar" | "aggregate" | "window";
  /** Null: not with these arguments. */
  readonly translate: (args: readonly Expression[], nowNs: bigint) => Translated | null;
}

type Argument = "number" | "integer" | "text" | "time" | "bool" | "any" | "key";

function accepts(argument: Argument, { type, interval }: Expression): boolean {
  if (interval !== undefined || type === "foreign") {
    return false;
  }
  switch (argument) {
    case "any":
      return true;
    case "number":
      return isNumber(type) || type === "null";
    case "integer":
      return isInteger(type);
    // What is compared with others of its kind.
    case "key":
      return type !== "null";
    case "text":
    case "time":
    case "bool":
      return type === argument || type === "null";
  }
}

type Result = SqlType | "same";

/** A rule of one form: `$1`, `$2` are the arguments. */
function form(kind: FunctionRule["kind"], takes: readonly Argument[], result: Result, template: string): FunctionRule {
  return {
    kind,
    translate: (args) => {
      if (args.length !== takes.length || !takes.every((take, i) => args[i] !== undefined && accepts(take, args[i]))) {
        return null;
      }
      const sql = template.replaceAll(/\$(\d)/gu, (_, place: string) => args[Number(place) - 1]?.sql ?? "");
      return { sql, type: result === "same" ? (args[0]?.type ?? "null") : result };
    },
  };
}

const scalar = (takes: readonly Argument[], result: Result, template: string) =>
  form("scalar", takes, result, template);
const aggregate = (takes: readonly Argument[], result: Result, template: string) =>
  form("aggregate", takes, result, template);
const window = (template: string) => form("window", [], "long", template);

function own(kind: FunctionRule["kind"], translate: FunctionRule["translate"]): FunctionRule {
  return { kind, translate };
}

/** Several numbers or texts or times, as one type. */
function alike(args: readonly Expression[]): SqlType {
  return args.reduce<SqlType>((type, arg) => {
    if (arg.interval !== undefined || arg.type === "foreign") {
      throw new LocalOnly("a value of a type that the cluster does not have");
    }
    return commonType(type, arg.type);
  }, "null");
}

const plus = (operator: "+" | "-"): FunctionRule =>
  own("scalar", ([a, b], _now) => {
    if (a === undefined) {
      return null;
    }
    if (b === undefined) {
      return operator === "-" && isNumber(a.type) ? { sql: `(- ${a.sql})`, type: a.type } : null;
    }
    if (a.type === "time" && b.interval !== undefined) {
      return { sql: `(${micros(a)} ${operator} ${sparkLong(b.interval)})`, type: "time" };
    }
    if (operator === "+" && a.interval !== undefined && b.type === "time") {
      return { sql: `(${micros(b)} + ${sparkLong(a.interval)})`, type: "time" };
    }
    return arithmetic(a, b, operator);
  });

/** A time and a length of time are a TIMESTAMP, which has microseconds. */
function micros({ sql }: Expression): string {
  return floored(sql, 1000n);
}

/** 32 bits are computed in 64, and cut at the end: DuckDB would fail in between. */
function arithmetic(a: Expression, b: Expression, operator: string): Translated | null {
  if (a.interval !== undefined || b.interval !== undefined || !isNumber(a.type) || !isNumber(b.type)) {
    return null;
  }
  const type = commonType(a.type, b.type);
  const wide = ({ sql, type: own }: Expression): string => (own === "int" ? `CAST(${sql} AS BIGINT)` : sql);
  const sides = withoutMixture([a, b]).map(wide);
  return { sql: `(${sides.join(` ${operator} `)})`, type: type === "int" ? "long" : type };
}

const likeRule = (not: string, operator: string): FunctionRule =>
  own("scalar", ([a, b]) => {
    if (a?.type !== "text" || b?.text === undefined) {
      return null;
    }
    // Without ESCAPE nothing escapes in DuckDB; a backslash does in Spark.
    return { sql: `(${a.sql} ${not}${operator} ${sparkText(b.text.replaceAll("\\", "\\\\"))})`, type: "bool" };
  });

/**
 * Patterns that RE2, Java and Rust read alike; Java's `$` and `.` look at more kinds of line ends than RE2's. `\<` is the
 * beginning of a word in Rust, and a character elsewhere; so is `{,5}` how often something comes, or five characters.
 */
function plainPattern({ text }: Expression): string {
  if (text === undefined || /\\[A-Za-z0-9<>]|\{,|\(\?|\[\[|\[[^\]]*\[|&&|~~|--/u.test(text)) {
    throw new LocalOnly("a regular expression that others may read in another way");
  }
  const alike: Readonly<Record<string, string>> = { $: "\\z", ".": "[^\\n]" };
  return sparkText(text.replaceAll(/\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|[$.]/gsu, (token) => alike[token] ?? token));
}

const bin = (defaultOrigin: bigint): FunctionRule =>
  own("scalar", ([width, time, origin]) => {
    if (width === undefined || time?.type !== "time" || (origin !== undefined && origin.text === undefined)) {
      return null;
    }
    const ns = width.interval ?? (width.text === undefined ? null : intervalNs(width.text));
    if (ns === null || ns <= 0n) {
      return null;
    }
    const from = origin?.text === undefined ? defaultOrigin : timeNs(origin.text);
    const rest = ((from % ns) + ns) % ns;
    const since = rest === 0n ? time.sql : `(${time.sql} - ${sparkLong(rest)})`;
    return { sql: `(${time.sql} - pmod(${since}, ${sparkLong(ns)}))`, type: "time" };
  });

const mondayNs = 4n * 86_400n * 1_000_000_000n;

const truncate: FunctionRule = own("scalar", ([part, time]) => {
  if (part?.text === undefined || time?.type !== "time") {
    return null;
  }
  const ns = unitNs(part.text);
  const since = part.text.toLowerCase().startsWith("week") ? `(${time.sql} - ${sparkLong(mondayNs)})` : time.sql;
  return { sql: `(${time.sql} - pmod(${since}, ${sparkLong(ns)}))`, type: "time" };
});

const now: FunctionRule = own("scalar", (args, nowNs) =>
  args.length === 0 ? { sql: sparkLong(nowNs), type: "time" } : null,
);

function jsonField(properties: Expression | undefined, name: string | undefined): string | null {
  return properties?.type === "text" && name !== undefined && isPlainAttribute(name)
    ? `get_json_object(${properties.sql}, ${sparkText(`$['${name}']`)})`
    : null;
}

const attribute: FunctionRule = own("scalar", ([properties, name]) => {
  const sql = jsonField(properties, name?.text);
  return sql === null ? null : { sql, type: "text" };
});

const arrow: FunctionRule = own("scalar", ([json, path]) => {
  const key = path?.text === undefined ? undefined : path.text.replace(/^\$\./u, "");
  // A dot in a path steps into an object; elsewhere it is part of a name.
  const sql = path?.text?.startsWith("$.") === true && key?.includes(".") === true ? null : jsonField(json, key);
  return sql === null ? null : { sql, type: "text" };
});

const typed = {
  int: (text: string) => `try_cast(regexp_extract(${text}, '^([+-]?[0-9]+)([.]0*)?\\\\z', 1) AS BIGINT)`,
  // White space around it, and the words in any case, are DuckDB's.
  double: (text: string) =>
    `try_cast(regexp_extract(${text}, '^[\t-\r ]*([+-]?[0-9.]+([eE][+-]?[0-9]+)?|[Nn][Aa][Nn]|[+-]?[Ii][Nn][Ff]([Ii][Nn][Ii][Tt][Yy])?)[\t-\r ]*$', 1) AS DOUBLE)`,
  bool: (text: string) =>
    `CASE WHEN lower(${text}) IN ('true', 't', '1', 'yes', 'y') THEN true WHEN lower(${text}) IN ('false', 'f', '0', 'no', 'n') THEN false END`,
} as const;
const typedResults = { int: "long", double: "double", bool: "bool" } as const;

const typedAttribute = (type: keyof typeof typed): FunctionRule =>
  own("scalar", ([properties, name]) => {
    const sql = jsonField(properties, name?.text);
    return sql === null ? null : { sql: typed[type](sql), type: typedResults[type] };
  });

const ofText = (type: keyof typeof typed): FunctionRule =>
  own("scalar", ([text]) => (text?.type === "text" ? { sql: typed[type](text.sql), type: typedResults[type] } : null));

const extremum = (name: string): FunctionRule =>
  own("scalar", (args) => {
    const type = alike(args);
    return args.length < 2 || type === "decimal"
      ? null
      : {
          sql: `${name}(${withoutMixture(args)
            .map(({ sql }) => sql)
            .join(", ")})`,
          type,
        };
  });

const sum: FunctionRule = own("aggregate", ([value, ...more]) => {
  if (value === undefined || more.length > 0) {
    return null;
  }
  const { type } = value;
  if (type === "bool" || type === "int") {
    return { sql: `sum(CAST(${value.sql} AS BIGINT))`, type: "long" };
  }
  if (type === "long") {
    // DuckDB adds up in 128 bits and fails when the end does not fit into 64.
    return { sql: `CAST(sum(CAST(${value.sql} AS DECIMAL(20,0))) AS BIGINT)`, type: "long" };
  }
  return type === "double" ? { sql: `sum(${value.sql})`, type } : null;
});

const best = (name: string): FunctionRule =>
  own("aggregate", ([value, by, ...more]) =>
    value === undefined || by === undefined || more.length > 0 || !accepts("any", value) || !accepts("key", by)
      ? null
      : { sql: `${name}(${value.sql}, ${by.sql})`, type: value.type, where: `${value.sql} IS NOT NULL` },
  );

const quantile = (name: string, result: "double" | "same"): FunctionRule =>
  own("aggregate", ([value, share, ...more]) => {
    // A number that is written out: `0`, `1`, or a decimal or a double between them.
    const q = /^(?:CAST\(')?(?<q>0(?:\.\d+)?|1(?:\.0+)?)(?:' AS [A-Z0-9(,)]+\))?$/u.exec(share?.sql ?? "")?.groups?.[
      "q"
    ];
    if (
      value === undefined ||
      !isNumber(value.type) ||
      value.type === "decimal" ||
      q === undefined ||
      more.length > 0
    ) {
      return null;
    }
    const type = result === "same" && isInteger(value.type) ? "long" : "double";
    const sql = `${name}(${value.sql}, ${q})`;
    return { sql: type === "long" ? `CAST(rint(${sql}) AS BIGINT)` : sql, type };
  });

const position = scalar(["text", "text"], "long", "CAST(instr($1, $2) AS BIGINT)");
const length = scalar(["text"], "long", "CAST(char_length($1) AS BIGINT)");
/** Spark rounds to BIGINT. From 2^53 on a DOUBLE is whole; NaN is above all. */
const rounded = (name: string, sql: string): string =>
  `CASE WHEN abs(${sql}) < 9000000000000000D THEN CAST(${name}(${sql}) AS DOUBLE) ELSE ${sql} END`;
const ceiling = (name: string): FunctionRule =>
  own("scalar", ([value, ...more]) =>
    value === undefined || more.length > 0 || (value.type !== "double" && !isInteger(value.type))
      ? null
      : { sql: isInteger(value.type) ? value.sql : rounded(name, value.sql), type: value.type },
  );
const deviation = (name: string): FunctionRule => aggregate(["number"], "double", `${name}(CAST($1 AS DOUBLE))`);
const part = (ns: bigint, within: bigint): FunctionRule =>
  scalar(["time"], "long", `(pmod($1, ${sparkLong(within)}) DIV ${sparkLong(ns)})`);

/** DuckDB takes away all that Unicode has for spaces (its category Zs), Spark the one of ASCII alone. */
const trimmed = (side: "BOTH" | "LEADING" | "TRAILING"): FunctionRule =>
  scalar(["text"], "text", `trim(${side} ${sparkText(unicodeSpaces)} FROM $1)`);
const unicodeSpaces =
  " \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000";

const any = aggregate(["key"], "same", "min($1)");
/** As a sum: null where there is nothing to count, as in DuckDB. Spark's own is zero there. */
const countIf = aggregate(["bool"], "long", "sum(CAST($1 AS BIGINT))");
const mean = own("aggregate", ([value, ...more]) =>
  value !== undefined && more.length === 0 && isNumber(value.type) && value.type !== "decimal"
    ? { sql: `avg(${value.type === "double" ? value.sql : `CAST(${value.sql} AS DOUBLE)`})`, type: "double" }
    : null,
);
const smallest = (name: string): FunctionRule => aggregate(["key"], "same", `${name}($1)`);
const epochSeconds = scalar(["time"], "double", `(CAST(${floored("$1", 1000n)} DIV 1000L AS DOUBLE) / 1000000D)`);
const secondNs = 1_000_000_000n;

/** Rules by the name of the function, in lower case. */
export const sparkFunctions: Readonly<Record<string, FunctionRule>> = {
  "+": plus("+"),
  "-": plus("-"),
  "*": own("scalar", ([a, b]) => (a === undefined || b === undefined ? null : arithmetic(a, b, "*"))),
  "/": own("scalar", ([a, b]) =>
    a === undefined || b === undefined || !isNumber(a.type) || !isNumber(b.type)
      ? null
      : { sql: quotient(a, b), type: "double" },
  ),
  "//": own("scalar", ([a, b]) =>
    a !== undefined && b !== undefined && isInteger(a.type) && isInteger(b.type)
      ? { sql: `(${a.sql} DIV nullif(${b.sql}, 0))`, type: "long" }
      : null,
  ),
  "%": own("scalar", ([a, b]) =>
    a !== undefined && b !== undefined && isInteger(a.type) && isInteger(b.type)
      ? { sql: `(${a.sql} % nullif(${b.sql}, 0))`, type: commonType(a.type, b.type) }
      : null,
  ),
  "||": scalar(["text", "text"], "text", "($1 || $2)"),
  "&": scalar(["integer", "integer"], "long", "(CAST($1 AS BIGINT) & CAST($2 AS BIGINT))"),
  "~~": likeRule("", "LIKE"),
  "!~~": likeRule("NOT ", "LIKE"),
  "~~*": likeRule("", "ILIKE"),
  "!~~*": likeRule("NOT ", "ILIKE"),
  "->>": arrow,
  abs: scalar(["number"], "same", "abs($1)"),
  ago: own("scalar", ([distance], nowNs) => {
    const ns = distance?.interval ?? (distance?.text === undefined ? null : intervalNs(distance.text));
    return ns === null ? null : { sql: sparkLong(nowNs - ns), type: "time" };
  }),
  any_value: any,
  approx_count_distinct: aggregate(["key"], "long", "approx_count_distinct($1)"),
  approx_quantile: quantile("percentile_approx", "same"),
  arbitrary: any,
  arg_max: best("max_by"),
  arg_min: best("min_by"),
  attr: attribute,
  attr_bool: typedAttribute("bool"),
  attr_double: typedAttribute("double"),
  attr_int: typedAttribute("int"),
  avg: mean,
  bool_and: aggregate(["bool"], "bool", "bool_and($1)"),
  bool_or: aggregate(["bool"], "bool", "bool_or($1)"),
  ceil: ceiling("ceil"),
  ceiling: ceiling("ceil"),
  char_length: length,
  character_length: length,
  contains: scalar(["text", "text"], "bool", "contains($1, $2)"),
  count: own("aggregate", (args) => {
    const [value] = args;
    return value === undefined
      ? { sql: "count(1)", type: "long" }
      : args.length === 1 && value.interval === undefined
        ? { sql: `count(${value.sql})`, type: "long" }
        : null;
  }),
  count_if: countIf,
  count_star: aggregate([], "long", "count(1)"),
  countif: countIf,
  date_bin: bin(0n),
  date_trunc: truncate,
  datetrunc: truncate,
  dense_rank: window("dense_rank()"),
  ends_with: scalar(["text", "text"], "bool", "endswith($1, $2)"),
  epoch: epochSeconds,
  epoch_ms: scalar(["time"], "long", `(${floored("$1", 1_000_000n)} DIV 1000000L)`),
  epoch_ns: scalar(["time"], "long", "$1"),
  epoch_us: scalar(["time"], "long", `(${floored("$1", 1000n)} DIV 1000L)`),
  exp: scalar(["number"], "double", "exp(CAST($1 AS DOUBLE))"),
  floor: ceiling("floor"),
  fsum: aggregate(["number"], "double", "sum(CAST($1 AS DOUBLE))"),
  get_current_timestamp: now,
  greatest: extremum("greatest"),
  hour: part(3600n * secondNs, 86_400n * secondNs),
  instr: position,
  isfinite: scalar(["number"], "bool", "(abs(CAST($1 AS DOUBLE)) < double('infinity'))"),
  isnan: scalar(["number"], "bool", "isnan(CAST($1 AS DOUBLE))"),
  lag: offset("lag"),
  lcase: scalar(["text"], "text", "lower($1)"),
  lead: offset("lead"),
  least: extremum("least"),
  left: own("scalar", ([text, n]) =>
    text?.type === "text" && n?.integer !== undefined && n.integer >= 0n
      ? { sql: `left(${text.sql}, ${n.sql})`, type: "text" }
      : null,
  ),
  length,
  ln: scalar(["number"], "double", "ln(CAST($1 AS DOUBLE))"),
  lower: scalar(["text"], "text", "lower($1)"),
  ltrim: trimmed("LEADING"),
  make_timestamp_ns: own("scalar", ([ns]) =>
    ns !== undefined && isInteger(ns.type) ? { sql: `CAST(${ns.sql} AS BIGINT)`, type: "time" } : null,
  ),
  max: smallest("max"),
  max_by: best("max_by"),
  mean,
  median: own("aggregate", ([value, ...more]) =>
    value !== undefined && more.length === 0 && isNumber(value.type) && value.type !== "decimal"
      ? { sql: `percentile(${value.sql}, 0.5)`, type: "double" }
      : null,
  ),
  min: smallest("min"),
  min_by: best("min_by"),
  minute: part(60n * secondNs, 3600n * secondNs),
  now,
  nullif: own("scalar", (args) => {
    const [a, b] = args;
    return a === undefined || b === undefined || args.length !== 2 || alike(args) === "null"
      ? null
      : { sql: nullIf(a, b), type: a.type };
  }),
  position,
  pow: scalar(["number", "number"], "double", "pow(CAST($1 AS DOUBLE), CAST($2 AS DOUBLE))"),
  power: scalar(["number", "number"], "double", "pow(CAST($1 AS DOUBLE), CAST($2 AS DOUBLE))"),
  prefix: scalar(["text", "text"], "bool", "startswith($1, $2)"),
  property_get: attribute,
  quantile_cont: quantile("percentile", "double"),
  rank: window("rank()"),
  rank_dense: window("dense_rank()"),
  regexp_extract: own("scalar", ([text, pattern, group]) =>
    text?.type !== "text" || pattern === undefined || (group !== undefined && group.integer === undefined)
      ? null
      : { sql: `regexp_extract(${text.sql}, ${plainPattern(pattern)}, ${group?.sql ?? "0"})`, type: "text" },
  ),
  regexp_matches: own("scalar", (args) => {
    const [text, pattern] = args;
    return text?.type !== "text" || pattern === undefined || args.length !== 2
      ? null
      : { sql: `(${text.sql} RLIKE ${plainPattern(pattern)})`, type: "bool" };
  }),
  replace: own("scalar", ([text, from, to]) =>
    text?.type !== "text" || from?.text === undefined || from.text === "" || to?.type !== "text"
      ? null
      : { sql: `replace(${text.sql}, ${from.sql}, ${to.sql})`, type: "text" },
  ),
  round: own("scalar", ([value, digits]) => {
    if (value === undefined || (value.type !== "double" && !isInteger(value.type))) {
      return null;
    }
    if (isInteger(value.type)) {
      return digits === undefined ? { sql: value.sql, type: value.type } : null;
    }
    const n = digits === undefined ? 0n : digits.integer;
    return n === undefined || n < 0n || n > 15n ? null : { sql: `round(${value.sql}, ${n})`, type: "double" };
  }),
  row_number: window("row_number()"),
  rtrim: trimmed("TRAILING"),
  second: part(secondNs, 60n * secondNs),
  split_part: own("scalar", ([text, separator, n]) =>
    text?.type !== "text" ||
    separator?.text === undefined ||
    separator.text === "" ||
    n?.integer === undefined ||
    n.integer < 1n
      ? null
      : { sql: `split_part(${text.sql}, ${separator.sql}, ${n.sql})`, type: "text" },
  ),
  sqrt: scalar(["number"], "double", "sqrt(CAST($1 AS DOUBLE))"),
  starts_with: scalar(["text", "text"], "bool", "startswith($1, $2)"),
  stddev: deviation("stddev_samp"),
  stddev_pop: deviation("stddev_pop"),
  stddev_samp: deviation("stddev_samp"),
  strlen: scalar(["text"], "long", "CAST(octet_length($1) AS BIGINT)"),
  strpos: position,
  substr: substring(),
  substring: substring(),
  suffix: scalar(["text", "text"], "bool", "endswith($1, $2)"),
  sum,
  svc_bool_of_text: ofText("bool"),
  svc_double_of_text: ofText("double"),
  svc_int_of_text: ofText("int"),
  // From a Monday, the third of January 2000.
  time_bucket: bin(946_857_600n * secondNs),
  transaction_timestamp: now,
  trim: trimmed("BOTH"),
  ucase: scalar(["text"], "text", "upper($1)"),
  upper: scalar(["text"], "text", "upper($1)"),
  var_pop: deviation("var_pop"),
  var_samp: deviation("var_samp"),
  variance: deviation("var_samp"),
};

/** By zero it is infinite in DuckDB, or no number, and an error in Spark. */
function quotient(a: Expression, b: Expression): string {
  const [x, y] = [`CAST(${a.sql} AS DOUBLE)`, `CAST(${b.sql} AS DOUBLE)`];
  if (b.integer !== undefined && b.integer !== 0n) {
    return `(${x} / ${y})`;
  }
  // NaN is above all numbers.
  const ofZero = `CASE WHEN isnan(${x}) THEN double('NaN') WHEN ${x} > 0D THEN double('infinity') WHEN ${x} < 0D THEN double('-infinity') WHEN ${x} = 0D THEN double('NaN') END`;
  return `(CASE WHEN ${y} = 0D THEN ${ofZero} ELSE ${x} / nullif(${y}, 0D) END)`;
}

/** Not by Sail's own, for which a zero below zero is another value than zero. */
function nullIf(a: Expression, b: Expression): string {
  const equal = withoutMixture([a, b]).map(({ sql }) => sql);
  return `(CASE WHEN ${equal.join(" = ")} THEN NULL ELSE ${a.sql} END)`;
}

function offset(name: string): FunctionRule {
  return own("window", ([value, by, absent]) =>
    value === undefined ||
    !accepts("any", value) ||
    (by !== undefined && by.integer === undefined) ||
    absent !== undefined
      ? null
      : {
          sql: `${name}(${[value, ...(by === undefined ? [] : [by])].map(({ sql }) => sql).join(", ")})`,
          type: value.type,
        },
  );
}

function substring(): FunctionRule {
  return own("scalar", ([text, from, count]) =>
    text?.type !== "text" ||
    from?.integer === undefined ||
    from.integer < 1n ||
    (count !== undefined && (count.integer === undefined || count.integer < 0n))
      ? null
      : {
          sql: `substring(${[text, from, ...(count === undefined ? [] : [count])].map(({ sql }) => sql).join(", ")})`,
          type: "text",
        },
  );
}
