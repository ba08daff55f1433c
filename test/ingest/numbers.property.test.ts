/** Doubles as JSON text, against the language's own shortest round-trip text. */
import * as fc from "fast-check";
import { expect, test } from "vitest";

import { appendDouble } from "../../src/ingest/decode/numbers.js";
import { Utf8Column } from "../../src/lake/tables/columns.js";

const column = new Utf8Column();

function written(value: number): string {
  column.reset();
  appendDouble(value, column);
  return Buffer.from(column.bytes.subarray(0, column.byteLength)).toString("latin1");
}

/** The text of a finite double: never that of an integer. */
function expected(value: number): string {
  const text = Object.is(value, -0) ? "-0" : String(value);
  return /[.e]/u.test(text) ? text : `${text}.0`;
}

const decimals = fc
  .tuple(fc.bigInt({ min: -(10n ** 16n), max: 10n ** 16n }), fc.integer({ min: 0, max: 9 }))
  .map(([digits, places]) => Number(`${digits}e-${places}`));

test("any double is written as its shortest text that reads back as the same value", () => {
  fc.assert(
    fc.property(
      fc.oneof(
        fc.double({ noNaN: true, noDefaultInfinity: true }),
        decimals,
        fc.integer().map((n) => n / 1000),
        fc.double({ min: -1e9, max: 1e9, noNaN: true }),
      ),
      (value) => {
        expect(written(value)).toBe(expected(value));
        expect(Object.is(Number(written(value)), value)).toBe(true);
      },
    ),
    { numRuns: 20_000 },
  );
});

test.each([0.1, 0.000001, 9.5e-7, 1e-7, 0.3, 123.456789, 999999999.999999, 1e9, 1e21, 5e-324, 0])(
  "%d is written as the language writes it",
  (value) => {
    expect(written(value)).toBe(expected(value));
    expect(written(-value)).toBe(expected(-value));
  },
);

test("values without a JSON number are strings", () => {
  expect([Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY].map(written)).toEqual([
    '"NaN"',
    '"Infinity"',
    '"-Infinity"',
  ]);
});
