import { expect, it } from "vitest";

import { escapeControls, escapeControlsOfJson } from "../../src/shared/escape-controls.js";

it("text of others cannot move the cursor, colour, ring or reorder", () => {
  expect(escapeControls("a\u001b[2J\u0007\r\n\tb\u009b\u202e\u061c")).toBe(
    "a\\x1b[2J\\x07\\r\\n\\tb\\x9b\\u202e\\u61c",
  );
  expect(escapeControls("日本 ok")).toBe("日本 ok");
});

it("the same in JSON, which stays the same value", () => {
  const value = { "\u009bname": ["\u001b[2J", "\u007f\u0085\u009b31m", "\u202e\u061c\u2028", "日本 \n"] };
  for (const json of [JSON.stringify(value), JSON.stringify(value, null, 2)]) {
    const escaped = escapeControlsOfJson(json);
    expect(escaped).toMatch(/^[\n\x20-\x7e日本]*$/u);
    expect(JSON.parse(escaped)).toEqual(value);
  }
});
