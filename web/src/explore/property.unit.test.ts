import { expect, it } from "vitest";

import { propertiesOf } from "./property.js";

it("keeps the digits of whole numbers beyond 2^53, and takes no other attribute's", () => {
  const json = String.raw`{"a":{"n":1,"l":[2]},"t":"\\\"n\":3,{","n" : 9007199254740993,"l":-9007199254740995,"e":1e21,"\u00e4":9007199254740997}`;
  expect(Object.fromEntries(propertiesOf(json).map(({ name, value }) => [name, value]))).toEqual({
    a: '{"n":1,"l":[2]}',
    t: String.raw`\"n":3,{`,
    n: "9007199254740993",
    l: "-9007199254740995",
    e: "1e+21",
    ä: "9007199254740997",
  });
});

it("reads a number beside a string of megabytes", () => {
  const json = JSON.stringify({ t: '"'.repeat(8_000_000), n: 0 }).replace(/0}$/, "9007199254740993}");
  expect(propertiesOf(json)[1]).toEqual({ name: "n", value: "9007199254740993" });
});
