import { expect, it } from "vitest";

import { CpuShare } from "../../src/lake/merge/cpu-share.js";
import { createManualClock } from "../helpers/manual-clock.js";

it("lets a share of the CPUs be spent over a minute, whatever one step takes", () => {
  const clock = createManualClock();
  const share = new CpuShare({ percent: 25, cpus: 2, clock });
  const startMs = clock.monotonicMs();
  let spent = 0;
  for (let step = 0; clock.monotonicMs() - startMs < 60_000; step++) {
    const seconds = 0.2 + (step % 7);
    share.spend(seconds);
    spent += seconds;
    clock.advance(share.debtMs);
  }
  const elapsed = (clock.monotonicMs() - startMs) / 1000;
  // What was saved before, and nothing else, comes on top.
  expect(spent / elapsed / 2).toBeLessThanOrEqual(0.25 * (1 + 5 / 60));
  expect(spent / elapsed / 2).toBeGreaterThan(0.24);
});

it("saves little while nothing is done, and waits for nothing when all CPUs may be used", async () => {
  const clock = createManualClock();
  const share = new CpuShare({ percent: 50, cpus: 2, clock });
  clock.advance(3_600_000);
  share.spend(5);
  expect(share.debtMs).toBe(0);
  share.spend(1);
  expect(share.debtMs).toBe(1000);
  await share.rest(() => true);
  const whole = new CpuShare({ percent: 100, cpus: 2, clock });
  whole.spend(1000);
  expect(whole.debtMs).toBe(0);
});
