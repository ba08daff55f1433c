import { readFile } from "node:fs/promises";
import { expect, it } from "vitest";

import { optionsDocument, optionsText } from "../../scripts/write-options.js";

it("docs/options.md is the option table (else run: node dist/scripts/write-options.js)", async () => {
  expect(await readFile(optionsDocument, "utf8")).toBe(optionsText());
});
