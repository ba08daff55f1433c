import { describe, expect, it } from "vitest";

import { Breaker } from "../../src/runtime/breaker.js";

describe("a breaker", () => {
  const changes: boolean[] = [];
  let nowMs = 0;
  const breaker = (): Breaker => {
    changes.length = 0;
    nowMs = 0;
    return new Breaker({ failures: 2, pauseMs: 100, monotonicMs: () => nowMs, onChange: (open) => changes.push(open) });
  };

  it("opens after failures in a row only", () => {
    const b = breaker();
    b.enter()?.failed();
    b.enter()?.succeeded();
    b.enter()?.failed();
    expect(b.enter()).not.toBeNull();
    b.enter()?.left();
    b.enter()?.failed();
    expect(b.enter()).toBeNull();
    expect(changes).toEqual([true]);
    expect(b.open).toBe(true);
  });

  it("lets one try at a time, and another when that one has left", () => {
    const b = breaker();
    b.enter()?.failed();
    b.enter()?.failed();
    nowMs = 100;
    const trial = b.enter();
    expect([trial === null, b.enter()]).toEqual([false, null]);
    trial?.left();
    const second = b.enter();
    expect(second).not.toBeNull();
    second?.failed();
    expect(b.enter()).toBeNull();
    nowMs = 200;
    b.enter()?.succeeded();
    expect(b.enter()).not.toBeNull();
    expect(changes).toEqual([true, false]);
    expect(b.open).toBe(false);
  });

  it("lets others ask as soon as one is answered, and counts its failure as one of many", () => {
    const b = breaker();
    b.enter()?.failed();
    b.enter()?.failed();
    nowMs = 100;
    const trial = b.enter();
    trial?.answered();
    expect([b.open, b.enter() === null]).toEqual([false, false]);
    trial?.failed();
    expect(b.open).toBe(false);
    b.enter()?.failed();
    expect(b.open).toBe(true);
    expect(changes).toEqual([true, false, true]);
  });

  it("does not listen to those who began before it opened", () => {
    const b = breaker();
    const [early, late] = [b.enter(), b.enter()];
    b.enter()?.failed();
    b.enter()?.failed();
    early?.succeeded();
    expect(b.enter()).toBeNull();
    nowMs = 99;
    late?.failed();
    nowMs = 100;
    expect(b.enter()).not.toBeNull();
  });
});
