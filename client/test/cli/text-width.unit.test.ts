import { describe, expect, it } from "vitest";

import { textWidth, truncate } from "../../src/cli/formats/text-width.js";

describe("text on a terminal", () => {
  it.each([
    ["abc", 3],
    ["", 0],
    ["é", 1],
    ["e\u0301", 1],
    ["日本語", 6],
    ["👩‍👩‍👧", 2],
    ["한글", 4],
    ["a\u200bb", 2],
  ])("%j takes %i columns", (text, columns) => {
    expect(textWidth(text)).toBe(columns);
  });

  it("is cut between characters, never within a wide one", () => {
    expect(truncate("abcdef", 4)).toBe("abc…");
    expect(truncate("日本語", 4)).toBe("日…");
    expect(truncate("abc", 3)).toBe("abc");
  });
});
