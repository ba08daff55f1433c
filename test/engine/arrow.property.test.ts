import * as fc from "fast-check";
import { beforeAll, expect, it } from "vitest";

import { type Table, tableFromIPC } from "apache-arrow";

import { rowPaths, startEngine, streamStep, type TestEngine } from "../helpers/query/engine.js";
import { ipcOf } from "../helpers/flight/flight-ipc.js";
import { checkNestedValues, plain } from "../helpers/query/nested-values.js";

let engine: TestEngine;

beforeAll(async () => {
  engine = await startEngine();
  return () => engine.stop();
});

type Query = (sql: string, messageBytes: number) => Promise<Table>;

function querying(inPlace: boolean): Query {
  return async (sql, messageBytes) => {
    const { messages, end } = await engine.run([await streamStep(engine, sql, inPlace, messageBytes)]);
    expect(end.error).toBe(null);
    return tableFromIPC(messages.flatMap(ipcOf));
  };
}

it.each(rowPaths)("returns nested values as they went in, whatever their lengths and nulls, %s", async (_, inPlace) => {
  await expect(checkNestedValues(querying(inPlace))).resolves.toBe(undefined);
});

it.each(rowPaths)(
  "joins chunks of any number of rows, with nulls anywhere, and truth values, %s",
  async (_, inPlace) => {
    const query = querying(inPlace);
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
  },
);
