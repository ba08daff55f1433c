import { pino } from "pino";
import { expect, test } from "vitest";

import { createRareWarning } from "../../src/runtime/log/rare-warnings.js";

test("one line a minute of each kind, and how many were left out", () => {
  const lines: unknown[] = [];
  const logger = pino({}, { write: (line: string) => lines.push(JSON.parse(line)) });
  let nowMs = 0;
  const warn = createRareWarning(logger, () => nowMs);
  for (let i = 0; i < 200; i++) {
    warn("one", { i }, "it failed");
    warn("other", { i }, "it failed");
  }
  expect(lines).toMatchObject([
    { msg: "it failed", i: 0, unwritten: 0 },
    { msg: "it failed", i: 0, unwritten: 0 },
  ]);
  nowMs = 60_000;
  warn("one", { i: 200 }, "it failed");
  expect(lines[2]).toMatchObject({ level: 40, i: 200, unwritten: 199 });
  expect(lines).toHaveLength(3);
});
