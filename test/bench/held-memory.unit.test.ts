import { existsSync, readFileSync } from "node:fs";
import { expect, it } from "vitest";

import { holdMemory } from "../../bench/load/held-memory.js";

it.skipIf(!existsSync("/proc/self/status"))("holds memory, and gives it back", async () => {
  const memory = await holdMemory(150 * 1024 * 1024);
  const resident = /^VmRSS:\s+(\d+) kB$/mu.exec(readFileSync(`/proc/${memory.pid}/status`, "utf8"))?.[1];
  expect(Number(resident)).toBeGreaterThan(150 * 1024);
  await memory.stop();
  expect(existsSync(`/proc/${memory.pid}`)).toBe(false);
});
