import { expect, it } from "vitest";

import { readScreens, type ScreenFile, writeScreens } from "../../src/shared/screen-files.js";

const one: ScreenFile = { name: "Checkout", folder: null, version: 3, config: { cells: [{ b: 1, a: 2 }] } };
const two: ScreenFile = { name: "<b>Pay</b>", folder: "Shop", version: 1, config: {} };

it("reads what it writes, one screen and several", () => {
  expect(readScreens(writeScreens([one]), "a.json")).toEqual([one]);
  expect(readScreens(writeScreens([one, two]), "a.json")).toEqual([one, two]);
});

it("writes one screen without a list", () => {
  expect(JSON.parse(writeScreens([one]))).toEqual({ format: 1, ...one });
});

it.each([
  ["{", "a.json is no JSON"],
  ["[]", "a.json is no file of screens: it has no format"],
  ['{"format":2,"screens":[]}', "a.json has format 2, and this release reads 1: upgrade first"],
  ['{"format":1,"screens":{}}', "a.json is no file of screens: its screens are no list"],
  ['{"format":1,"name":"a","folder":null,"version":-1,"config":{}}', /each has name, folder, version and config/],
])("refuses %s", (text, sentence) => {
  expect(() => readScreens(text, "a.json")).toThrow(sentence);
});

it("takes a screen that somebody wrote by hand as new, in no folder", () => {
  const config = { cells: [] };
  expect(readScreens(JSON.stringify({ format: 1, name: "a", config }), "a.json")).toEqual([
    { name: "a", folder: null, version: 0, config },
  ]);
});
