/** Roll-ups of a lake of files give the numbers of its rows. */
import path from "node:path";

import { afterAll, beforeAll, expect, it } from "vitest";

import { localFiles } from "../../src/lake/cache/lake-files.js";
import { effort } from "../helpers/effort.js";
import { type MergeLab, startMergeLab } from "../helpers/lake/lake-merge.js";
import { addAged, type AgedPartition } from "../helpers/lake/lake-tasks.js";
import { expectNumbersOfRows } from "../helpers/query/rollup-model.js";

let lab: MergeLab;
beforeAll(async () => {
  lab = await startMergeLab({ rollupRows: 1 });
});
afterAll(() => lab.stop());

it("gives the numbers of the rows, whatever was merged, erased, retired and past, and however a range cuts", async () => {
  const world = {
    lab,
    files: localFiles(lab.context.store),
    fileOf: (object: string) => path.join(lab.lake.directory, object),
    add: (partition: AgedPartition) => addAged(lab, partition),
  };
  const used = await expectNumbersOfRows(world, effort(3, 16));
  // It was about roll-ups, and about roll-ups and rows together.
  expect(used.rollups).toBeGreaterThanOrEqual(effort(1, 10));
  expect(used.together).toBeGreaterThanOrEqual(effort(0, 1));
}, 1_200_000);
