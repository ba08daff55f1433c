import { readFileSync } from "node:fs";

import { expect, it } from "vitest";

import { functions } from "./functions.js";

it("has every function that docs/sql.md lists for callers", () => {
  const text = readFileSync(new URL("../../../docs/sql.md", import.meta.url), "utf8");
  const [rows = ""] = /\| `attr\(properties[^]+?\n\n/.exec(text) ?? [];
  const documented = [...rows.matchAll(/^\| `(\w+)\(/gm)].map(([, name]) => name);
  // Names that DuckDB has for what others say shorter.
  const others = ["get_current_timestamp", "to_timestamp", "current_database"];
  const offered = functions.map(({ label }) => label);
  expect(documented.length).toBeGreaterThan(20);
  expect(documented.filter((name) => name !== undefined && ![...offered, ...others].includes(name))).toEqual([]);
});
