import * as fc from "fast-check";
import { afterAll, beforeAll, expect, it } from "vitest";

import { type Table, tableFromIPC } from "apache-arrow";

import { startEngine, type TestEngine } from "../helpers/query/engine.js";
import { ipcOf } from "../helpers/flight/flight-ipc.js";

let engine: TestEngine;

beforeAll(async () => {
  engine = await startEngine();
});

afterAll(async () => {
  await engine.stop();
});

async function query(sql: string, messageBytes: number): Promise<Table> {
  const { messages, end } = await engine.run([{ kind: "stream", sql, messageBytes }]);
  expect(end.error).toBe(null);
  return tableFromIPC(messages.flatMap(ipcOf));
}

const text = fc.oneof(
  fc.string({ unit: "grapheme-ascii", maxLength: 30 }),
  fc.string({ unit: "grapheme", maxLength: 12 }),
  fc.integer({ min: 0, max: 9000 }).map((length) => "x".repeat(length)),
);
const element = fc.record({
  name: fc.option(text),
  numbers: fc.option(
    fc.array(fc.option(fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 })), { maxLength: 6 }),
  ),
  texts: fc.option(fc.array(fc.option(text), { maxLength: 4 })),
  flag: fc.option(fc.boolean()),
});

/** A value of apache-arrow as the JSON it came from. */
function plain(value: unknown): unknown {
  if (value === null || typeof value !== "object") return value;
  const toJson: unknown = (value as { readonly toJSON?: unknown }).toJSON;
  const json: unknown = typeof toJson === "function" ? toJson.call(value) : value;
  if (Array.isArray(json)) return json.map(plain);
  return Object.fromEntries(
    Object.entries(json as Record<string, unknown>).map(([k, v]) => [k, plain(v)]),
  );
}

it("returns nested values as they went in, whatever their lengths and nulls", async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.option(element), { maxLength: 60 }),
      fc.integer({ min: 1, max: 40 }),
      fc.integer({ min: 1, max: 40_000 }),
      async (rows, copies, messageBytes) => {
        // Without characters that are not JSON text for DuckDB.
        const json = JSON.stringify(rows).replaceAll("\\u0000", "");
        const expected = JSON.parse(json) as unknown[];
        const shape =
          '[{"name":"VARCHAR","numbers":["INTEGER"],"texts":["VARCHAR"],"flag":"BOOLEAN"}]';
        const table = await query(
          `SELECT v FROM (SELECT c, unnest(from_json('${json.replaceAll("'", "''")}', '${shape}')) AS v, generate_subscripts(from_json('${json.replaceAll("'", "''")}', '${shape}'), 1) AS n FROM range(${copies}) r(c)) ORDER BY c, n`,
          messageBytes,
        );
        const read = Array.from(table.getChildAt(0) ?? [], plain);
        expect(read).toEqual(Array.from({ length: copies }, () => expected).flat());
      },
    ),
    { numRuns: 60 },
  );
});

it("joins chunks of any number of rows, with nulls anywhere, and truth values", async () => {
  const sizes = fc.array(fc.integer({ min: 0, max: 70 }), { minLength: 1, maxLength: 12 });
  await fc.assert(
    fc.asyncProperty(
      sizes,
      fc.integer({ min: 1, max: 9 }),
      fc.integer({ min: 1, max: 9 }),
      fc.constantFrom(1, 100, 100_000),
      async (sizes, nullEvery, trueEvery, messageBytes) => {
        // Each branch of the union gives chunks of its own.
        const branches = sizes.map(
          (size, k) =>
            `SELECT CASE WHEN (i + ${k}) % ${nullEvery} = 0 AND ${k} % 2 = 0 THEN NULL ELSE (i * 7) % ${trueEvery} = 0 END AS flag, CASE WHEN i % ${nullEvery} = 1 THEN NULL ELSE 't' || i END AS text, [i % 2 = 0, NULL][1 : i % 3] AS list, ${k}::INTEGER AS k, i::INTEGER AS i FROM range(${size}) r(i)`,
        );
        const table = await query(branches.join(" UNION ALL "), messageBytes);
        const read = Array.from(table, (row) => JSON.stringify(plain(row))).sort();
        const expected = sizes.flatMap((size, k) =>
          Array.from({ length: size }, (_, i) =>
            JSON.stringify({
              flag: (i + k) % nullEvery === 0 && k % 2 === 0 ? null : (i * 7) % trueEvery === 0,
              text: i % nullEvery === 1 ? null : `t${i}`,
              list: [i % 2 === 0, null].slice(0, i % 3),
              k,
              i,
            }),
          ),
        );
        expect(read).toEqual(expected.sort());
      },
    ),
    { numRuns: 60 },
  );
});
