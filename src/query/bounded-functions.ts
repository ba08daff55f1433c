/**
 * Functions whose result may be far larger than what they are given. DuckDB builds it outside of its
 * memory limit, in one step that cannot be interrupted: `generate_series` over thirty years of seconds
 * takes 8 GB and the process with it. Macros of the same names stand in front of them and bound the size
 * of one value; `printf`, `format` and `regexp_replace`, for which no
 * macro can be written, are bounded by the gate.
 */

/** Most characters or bytes of one value that a function repeats or pads. */
const maxRepeated = 65_536;
/** Most elements of one list that a function makes up. */
const maxElements = 10_000;
/** Most bytes that a replacement may come to, at its largest. */
const maxReplaced = 1 << 24;

function guarded(condition: string, what: string, call: string): string {
  return `CASE WHEN ${condition} THEN error('${what}') ELSE system.main.${call} END`;
}

function overloads(
  name: string,
  variants: readonly (readonly [parameters: string, condition: string, call: string])[],
  what: string,
): string {
  return `${name}${variants
    .map(([parameters, condition, call]) => `(${parameters}) AS ${guarded(condition, what, call)}`)
    .join(", ")}`;
}

function series(name: string): string {
  const many = `${name} makes lists of at most ${maxElements} elements; use it after FROM`;
  const span = `abs(epoch(b) - epoch(a)) > ${maxElements} * abs(epoch(s))`;
  return overloads(
    name,
    [
      ["n BIGINT", `n > ${maxElements}`, `${name}(n)`],
      ["a BIGINT, b BIGINT", `b - a > ${maxElements}`, `${name}(a, b)`],
      ["a BIGINT, b BIGINT, s BIGINT", `abs((b - a) // s) > ${maxElements}`, `${name}(a, b, s)`],
      ["a TIMESTAMP, b TIMESTAMP, s INTERVAL", span, `${name}(a, b, s)`],
      ["a TIMESTAMPTZ, b TIMESTAMPTZ, s INTERVAL", span, `${name}(a, b, s)`],
    ],
    many,
  );
}

/** Most cells of the table that a distance between two texts fills. */
const maxCells = 1 << 22;
const table = `texts of a distance come to at most ${maxCells} pairs of characters`;
const long = `a value is repeated or padded to at most ${maxRepeated} characters`;
const wide = `a replacement comes to at most ${maxReplaced} bytes`;
const manyElements = `a list is resized to at most ${maxElements} elements`;
const growth = `strlen(s) * strlen(t) > ${maxReplaced}`;

/** Definitions for `CREATE MACRO`. */
export const boundedFunctions: readonly string[] = [
  overloads(
    "repeat",
    [
      [
        "s VARCHAR, n BIGINT",
        `n > ${maxRepeated} OR strlen(s) * n > ${maxRepeated}`,
        "repeat(s, n)",
      ],
      [
        "s BLOB, n BIGINT",
        `n > ${maxRepeated} OR octet_length(s) * n > ${maxRepeated}`,
        "repeat(s, n)",
      ],
    ],
    long,
  ),
  ...["lpad", "rpad"].map((name) =>
    overloads(
      name,
      [["s VARCHAR, n INTEGER, t VARCHAR", `n > ${maxRepeated}`, `${name}(s, n, t)`]],
      long,
    ),
  ),
  overloads("bitstring", [["s VARCHAR, n INTEGER", `n > ${maxRepeated}`, "bitstring(s, n)"]], long),
  ...["list_resize", "array_resize"].map((name) =>
    overloads(
      name,
      [
        ["l, n", `n > ${maxElements}`, `${name}(l, n)`],
        ["l, n, v", `n > ${maxElements}`, `${name}(l, n, v)`],
      ],
      manyElements,
    ),
  ),
  series("range"),
  series("generate_series"),
  // A table of the lengths' product, in memory or in time, which no interrupt reaches.
  ...["damerau_levenshtein", "levenshtein", "editdist3"].map((name) =>
    overloads(
      name,
      [["s VARCHAR, t VARCHAR", `strlen(s) * strlen(t) > ${maxCells}`, `${name}(s, t)`]],
      table,
    ),
  ),
  overloads("replace", [["s VARCHAR, f VARCHAR, t VARCHAR", growth, "replace(s, f, t)"]], wide),
];

/** Functions that make a value of a size that an argument names, and the position of that argument. */
export const makers: Readonly<Record<string, number>> = {
  array_resize: 1,
  bitstring: 1,
  generate_series: 0,
  list_resize: 1,
  lpad: 1,
  range: 0,
  repeat: 1,
  rpad: 1,
};

/** A size that stands in the text and is no larger does not count as made up. */
export const smallSize = 256;

/**
 * Most calls of {@link makers} in a query: a vector has 2048 rows, so each may hold 134 MB, and all columns of
 * a chunk are computed before an interrupt is looked at.
 */
export const maxMakers = 8;

/**
 * What a lambda of `reduce` may call: what it returns is as large as what it is given. The parameters of a
 * lambda themselves are a `row`.
 */
export const reducers: ReadonlySet<string> = new Set(
  "row + - * / // % & | << >> xor add subtract multiply divide mod abs sign round floor ceil least greatest coalesce and or not hash md5 pow power sqrt ln log exp bit_count epoch epoch_ms epoch_ns length strlen len".split(
    " ",
  ),
);

/** Arguments, by position, that must stand in the text as constants for the gate to bound them. */
export const constantArguments: Readonly<Record<string, number>> = {
  format: 0,
  printf: 0,
  // A macro cannot stand in front of it: its options must be constant, too.
  regexp_replace: 2,
};

/** Longest replacement of `regexp_replace` in UTF-16 code units. */
export const maxReplacement = 256;

/** Whether a format asks for a width of more than three digits, or takes one from an argument. */
export function isUnboundedFormat(format: string): boolean {
  return /\d{4}|%[^a-z%]*\*|\{[^}]*\{/iu.test(format.replaceAll("{{", ""));
}
