/** Erasures from objects that are joined of so many others that their rows cannot be sorted at once. */
import { readdirSync } from "node:fs";
import path from "node:path";

import { afterEach, beforeEach, expect, it, vi } from "vitest";

import { runTask } from "../../src/lake/check/lake-tasks.js";
import { CpuShare } from "../../src/lake/merge/cpu-share.js";
import { MergeEngines } from "../../src/lake/merge/merge-engine.js";
import { type MergeLab, startMergeLab } from "../helpers/lake/lake-merge.js";
import { createManualClock } from "../helpers/manual-clock.js";
import { addAged, askErasure, taskContext, taskRow } from "../helpers/lake/lake-tasks.js";

let lab: MergeLab;
beforeEach(async () => {
  lab = await startMergeLab();
});
afterEach(() => lab.stop());

it.each([
  ["many rows", { rows: 400_000, repeats: 8, memoryMiB: 256, step: { rows: 70_000, bytes: 256 << 20 } }],
  ["long rows", { rows: 60_000, repeats: 384, memoryMiB: 512, step: { rows: 1_000_000, bytes: 1 << 20 } }],
  ["huge rows", { rows: 600, repeats: 8192, memoryMiB: 512, step: { rows: 400, bytes: 256 << 20 } }],
])(
  "takes rows out of an object of %s and leaves the others in their order",
  async (_, { rows, repeats, memoryMiB, step }) => {
    const limits = {
      ...lab.context.limits,
      memoryLimitBytes: memoryMiB << 20,
      maxTempBytes: 32 << 20,
      step: { ...step, sources: 1000 },
      rollupRows: 1,
    };
    const engines = new MergeEngines(limits);
    const { path: old } = await addAged(lab, {
      table: "log_entries",
      audience: "a",
      level: 3,
      // The second row group has nothing else.
      rowsSql: `SELECT make_timestamp_ns(i) AS time, repeat(md5('' || i), ${repeats}) AS msg, 'x' AS target,
      if(i % 50000 = 7 OR i BETWEEN 61440 AND 122879, 'shop', 'other') AS service_name,
      '{"n":"' || i % 3 || '"}' AS properties FROM range(${rows}) t(i)`,
    });
    await lab.sql`update lakehouse_partitions
    set sort_order = 'time,insert_time', attribute_columns = '{n}', attribute_names = '{n}'`;
    const taskId = await askErasure(lab, { audience: "a", where: { service: "shop" } });
    const clock = createManualClock(Date.now());
    const objects = path.dirname(path.dirname(path.join(lab.lake.directory, old)));
    let most = 0;
    // It is asked while a part is copied, at least: so they take hours.
    const cancelled = (): boolean => {
      const parts = readdirSync(objects).filter((name) => name.endsWith(".part"));
      most = Math.max(most, parts.length);
      if (parts.length > 0) {
        clock.advance(20 * 60_000);
      }
      return false;
    };
    const share = new CpuShare({ percent: 25, cpus: 1, clock });
    const rest = vi.spyOn(share, "rest").mockResolvedValue();
    try {
      await runTask(taskContext(lab, { limits, engines, clock, cancelled, share }), taskId);
    } finally {
      await engines.stop();
    }
    expect(most).toBe(1);
    expect(rest.mock.calls.length).toBeGreaterThan(4);
    const read = (object: string): string =>
      `read_parquet('${lab.lake.directory}/${object}', file_row_number = true, hive_partitioning = false)`;
    const content = "count(*)::INT AS n, bit_xor(hash(time, msg, properties))::VARCHAR AS content";
    const [whole] = await lab.duck(`SELECT ${content} FROM ${read(old)} WHERE service_name <> 'shop'`);
    const kept = Number(whole?.["n"]);
    expect(await taskRow(lab, taskId)).toMatchObject({ state: "done", rows: rows - kept, rewritten: 1, error: null });
    const [left] = await lab.sql<{ path: string; rollup: string }[]>`
    select path, row_count::int as rows, sort_order, attribute_columns, rollup_path as rollup, min_time_ns, max_time_ns
    from lakehouse_partitions`;
    expect(left).toMatchObject({
      rows: kept,
      sort_order: "time,insert_time",
      attribute_columns: ["n"],
      min_time_ns: 0n,
      max_time_ns: BigInt(rows - 1),
    });
    const { path: rewritten = "", rollup = "" } = left ?? {};
    expect(await lab.duck(`SELECT ${content} FROM ${read(rewritten)}`)).toEqual([whole]);
    expect(
      await lab.duck(`SELECT count_if(back)::INT AS back, count_if("attr.n" <> (properties ->> 'n'))::INT AS wrong
      FROM (SELECT *, time < lag(time) OVER (ORDER BY file_row_number) AS back FROM ${read(rewritten)})`),
    ).toEqual([{ back: 0, wrong: 0 }]);
    const [groups] = await lab.duck(`SELECT count(*) > 1 AS several,
        bool_and(bloom_filter_excludes) AS filtered
      FROM parquet_bloom_probe('${lab.lake.directory}/${rewritten}', 'service_name', 'shop')`);
    expect(groups).toEqual({ several: true, filtered: true });
    expect(await lab.duck(`SELECT sum(count)::INT AS n FROM ${read(rollup)}`)).toEqual([{ n: kept }]);
  },
);
