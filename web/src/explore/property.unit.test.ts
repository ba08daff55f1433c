import { expect, it } from "vitest";

import { propertiesOf } from "./property.js";

it("keeps the digits of whole numbers beyond 2^53, and takes no other attribute's", () => {
  const json = String.raw`{"a":{"n":1,"l":[2]},"t":"\\\"n\":3,{","n" : 9007199254740993,"l":-9007199254740995,"e":1e21,"\u00e4":9007199254740997}`;
  expect(Object.fromEntries(propertiesOf(json).map(({ name, value }) => [name, value]))).toEqual({
    a: '{"n":1,"l":[2]}',
    t: String.raw`\"n":3,{`,
    n: "9007199254740993",
    l: "-9007199254740995",
    e: "1e21",
    ä: "9007199254740997",
  });
});

it("reads a number beside a string of megabytes", () => {
  const json = JSON.stringify({ t: '"'.repeat(8_000_000), n: 0 }).replace(/0}$/, "9007199254740993}");
  expect(propertiesOf(json)[1]).toEqual({ name: "n", value: "9007199254740993" });
});

it.each([
  ["5.0", "5.0"],
  ["-0.0", "-0.0"],
  ["1e+21", "1e21"],
  ["5e-324", "5e-324"],
  ['[1.0,"a"]', '[1.0,"a"]'],
  ["[9007199254740993]", "[9007199254740993]"],
  ['{"a":[-9007199254740995]}', '{"a":[-9007199254740995]}'],
  ['[1e+21,-1.5e+300,"1e+21 \\"1e+21"]', '[1e21,-1.5e300,"1e+21 \\"1e+21"]'],
  ['{"e+":{"e+":[1e+21]}}', '{"e+":{"e+":[1e21]}}'],
  ["true", "true"],
  ['"1e+21"', "1e+21"],
])("shows %s as SQL does", (json, value) => {
  expect(propertiesOf(`{"n":${json}}`)).toEqual([{ name: "n", value }]);
});

it("shows the first of several values of a name, which is the one that filters compare", () => {
  const json = String.raw`{"a":"1, \"a\":","b":{"a":[2,{"a":3}]},"a":9007199254740993, "a":null,"\u0061":"last","c":null,"d":[],"c":1}`;
  expect(propertiesOf(json)).toEqual([
    { name: "a", value: '1, "a":' },
    { name: "b", value: '{"a":[2,{"a":3}]}' },
    { name: "c", value: null },
    { name: "d", value: "[]" },
  ]);
});
