import { readFile } from "node:fs/promises";
import { expect, it } from "vitest";

import { withOptionsTable } from "../../scripts/readme-options.js";

it("README.md lists every variable as the option table has it (else run: node dist/scripts/readme-options.js)", async () => {
  const text = await readFile(new URL("../../../README.md", import.meta.url), "utf8");
  // The formatter aligns tables; only their content counts.
  const plain = (markdown: string): string =>
    markdown.replaceAll(/ +/g, " ").replaceAll(/-+/g, "-");
  expect(plain(text)).toBe(plain(withOptionsTable(text)));
});
