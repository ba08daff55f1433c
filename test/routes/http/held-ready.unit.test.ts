import { afterEach, beforeEach, expect, test, vi } from "vitest";

import { heldReady } from "../../../src/routes/http/health.js";
import { ServiceError } from "../../../src/runtime/errors.js";
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

const refused = (): Promise<never> => Promise.reject(new Error("connect ECONNREFUSED 10.0.0.1:5432"));
const full = (): Promise<never> =>
  Promise.reject(new ServiceError("UNAVAILABLE", "the object store cannot be written"));
const fine = (): Promise<void> => Promise.resolve();
const hanging = (): Promise<never> => new Promise(() => undefined);

test.each([
  ["the database cannot be reached", refused, fine],
  ["the database does not answer", hanging, fine],
  ["the object store cannot be written", fine, full],
  ["the object store does not answer", fine, hanging],
])("a dependency is named: %s", async (sentence, database, store) => {
  const told = readyWith(database as unknown as Sql, store)().catch((error: unknown) => error);
  await vi.advanceTimersByTimeAsync(4500);
  expect(await told).toMatchObject({ code: "UNAVAILABLE", message: sentence });
});

test("a probe that hangs keeps later ones back for some seconds only", async () => {
  const results: Promise<string | null>[] = [new Promise(() => undefined), Promise.resolve(null)];
  const ready = heldReady(() => results.shift() ?? Promise.resolve("asked again"));
  const hung = ready();
  await vi.advanceTimersByTimeAsync(5000);
  expect(await hung).toBe("a dependency does not answer");
  expect(await ready()).toBeNull();
});
