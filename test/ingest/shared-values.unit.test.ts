import * as fc from "fast-check";
import { expect, test } from "vitest";
import { packValues } from "../../src/ingest/rows/shared-values.js";

const long = fc.integer({ min: 20_000, max: 80_000 }).map((length) => "é".repeat(length));
const value = fc.oneof(
  fc.constant(null),
  fc.string({ unit: "binary" }),
  { arbitrary: long, weight: 1 },
  fc.uint8Array({ maxLength: 40 }),
);

test("packed values are what was given, and stay so while others are packed", () => {
  fc.assert(
    fc.property(fc.array(value, { maxLength: 12 }), (given) => {
      const { bytes, ranges } = packValues(given);
      packValues(["x".repeat(1000), new Uint8Array(500)]);
      const unpacked = given.map((_, i) => {
        const [start = 0, end = 0] = ranges.slice(2 * i);
        return start === -1 ? null : Buffer.from(bytes.subarray(start, end)).toString("hex");
      });
      const wanted = given.map((one) => (typeof one === "string" ? Buffer.from(one) : one));
      expect(unpacked).toEqual(wanted.map((one) => one && Buffer.from(one).toString("hex")));
    }),
  );
});
