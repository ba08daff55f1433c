import { setTimeout as sleep } from "node:timers/promises";

import { expect, test } from "vitest";

import { paced } from "../../src/runtime/single-flight.js";

test("those who ask together share a run that begins after they asked, and its failure", async () => {
  let runs = 0;
  const ask = paced(() => {
    runs++;
    return runs === 2 ? Promise.reject(new Error("second")) : Promise.resolve(runs);
  });
  expect(await Promise.all([ask(), ask(), ask()])).toEqual([1, 1, 1]);
  await expect(Promise.all([ask(), ask()])).rejects.toThrow("second");
  expect(await ask()).toBe(3);
});

test("who asks during a run gets the next one", async () => {
  let runs = 0;
  const ask = paced(async () => {
    const run = ++runs;
    await sleep(20);
    return run;
  });
  const first = ask();
  await sleep(5);
  expect(runs).toBe(1);
  expect(await Promise.all([first, ask(), ask()])).toEqual([1, 2, 2]);
});

test("it takes a tenth of the time, however often it is asked for", async () => {
  const runs: { readonly startMs: number; readonly endMs: number }[] = [];
  const ask = paced(() => {
    const startMs = performance.now();
    while (performance.now() - startMs < 5) {
      // rendering
    }
    runs.push({ startMs, endMs: performance.now() });
    return Promise.resolve();
  });
  for (let round = 0; round < 10; round++) {
    await Promise.all([ask(), ask()]);
  }
  expect(runs).toHaveLength(10);
  for (const [at, { startMs, endMs }] of runs.slice(0, -1).entries()) {
    // A machine that is busy elsewhere makes a run long, and no pause is longer than a second. Timers may be a little early.
    const wantedMs = Math.min(9 * (endMs - startMs), 1000) - 2;
    expect((runs[at + 1]?.startMs ?? 0) - endMs).toBeGreaterThanOrEqual(wantedMs);
  }
});
