import { expect, it } from "vitest";

import { attributeText, entryKey, logEntry, type LogEntry, logRows, rowOf } from "./log-rows.js";

const entry = (time: bigint, msg: string): LogEntry => ({ ...logEntry(logRows([], null), 0), time, msg });

it("finds a record by its key among others of the same time", () => {
  const rows = logRows([entry(5n, "a"), entry(5n, "b"), entry(4n, "b")], null);
  expect(rowOf(rows, entryKey(entry(5n, "b")))).toBe(1);
  expect(rowOf(rows, entryKey(entry(4n, "b")))).toBe(2);
  for (const nonsense of ["", "x", "5", "5-", "99999999999999999999-a", entryKey(entry(6n, "a"))]) {
    expect(rowOf(rows, nonsense)).toBeNull();
  }
});

it("reads attributes as filters compare them", () => {
  const json = '{"http.route":"/a","n":3,"ok":false,"list":[1],"none":null}';
  expect(["http.route", "n", "ok", "list", "none", "missing"].map((key) => attributeText(json, key))).toEqual([
    "/a",
    "3",
    "false",
    "[1]",
    null,
    null,
  ]);
  expect(attributeText("not JSON", "not")).toBeNull();
  expect(attributeText('"not"', "not")).toBeNull();
});
