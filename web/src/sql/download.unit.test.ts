import { expect, it, vi } from "vitest";

// A page has an address, which is asked for at the start.
vi.stubGlobal("document", { baseURI: "http://localhost/" });
const { jsonLines } = await import("./download.js");
const { Column } = await import("../arrow/column.js");

it("writes all of several columns with one name", () => {
  const columns = [1, 2].map((value) => {
    const column = new Column("a", { kind: "int", bits: 32, signed: true });
    vi.spyOn(column, "value").mockReturnValue(value);
    return column;
  });
  expect(jsonLines(columns)(0)).toBe('{"a":1,"a 2":2}');
});
