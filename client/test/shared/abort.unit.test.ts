import { getEventListeners } from "node:events";

import { describe, expect, it } from "vitest";

import { followSignals } from "../../src/shared/abort.js";

const listenersOf = (signal: AbortSignal): number => getEventListeners(signal, "abort").length;

describe("what follows a signal", () => {
  it("shares one listener, which goes with the last that is released", () => {
    const { signal } = new AbortController();
    const followed = Array.from({ length: 12 }, () => followSignals([signal]));
    expect(listenersOf(signal)).toBe(1);
    for (const { release } of followed.slice(1)) {
      release();
    }
    expect(listenersOf(signal)).toBe(1);
    followed[0]?.release();
    expect(listenersOf(signal)).toBe(0);
  });

  it("aborts for its reason, unless it was released", () => {
    const source = new AbortController();
    const [released, first, second] = [
      followSignals([source.signal]),
      followSignals([source.signal]),
      followSignals([source.signal]),
    ];
    released.release();
    const reason = new Error("enough");
    source.abort(reason);
    expect([released, first, second].map(({ controller }) => controller.signal.reason as unknown)).toEqual([
      undefined,
      reason,
      reason,
    ]);
    expect(followSignals([source.signal]).controller.signal.reason).toBe(reason);
  });

  it("is not let go by another that is released twice", () => {
    const source = new AbortController();
    const early = followSignals([source.signal]);
    early.release();
    const late = followSignals([source.signal]);
    early.release();
    const third = followSignals([source.signal]);
    expect(listenersOf(source.signal)).toBe(1);
    source.abort();
    expect([late, third].map(({ controller }) => controller.signal.aborted)).toEqual([true, true]);
  });
});
