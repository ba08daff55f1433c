import { expect, it } from "vitest";

import { chooseAttributes } from "../../src/lake/merge/attribute-choice.js";

const counted = (rows: Readonly<Record<string, number>>) =>
  Object.entries(rows).map(([name, count]) => ({ name, rows: count }));

it("takes what one row of two hundred has, and names all", () => {
  expect(chooseAttributes(counted({ often: 5, rare: 4 }), 1000, [])).toEqual({
    columns: ["often"],
    names: ["often", "rare"],
  });
});

it("takes at most 64, conventions first, then the most frequent", () => {
  const many = Object.fromEntries(Array.from({ length: 70 }, (_, i) => [`k${String(i).padStart(2, "0")}`, 100 + i]));
  const { columns } = chooseAttributes(counted({ ...many, "http.route": 10 }), 1000, []);
  expect(columns).toHaveLength(64);
  expect(columns).toContain("http.route");
  expect(columns).toContain("k69");
  expect(columns).not.toContain("k06");
});

it("takes one of the names that differ in capitals only, and none that are no plain names", () => {
  const { columns, names } = chooseAttributes(
    counted({ "User.Id": 9, "user.id": 10, "a b": 10, 'a"b': 10, "": 10 }),
    10,
    [],
  );
  expect(columns).toEqual(["user.id"]);
  expect(names).toEqual(["", "User.Id", 'a"b', "a b", "user.id"].toSorted());
});

it("forgets the names when there are more than 256", () => {
  const many = Object.fromEntries(Array.from({ length: 257 }, (_, i) => [`k${i}`, 1]));
  expect(chooseAttributes(counted(many), 1_000_000, [])).toEqual({ columns: [], names: null });
});

it.each([
  ["has U+0000", "a\u0000b"],
  ["is longer than 255", "a".repeat(256)],
])("forgets the names when one %s", (_, name) => {
  expect(chooseAttributes(counted({ a: 1, [name]: 1 }), 1000, []).names).toBeNull();
  expect(chooseAttributes(counted({ a: 1, ["b".repeat(255)]: 1 }), 1000, []).names).toEqual(["a", "b".repeat(255)]);
});

it("keeps what merged rows know, and what they do not", () => {
  const known = { columns: ["a"], names: ["a", "rare"], rowCount: 100 };
  expect(chooseAttributes(counted({ b: 100, c: 1 }), 100, [known])).toEqual({
    columns: ["a", "b", "c"],
    names: ["a", "b", "c", "rare"],
  });
  expect(chooseAttributes(counted({ b: 1 }), 1, [{ ...known, names: null }])).toEqual({
    columns: ["a", "b"],
    names: null,
  });
  // One row of many thousands no longer pays.
  expect(chooseAttributes(counted({ b: 1 }), 1, [{ ...known, rowCount: 1000 }]).columns).toEqual(["a"]);
});
