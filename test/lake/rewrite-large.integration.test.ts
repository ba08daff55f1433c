/** Erasures from objects that are joined of so many others that their rows cannot be sorted at once. */
import { afterEach, beforeEach, expect, it } from "vitest";

import { runTask } from "../../src/lake/check/lake-tasks.js";
import { MergeEngines } from "../../src/lake/merge/merge-engine.js";
import { type MergeLab, startMergeLab } from "../helpers/lake/lake-merge.js";
import { addAged, askErasure, taskContext, taskRow } from "../helpers/lake/lake-tasks.js";

let lab: MergeLab;
beforeEach(async () => {
  lab = await startMergeLab();
});
afterEach(() => lab.stop());

it("takes rows out of an object that is larger than what can be sorted, and leaves the others in their order", async () => {
  const limits = {
    ...lab.context.limits,
    memoryLimitBytes: 256 << 20,
    maxTempBytes: 32 << 20,
    step: { rows: 70_000, bytes: 256 << 20, sources: 1000 },
    rollupRows: 1,
  };
  const engines = new MergeEngines(limits);
  const { path: old } = await addAged(lab, {
    table: "log_entries",
    audience: "a",
    level: 3,
    // The second row group has nothing else.
    rowsSql: `SELECT make_timestamp_ns(i) AS time, repeat(md5('' || i), 8) AS msg, 'x' AS target,
      if(i % 50000 = 7 OR i BETWEEN 61440 AND 122879, 'shop', 'other') AS service_name,
      '{"n":"' || i % 3 || '"}' AS properties FROM range(400000) t(i)`,
  });
  await lab.sql`update lakehouse_partitions set sort_order = 'time,insert_time', attribute_columns = '{n}', attribute_names = '{n}'`;
  const taskId = await askErasure(lab, { audience: "a", where: { service: "shop" } });
  try {
    await runTask(taskContext(lab, { limits, engines }), taskId);
  } finally {
    await engines.stop();
  }
  const erased = 61_440 + 7;
  expect(await taskRow(lab, taskId)).toMatchObject({ state: "done", rows: erased, rewritten: 1, error: null });
  const [left] = await lab.sql<{ path: string; rollup: string }[]>`
    select path, row_count::int as rows, sort_order, attribute_columns, rollup_path as rollup, min_time_ns, max_time_ns
    from lakehouse_partitions`;
  expect(left).toMatchObject({
    rows: 400_000 - erased,
    sort_order: "time,insert_time",
    attribute_columns: ["n"],
    min_time_ns: 0n,
    max_time_ns: 399_999n,
  });
  const file = `${lab.lake.directory}/${left?.path ?? ""}`;
  const read = (of: string): string => `read_parquet('${of}', file_row_number = true, hive_partitioning = false)`;
  const content = `count(*)::INT AS n, bit_xor(hash(time, msg, properties))::VARCHAR AS content`;
  const [whole] = await lab.duck(
    `SELECT ${content} FROM ${read(`${lab.lake.directory}/${old}`)} WHERE service_name <> 'shop'`,
  );
  expect(await lab.duck(`SELECT ${content} FROM ${read(file)}`)).toEqual([whole]);
  expect(
    await lab.duck(`SELECT count_if(back)::INT AS back, count_if("attr.n" <> (properties ->> 'n'))::INT AS wrong
      FROM (SELECT *, time < lag(time) OVER (ORDER BY file_row_number) AS back FROM ${read(file)})`),
  ).toEqual([{ back: 0, wrong: 0 }]);
  const rolled = `${lab.lake.directory}/${left?.rollup ?? ""}`;
  expect(await lab.duck(`SELECT sum(count)::INT AS n FROM ${read(rolled)}`)).toEqual([{ n: 400_000 - erased }]);
});
