/** Nested values of any length, with nulls anywhere, through whatever runs SQL. */
import type { Table } from "apache-arrow";
import * as fc from "fast-check";
import { expect } from "vitest";

import { quoteText } from "../../../src/runtime/text/sql-text.js";

const text = fc.oneof(
  fc.string({ unit: "grapheme-ascii", maxLength: 30 }),
  fc.string({ unit: "grapheme", maxLength: 12 }),
  fc.integer({ min: 0, max: 9000 }).map((length) => "x".repeat(length)),
);
const element = fc.record({
  name: fc.option(text),
  numbers: fc.option(fc.array(fc.option(fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 })), { maxLength: 6 })),
  texts: fc.option(fc.array(fc.option(text), { maxLength: 4 })),
  flag: fc.option(fc.boolean()),
});

/** A value of apache-arrow as the JSON it came from. */
export function plain(value: unknown): unknown {
  if (value === null || typeof value !== "object") {
    return value;
  }
  const toJson: unknown = (value as { readonly toJSON?: unknown }).toJSON;
  const json: unknown = typeof toJson === "function" ? toJson.call(value) : value;
  if (Array.isArray(json)) {
    return json.map(plain);
  }
  return Object.fromEntries(Object.entries(json as Record<string, unknown>).map(([k, v]) => [k, plain(v)]));
}

/** Checks that lists of structs of lists come back as they went in. @param query may cut messages at so many bytes */
export async function checkNestedValues(query: (sql: string, messageBytes: number) => Promise<Table>): Promise<void> {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.option(element), { maxLength: 60 }),
      fc.integer({ min: 1, max: 40 }),
      fc.integer({ min: 1, max: 40_000 }),
      async (rows, copies, messageBytes) => {
        // Without characters that are not JSON text for DuckDB.
        const json = JSON.stringify(rows).replaceAll("\\u0000", "");
        const expected = JSON.parse(json) as unknown[];
        const shape = '[{"name":"VARCHAR","numbers":["INTEGER"],"texts":["VARCHAR"],"flag":"BOOLEAN"}]';
        const table = await query(
          `SELECT v FROM (SELECT c, unnest(from_json(${quoteText(json)}, '${shape}')) AS v, generate_subscripts(from_json(${quoteText(json)}, '${shape}'), 1) AS n FROM range(${copies}) r(c)) ORDER BY c, n`,
          messageBytes,
        );
        const read = Array.from(table.getChildAt(0) ?? [], plain);
        expect(read).toEqual(Array.from({ length: copies }, () => expected).flat());
      },
    ),
    { numRuns: 60 },
  );
}
