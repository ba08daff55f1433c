import { expect, it, vi } from "vitest";

import { Column } from "../../arrow/column.js";
import { sortRows } from "./sort-rows.js";
import { resultColumns } from "./table-columns.js";
import { readTableState, writeTableState } from "./table-state.js";

const sorted = (keys: readonly (string | number | bigint | null)[], descending: boolean): unknown[] =>
  [...sortRows(keys.length, (row) => keys[row] ?? null, descending)].map((row) => keys[row]);

it("sorts numbers, big ones and texts, and puts what is missing last both ways", () => {
  expect(sorted([3, null, 1, 2], false)).toEqual([1, 2, 3, null]);
  expect(sorted([3, null, 1, 2], true)).toEqual([3, 2, 1, null]);
  expect(sorted([2n, 10n, null, 1n], true)).toEqual([10n, 2n, 1n, null]);
  expect(sorted(["pod-10", null, "pod-9", "Pod-1"], false)).toEqual(["Pod-1", "pod-9", "pod-10", null]);
});

it("tells integers apart that a number cannot hold", () => {
  const time = 1_767_322_800_000_000_000n;
  expect(sorted([time + 2n, time + 1n, null, time + 3n], false)).toEqual([time + 1n, time + 2n, time + 3n, null]);
  expect(sorted([time + 2n, time + 1n, null, time + 3n], true)).toEqual([time + 3n, time + 2n, time + 1n, null]);
  expect(sorted([9007199254740993n, 9007199254740992, 5], false)).toEqual([5, 9007199254740992, 9007199254740993n]);
});

it("sorts decimals as numbers", () => {
  const column = new Column("price", { kind: "decimal", precision: 18, scale: 2, words: 1 });
  vi.spyOn(column, "value").mockImplementation((row) => ["1.50", "1.25", "-10.00", "-5.00", null][row] ?? null);
  const [{ sortBy = () => null } = {}] = resultColumns({ columns: [column], rows: 5 });
  expect([...sortRows(5, sortBy, false)]).toEqual([2, 3, 1, 0, 4]);
});

it("keeps the order of rows with the same value", () => {
  expect([...sortRows(4, (row) => row % 2, false)]).toEqual([0, 2, 1, 3]);
});

it("survives the way through an address, with any name of a column", () => {
  const state = { sort: { id: "a,b", descending: true }, hidden: ["x:y", "50%"], widths: { "a,b": 120, c: 300 } };
  const { sort = "", hide = "", widths = "" } = writeTableState(state);
  expect(readTableState(sort, hide, widths)).toEqual(state);
});

it("passes over what makes no sense", () => {
  expect(readTableState("", "%E0%A4%A", "a:b,c:99999,d:")).toEqual({ sort: null, hidden: ["%E0%A4%A"], widths: {} });
});
