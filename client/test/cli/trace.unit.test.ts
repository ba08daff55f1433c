import { describe, expect, it } from "vitest";

import { type TraceSpan, spansJson, waterfall } from "../../src/cli/trace-command.js";

const ms = 1_000_000n;
const span = (id: string, depth: number, beginMs: number, durationMs: number, over = {}): TraceSpan => ({
  id,
  depth,
  parentId: null,
  name: id,
  service: "shop",
  begin: 1_700_000_000_000_000_000n + BigInt(beginMs) * ms,
  durationNs: BigInt(durationMs) * ms,
  failed: false,
  ...over,
});

/** Names with their depths, and where their bars begin and end. */
function shape(text: string): string[] {
  return text
    .split("\n")
    .slice(0, -2)
    .map((line) => `${/^ */u.exec(line)?.[0].length ?? 0} ${line.trim().split(" ")[0] ?? ""}`);
}

describe("a waterfall", () => {
  it("puts children under their parents, with bars in the time of the trace", () => {
    const text = waterfall(
      [span("root", 0, 0, 100), span("late", 1, 50, 50), span("early", 1, 0, 25), span("deep", 2, 0, 5)],
      90,
      false,
    );
    expect(shape(text)).toEqual(["0 root", "2 late", "2 early", "4 deep"]);
    const bars = text.split("\n").map((line) => line.slice(-30).trimEnd());
    expect(bars[0]).toMatch(/█{30}$/u);
    expect(text.split("\n")[1]?.match(/█/gu)).toHaveLength(15);
    expect(text.split("\n").at(-2)).toBe("4 spans of 1 services, 100 ms");
  });

  it("marks failures, escapes names, and stands a clock that went back", () => {
    const text = waterfall([span("x", 0, 0, -5, { name: "red \u001b[31m", failed: true })], 90, false);
    expect(text).toContain(String.raw`red \x1b[31m ✗`);
    expect(text).toContain("-5.00 ms");
    expect(text).toContain("1 failed");
  });

  it("takes a hundred thousand spans in one chain", () => {
    const spans = Array.from({ length: 100_000 }, (_, i) => span(`s${i}`, i, i, 1));
    expect(
      waterfall(
        spans.map((one) => ({ ...one, name: "n" })),
        90,
        false,
      ),
    ).toContain("100000 spans");
  });
});

it("the JSON of a trace keeps every digit, and steers no terminal", () => {
  const long = { ...span("long\u009b", 0, 0, 0), durationNs: 9_007_199_254_740_993n };
  const json = spansJson([long, span("short", 1, 0, 1, { parentId: "long" })]);
  expect(json).toContain('"durationNs":9007199254740993');
  expect(json).toContain(String.raw`"id":"long\u009b"`);
  expect(JSON.parse(json)).toMatchObject([
    { id: "long\u009b", parentId: null, begin: "1700000000000000000", failed: false },
    { id: "short", parentId: "long", durationNs: 1_000_000 },
  ]);
});
