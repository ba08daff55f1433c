import { afterEach, beforeEach, expect, test, vi } from "vitest";

import { heldReady } from "../../../src/routes/http/health.js";
import { readyWith } from "../../../src/servers/stores.js";
import type { Sql } from "../../../src/db/sql.js";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

test("those who ask together share a probe, whose good result holds for a second", async () => {
  let runs = 0;
  const ready = readyWith((() => Promise.resolve(runs++)) as unknown as Sql);
  expect(await Promise.all([ready(), ready(), ready()])).toEqual([null, null, null]);
  vi.advanceTimersByTime(999);
  await ready();
  expect(runs).toBe(1);
  vi.advanceTimersByTime(1);
  await ready();
  expect(runs).toBe(2);
});

test("what is wrong holds for those only who asked together", async () => {
  const results = [
    () => Promise.resolve("broken"),
    () => Promise.reject(new Error("away")),
    () => Promise.resolve(null),
  ];
  const ready = heldReady(() => results.shift()?.() ?? Promise.resolve("asked again"));
  expect(await Promise.all([ready(), ready()])).toEqual(["broken", "broken"]);
  await expect(Promise.all([ready(), ready()])).rejects.toThrow("away");
  expect(await ready()).toBeNull();
});

test("a probe that hangs keeps later ones back for some seconds only", async () => {
  const results: Promise<string | null>[] = [new Promise(() => undefined), Promise.resolve(null)];
  const ready = heldReady(() => results.shift() ?? Promise.resolve("asked again"));
  const hung = ready();
  await vi.advanceTimersByTimeAsync(5000);
  expect(await hung).toBe("a dependency does not answer");
  expect(await ready()).toBeNull();
});
