/** Signs of life between the items of a result. */
import { expect, it, vi } from "vitest";

import { paced } from "../../../src/routes/web/query/paced.js";
import { abortReason } from "../../../src/runtime/errors.js";

it("waits long for an item and leaves nothing on what it waits for", async () => {
  const controller = new AbortController();
  let arrive: (item: IteratorResult<number, void>) => void = () => undefined;
  const item = new Promise<IteratorResult<number, void>>((resolve) => {
    arrive = resolve;
  });
  const then = vi.spyOn(item, "then");
  const next = (): typeof item => item;
  const parts = paced({ next, return: () => Promise.resolve({ done: true, value: undefined }) }, 1, controller);
  for (let i = 0; i < 20; i++) {
    expect((await parts.next()).value).toBeNull();
  }
  expect(then).toHaveBeenCalledTimes(1);
  arrive({ done: false, value: 7 });
  expect(await parts.next()).toEqual({ done: false, value: 7 });
  await parts.return(undefined);
  expect(controller.signal.aborted).toBe(true);
});

it("gives items in their order, those that are there without a wait, and what ended them", async () => {
  const items = async function* (): AsyncGenerator<number, void> {
    yield* [1, 2, 3];
    throw await Promise.resolve(new Error("broken"));
  };
  for (const ms of [null, 60_000]) {
    const given: unknown[] = [];
    const read = async (): Promise<void> => {
      for await (const item of paced(items(), ms, new AbortController())) {
        given.push(item);
      }
    };
    await expect(read()).rejects.toThrow("broken");
    expect(given).toEqual([1, 2, 3]);
  }
});

it("ends the calls of a reader that leaves while it waits, whose failure nobody has to hear", async () => {
  const controller = new AbortController();
  const { signal } = controller;
  const silence = async function* (): AsyncGenerator<never, void> {
    yield await new Promise<never>((_resolve, reject) => {
      signal.addEventListener("abort", () => {
        reject(abortReason(signal));
      });
    });
  };
  const parts = paced(silence(), 1, controller);
  expect((await parts.next()).value).toBeNull();
  expect(await parts.return(undefined)).toEqual({ done: true, value: undefined });
  expect(abortReason(signal)).toMatchObject({ code: "CANCELLED" });
});
