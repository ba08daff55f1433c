import { expect, it } from "vitest";

import { readOnlyScreen } from "./screen-files.js";
import {
  type CellKind,
  checkVariables,
  differencesOf,
  newCell,
  parseScreen,
  ScreenError,
  variablesOf,
} from "./screen-model.js";

const kinds: readonly CellKind[] = ["markdown", "chart", "table", "log", "trace", "map", "variable", "group"];

it.each(kinds)("reads back a new cell of the kind %s", (kind) => {
  const config = { format: 1 as const, cells: [newCell(kind)] };
  expect(parseScreen(JSON.parse(JSON.stringify(config)))).toEqual(config);
});

it.each([
  [null, /no object/],
  [[], /no object/],
  [{ format: 2, cells: [] }, /format 2, and this release reads 1: upgrade/],
  [{ cells: {} }, /no list/],
  [{ cells: [1] }, /no object/],
  [{ cells: [{ kind: "hologram" }] }, /no cell of the kind "hologram": upgrade/],
  [{ cells: [{ kind: "group", cells: [{ kind: "group", cells: [] }] }] }, /no groups/],
])("refuses %j", (config, sentence) => {
  expect(() => parseScreen(config)).toThrow(ScreenError);
  expect(() => parseScreen(config)).toThrow(sentence);
});

it("takes what is missing or of another type for empty", () => {
  const [cell] = parseScreen({ cells: [{ kind: "chart", title: 5, look: "pie", sql: ["x"] }] }).cells;
  expect(cell).toMatchObject({ kind: "chart", title: "", look: "lines", sql: "", unit: "" });
});

it("finds variables in groups", () => {
  const cells = [newCell("variable"), { kind: "group" as const, id: "g", cells: [newCell("variable")] }];
  expect(variablesOf(parseScreen({ cells }))).toHaveLength(2);
});

it("tells what differs", () => {
  const [a, b, c] = [newCell("markdown"), newCell("chart"), newCell("log")];
  const before = parseScreen({ cells: [a, b, c] });
  const after = parseScreen({ cells: [c, { ...b, title: "Other" }, newCell("table")] });
  const state = (config: typeof before, folder: string | null = null) => ({ config, folder });
  expect(differencesOf(state(before), state(after, "Shop"))).toEqual([
    "moved to the folder Shop",
    "added: Services",
    "changed: Other",
    "removed: A heading",
    "moved: the order of cells",
  ]);
  expect(differencesOf(state(before, "Shop"), state(before))).toEqual(["moved out of its folder"]);
  expect(differencesOf(state(before), state(before))).toEqual([]);
});

it("gives each cell an id of its own, the same whenever the screen is read", () => {
  const written = {
    cells: [{ kind: "log", id: "a" }, { kind: "group", cells: [{ kind: "log", id: "a" }] }, { kind: "log" }],
  };
  const { cells } = parseScreen(written);
  const ids = cells.flatMap((cell) => [cell.id, ...(cell.kind === "group" ? cell.cells.map(({ id }) => id) : [])]);
  expect(new Set(ids).size).toBe(4);
  expect(ids[0]).toBe("a");
  expect(parseScreen(written)).toEqual({ format: 1, cells });
});

it.each([
  ["{", /^a.json is no JSON\.$/],
  ['{"format":1,"name":7,"config":{}}', /name, folder, version and config/],
  ['{"format":1,"name":"a","config":{"format":9}}', /format 9/],
  ['{"format":1,"screens":[]}', /^a.json holds no screen/],
  ['{"format":1,"screens":[{"name":"a","config":{}},{"name":"b","config":{}}]}', /^a.json holds 2 screens/],
])("refuses the file %s", (text, sentence) => {
  expect(() => readOnlyScreen(text, "a.json")).toThrow(sentence);
  expect(() => readOnlyScreen(text, "a.json")).toThrow(ScreenError);
});

it.each([
  [["service", "service"], /“service”: another variable has that name/],
  [["interval"], /“interval”: \$interval is the seconds of a bucket/],
  [["a b"], /“a b”: letters, digits/],
  [[""], /“”: letters, digits/],
])("refuses variables called %j", (names, sentence) => {
  const [first, ...others] = names.map((name) => ({ kind: "variable", name }));
  const config = { cells: [first, { kind: "group", cells: others }] };
  expect(() => checkVariables(parseScreen(config))).toThrow(sentence);
  expect(() => readOnlyScreen(JSON.stringify({ format: 1, name: "a", config }), "a.json")).toThrow(ScreenError);
});
