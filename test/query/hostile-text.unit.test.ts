/** Text that is made to keep a pattern busy: each of these took the thread from others for minutes. */
import { expect, it } from "vitest";

import { createScrubber, queryError } from "../../src/query/backend/scrub.js";
import { dropSchemas } from "../../src/query/gate/given-names.js";
import { checkText, splitText } from "../../src/query/gate/query-text.js";

const megabyte = 1 << 20;
const filled = (part: string): string => part.repeat(megabyte / part.length);
const scrub = createScrubber(["/data/lake"]);

it.each([
  ["no", "plan", "EXPLAIN"],
  ["ANALYZE behind comments", "analyze", "EXPLAIN /* of */ -- all\n ANALYZE"],
])("takes EXPLAIN off that stands behind thousands of comments: %s", (_, explain, words) => {
  const before = "/* a */ -- b\n".repeat(5000);
  expect(splitText(`${before}SELECT 1`)).toEqual({ explain: "none", text: `${before}SELECT 1` });
  const { text, ...rest } = splitText(`${before}${words} SELECT 1`);
  expect(rest).toEqual({ explain });
  expect(text).toBe(`${`${before}${words}`.replaceAll(/[^\n]/g, " ")} SELECT 1`);
});

it("reads SHOW COLUMNS behind comments as DESCRIBE", () => {
  expect(splitText("/* a */ show columns from spans").text).toBe("/* a */ DESCRIBE          spans");
  expect(splitText("SHOW TABLES").text).toBe("SHOW TABLES");
});

it.each(["/* ", "e'\\", "$a$ ", "'", '"', " ", "--\n"])("looks through text of nothing but %j", (part) => {
  const text = `SELECT 1 ${filled(part)}`.slice(0, megabyte);
  checkText(text);
  expect(splitText(text)).toEqual({ explain: "none", text });
});

it("finds objects in an error that holds the beginning of a path again and again", () => {
  const value = filled("/a");
  expect(scrub(`could not read '${value}'`)).toBe(`could not read '${value}'`);
  expect(scrub("open /srv/x=1/a.parquet, s3://bucket/b/c.parquet and log_entries/audience=a/d.parquet")).toBe(
    "open <file>, s3:<file> and <file>",
  );
});

it("words an error whose value speaks as DuckDB does", () => {
  const value = filled("Could not convert string '");
  const message = `Conversion Error: Could not convert string '${value}' to INT32\n\nLINE 1: SELECT svc_x`;
  expect(queryError(new Error(message), scrub).publicMessage).toBe(message.split("\n")[0]);
});

it("takes the schema off very many columns in time that grows with their number", () => {
  const columns = Array.from({ length: 30_000 }, () => ({
    class: "COLUMN_REF",
    type: "COLUMN_REF",
    alias: "",
    column_names: ["main", "log_entries", "msg"],
  }));
  const startMs = performance.now();
  expect(dropSchemas({ select_list: columns })).toBe(true);
  expect(performance.now() - startMs).toBeLessThan(5000);
  expect(columns.every(({ column_names: names }) => names.join(".") === "log_entries.msg")).toBe(true);
});
