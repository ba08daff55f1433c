import { expect, it } from "vitest";

import { outcomeWords, problemCount } from "./checks.js";

const counts = {
  objects: 7,
  rows: 70,
  missing: 0,
  unreadable: 0,
  wrong_rows: 0,
  wrong_size: 0,
  wrong_checksum: 0,
  orphan: 0,
  lost: 0,
  returned: 0,
  mended: 0,
};
const report = (changes: Partial<typeof counts>) => ({ counts: { ...counts, ...changes }, problems: [], notes: [] });

it("says what came out of a check", () => {
  expect(outcomeWords({ state: "waiting", report: null })).toBeNull();
  expect(outcomeWords({ state: "failed", report: null })).toBe("failed");
  expect(outcomeWords({ state: "done", report: report({}) })).toBe("all is well");
  expect(outcomeWords({ state: "done", report: report({ missing: 1 }) })).toBe("1 problem");
  expect(outcomeWords({ state: "done", report: report({ orphan: 2, lost: 1, mended: 2 }) })).toBe(
    "3 problems, 2 mended",
  );
  expect(problemCount(report({}))).toBe(0);
});
