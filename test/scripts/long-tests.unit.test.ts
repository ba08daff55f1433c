/** `pnpm test:long` has every test that tries more there. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

import { expect, it } from "vitest";

it("pnpm test:long has every test that tries more in it", () => {
  const { scripts } = JSON.parse(readFileSync("package.json", "utf8")) as { scripts: Record<string, string> };
  const [, filters = ""] = scripts["test:long"]?.split(" --project system ") ?? [];
  const tests = readdirSync("test", { recursive: true, encoding: "utf8" })
    .map((name) => join("test", name))
    .filter((file) => file.endsWith(".test.ts") && /helpers\/effort\.js"/u.test(readFileSync(file, "utf8")));
  const found = (filter: string): string[] => tests.filter((file) => file.includes(filter));
  expect(tests.filter((file) => !filters.split(" ").some((filter) => file.includes(filter)))).toEqual([]);
  expect(filters.split(" ").filter((filter) => found(filter).length === 0)).toEqual([]);
});
