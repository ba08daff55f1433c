import { setTimeout as sleep } from "node:timers/promises";

import { describe, expect, it } from "vitest";

import { createLanes } from "../../src/query/lanes.js";
import { until } from "../helpers/until.js";

/** A call that ends when it is told to. */
function gate(): {
  readonly call: () => Promise<string>;
  readonly open: () => void;
  started: boolean;
} {
  let open: () => void = () => undefined;
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  const made = {
    started: false,
    open,
    call: async () => {
      made.started = true;
      await opened;
      return "done";
    },
  };
  return made;
}

const tick = (): Promise<void> => sleep(1);

describe("lanes", () => {
  it("run calls one at a time, in the order they came", async () => {
    const lanes = createLanes({ patienceMs: 60_000, maxSlow: 1 });
    const seen: number[] = [];
    let most = 0;
    const results = await Promise.all(
      [0, 1, 2, 3].map((i) =>
        lanes.enter(async () => {
          most = Math.max(most, lanes.busy);
          await tick();
          seen.push(i);
          return i * 10;
        }),
      ),
    );
    expect(results).toEqual([0, 10, 20, 30]);
    expect(seen).toEqual([0, 1, 2, 3]);
    expect(most).toBe(1);
    expect(lanes.busy).toBe(0);
  });

  it("let others pass a call that is slow", async () => {
    const lanes = createLanes({ patienceMs: 1, maxSlow: 1 });
    const slow = gate();
    const first = lanes.enter(slow.call);
    expect(await lanes.enter(() => Promise.resolve(1))).toBe(1);
    expect(await lanes.enter(() => Promise.resolve(2))).toBe(2);
    expect(lanes.busy).toBe(1);
    slow.open();
    expect(await first).toBe("done");
    expect(lanes.busy).toBe(0);
  });

  it("hold the next call back when as many are slow as may be, until one of them returns", async () => {
    const lanes = createLanes({ patienceMs: 1, maxSlow: 1 });
    const [a, b, c] = [gate(), gate(), gate()];
    const calls = [a, b, c].map((one) => lanes.enter(one.call));
    await until(() => b.started);
    await sleep(20);
    expect(c.started).toBe(false);
    a.open();
    await until(() => c.started);
    b.open();
    c.open();
    expect(await Promise.all(calls)).toEqual(["done", "done", "done"]);
  });

  it("go on after a call that failed, whether it was slow or not", async () => {
    const lanes = createLanes({ patienceMs: 1, maxSlow: 1 });
    await expect(lanes.enter(() => Promise.reject(new Error("no")))).rejects.toThrow("no");
    const slow = lanes.enter(async () => {
      await sleep(20);
      throw new Error("late");
    });
    const next = lanes.enter(() => Promise.resolve("next"));
    await expect(slow).rejects.toThrow("late");
    expect(await next).toBe("next");
    expect(lanes.busy).toBe(0);
  });
});
