import { describe, expect, it } from "vitest";

import { sizeEngines, type SizingOptions } from "../../src/query/backend/engine-sizing.js";

const gib = 2 ** 30;
const machine: SizingOptions = {
  maxConcurrent: 16,
  memoryBytes: null,
  processBytes: 320 << 20,
  machineBytes: 32 * gib,
  cores: 4,
};

function together(o: SizingOptions): number {
  const { queries, inspections, memoryBytes } = sizeEngines(o);
  return (queries + inspections) * (memoryBytes + o.processBytes);
}

describe("engine processes", () => {
  it.each([4, 8, 16, 32, 256])("take less than half of a machine of %i GiB, all of them together", (size) => {
    const o = { ...machine, machineBytes: size * gib };
    expect(together(o)).toBeLessThanOrEqual((size * gib) / 2);
  });

  it("are fewer where there is little memory, and of a useful size", () => {
    const small = sizeEngines({ ...machine, machineBytes: 4 * gib });
    expect(small.queries).toBeLessThan(16);
    expect(small.queries).toBeGreaterThan(0);
    expect(small.memoryBytes).toBeGreaterThanOrEqual(256 << 20);
    expect(sizeEngines({ ...machine, machineBytes: gib / 2 }).queries).toBe(1);
    expect(sizeEngines({ ...machine, machineBytes: 64 * gib }).queries).toBe(16);
  });

  it("are as many and as large as they are set", () => {
    const o = { ...machine, memoryBytes: 5 * gib, machineBytes: gib };
    expect(sizeEngines(o)).toEqual({ queries: 16, inspections: 2, memoryBytes: 5 * gib, threads: 4 });
  });

  it.each([
    ["all of few cores", { cores: 2 }, 2],
    ["no more of 64 cores than its memory lasts for", { cores: 64 }, 9],
    ["one, at the least memory", { cores: 64, memoryBytes: 64 << 20 }, 1],
    ["all of 64 cores, at the most memory", { cores: 64, machineBytes: 512 * gib }, 64],
  ])("have threads: %s", (_, o, threads) => {
    expect(sizeEngines({ ...machine, ...o }).threads).toBe(threads);
  });
});
