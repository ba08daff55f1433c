/**
 * Texts of plans. DuckDB draws boxes, and wraps long values in them. In an analyzed plan that would hide a path of this
 * machine from the scrubber; its JSON has whole values, and is formatted here.
 */
import type { Scrubber } from "./scrub.js";
import { isTree, type Tree, type TreeValue, textOf, treeOf, treesOf } from "../gate/syntax-tree.js";

/**
 * What DuckDB says of an operator and a caller is not told: where the files are, and its own numbers of tables, which
 * depend on the names of files.
 */
const withheld = /^(?:filename|(?:table|cte) index)/iu;

/** The same in a box. */
const numbersInBoxes = /(?:Table|CTE) Index: \d+/gu;

/** A plan in the boxes that DuckDB draws, without what {@link withheld} says. */
export function drawnPlan(text: string, scrub: Scrubber): string {
  return scrub(text).replaceAll(numbersInBoxes, (one) => " ".repeat(one.length));
}

/**
 * An analyzed plan, one operator a line with what is known about it below, its inputs indented further.
 * @param json what `EXPLAIN (ANALYZE, FORMAT JSON)` returned
 */
export function analyzedPlan(json: string, scrub: Scrubber): string {
  const plan: unknown = JSON.parse(json);
  if (!isTree(plan)) {
    throw new TypeError("an analyzed plan is not an object");
  }
  // DuckDB measures no plan that takes numbers of rows from the files alone.
  if (plan["latency"] === undefined) {
    return "Nothing was measured: how many rows there are was known without reading them.";
  }
  const lines = [`Total Time: ${seconds(plan["latency"])}`];
  for (const child of treesOf(plan, "children")) {
    write(lines, child, 0, scrub);
  }
  return lines.join("\n");
}

function write(lines: string[], node: Tree, depth: number, scrub: Scrubber): void {
  const indent = "  ".repeat(depth);
  const rows = node["operator_cardinality"];
  const name = textOf(node, "operator_name").trim();
  lines.push(`${indent}${name} (${typeof rows === "number" ? rows : "?"} rows, ${seconds(node["operator_timing"])})`);
  const details = treeOf(node, "extra_info") ?? {};
  for (const [key, value] of Object.entries(details)) {
    if (withheld.test(key) || value === undefined || value === "") {
      continue;
    }
    const text = Array.isArray(value) ? value.map(plain).join(", ") : plain(value);
    lines.push(`${indent}  ${key}: ${scrub(text)}`);
  }
  for (const child of treesOf(node, "children")) {
    write(lines, child, depth + 1, scrub);
  }
}

function plain(value: TreeValue): string {
  return typeof value === "string" ? value : JSON.stringify(value);
}

function seconds(value: Tree[string]): string {
  return `${typeof value === "number" ? value.toFixed(4) : "?"}s`;
}
