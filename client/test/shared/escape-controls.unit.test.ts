import { expect, it } from "vitest";

import { escapeControls } from "../../src/shared/escape-controls.js";

it("text of others cannot move the cursor, colour, ring or reorder", () => {
  expect(escapeControls("a\u001b[2J\u0007\r\n\tb\u009b\u202e")).toBe("a\\x1b[2J\\x07\\r\\n\\tb\\x9b\\u202e");
  expect(escapeControls("日本 ok")).toBe("日本 ok");
});
