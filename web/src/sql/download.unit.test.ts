import { expect, it, vi } from "vitest";

// A page has an address, which is asked for at the start.
vi.stubGlobal("document", { baseURI: "http://localhost/" });
const { jsonLines, toCsv } = await import("./download.js");
const { Column } = await import("../arrow/column.js");

it("writes all of several columns with one name", () => {
  const columns = [1, 2].map((value) => {
    const column = new Column("a", { kind: "int", bits: 32, signed: true });
    vi.spyOn(column, "value").mockReturnValue(value);
    return column;
  });
  expect(jsonLines(columns)(0)).toBe('{"a":1,"a 2":2}');
});

it("writes numbers as they are into CSV, and formulas as text", async () => {
  const values = [-5, -1e300, -Infinity, Number.NaN, "-1+1", "=1", "-Infinity"];
  const column = new Column("a", { kind: "float", bits: 64 });
  vi.spyOn(column, "value").mockImplementation((row) => values[row] ?? null);
  const file = await toCsv({ columns: [column], rows: values.length });
  expect(await file.text()).toBe("a\r\n-5\r\n-1e+300\r\n-Infinity\r\nNaN\r\n'-1+1\r\n'=1\r\n-Infinity\r\n");
});
