import { expect, it } from "vitest";

import { pages } from "../../app/pages.js";
import { sections } from "./cards.js";

it("has a card for each page to which nothing else but the command palette leads", () => {
  const within = pages.filter(({ navigation }) => navigation?.within === true).map(({ path }) => path);
  const cards = sections.flatMap(({ cards: each }) => each.map(([path]) => path));
  expect(within.filter((path) => !cards.includes(path))).toEqual([]);
  expect(new Set(cards).size).toBe(cards.length);
});

it("has cards of pages that there are", () => {
  const paths = pages.map(({ path }) => path);
  expect(sections.flatMap(({ cards }) => cards.map(([path]) => path)).filter((path) => !paths.includes(path))).toEqual(
    [],
  );
});
