/** When a merge looks for texts that repeat. */
import { expect, test } from "vitest";

import type { MergeEngine } from "../../src/lake/merge/merge-engine.js";
import { listTexts } from "../../src/lake/merge/merge-object.js";
import { repeatedColumns, type SourceFile } from "../../src/lake/merge/merge-sql.js";
import { tableLayouts } from "../../src/lake/parquet/layout.js";

const columns = repeatedColumns("log_entries");

/** Finds one text in each column, and counts how often it is asked. */
function countingEngine(): MergeEngine & { asked: number } {
  const engine = {
    asked: 0,
    run: () => Promise.resolve(),
    rows: () => {
      engine.asked++;
      return Promise.resolve([[...columns.map(() => "text"), "4"]]);
    },
  };
  return engine;
}

function sourcesOf(count: number, rowCount: number): SourceFile[] {
  return Array.from({ length: count }, (_, i) => ({
    partitionId: String(i),
    audience: "a",
    path: `${i}.parquet`,
    file: `/lake/${i}.parquet`,
    fileBytes: 4000,
    rowCount,
    minTimeNs: 0n,
    maxTimeNs: 0n,
    schemaHash: tableLayouts.log_entries.schemaHash,
    checksum: null,
    attributeColumns: null,
    attributeNames: null,
    receivedNs: null,
  }));
}

test.each([
  ["many tiny objects", 56, 5, 0],
  ["many small ones", 56, 64, 1],
  ["few large ones", 2, 20_000, 1],
])("of %s", async (_name, count, rowCount, asked) => {
  const engine = countingEngine();
  const texts = await listTexts(engine, "log_entries", sourcesOf(count, rowCount));
  expect(engine.asked).toBe(asked);
  expect([...texts.forRows(count * rowCount).values()]).toEqual(asked === 0 ? [] : columns.map(() => ["text"]));
});
