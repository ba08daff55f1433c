import { readFile } from "node:fs/promises";
import { expect, it } from "vitest";

import { apiTypesFile, apiTypesText } from "../../scripts/write-api-types.js";

it("web/src/api/wire.ts is the schemas of the API (else run: node dist/scripts/write-api-types.js)", async () => {
  expect(await readFile(apiTypesFile, "utf8")).toBe(apiTypesText());
});
