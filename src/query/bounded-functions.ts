/**
 * Functions whose result may be far larger than what they are given. DuckDB builds it outside of its
 * memory limit, in one step that cannot be interrupted: `generate_series` over thirty years of seconds
 * takes 8 GB and the process with it. Macros of the same names stand in front of them and bound the size
 * of one value. A macro copies its arguments wherever it names them, so the gate bounds how many of them a query
 * calls (bounded-arguments.ts).
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

/** Most cells of the table that a distance between two texts fills: 2048 such are a step of a second. */
const maxCells = 1 << 16;
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
  ...["jaro_similarity", "jaro_winkler_similarity"].map((name) =>
    overloads(
      name,
      [
        ["s VARCHAR, t VARCHAR", `strlen(s) * strlen(t) > ${maxCells}`, `${name}(s, t)`],
        [
          "s VARCHAR, t VARCHAR, c DOUBLE",
          `strlen(s) * strlen(t) > ${maxCells}`,
          `${name}(s, t, c)`,
        ],
      ],
      table,
    ),
  ),
  overloads("replace", [["s VARCHAR, f VARCHAR, t VARCHAR", growth, "replace(s, f, t)"]], wide),
];
