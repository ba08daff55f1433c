import { setMaxListeners } from "node:events";

import { describe, expect, it } from "vitest";

import { FairQueue, type Release } from "../../src/query/fair-queue.js";
import { ServiceError } from "../../src/runtime/errors.js";

const { signal } = new AbortController();
setMaxListeners(100, signal);

/** Asks for a place and notes in `order` when it was given. */
function ask(queue: FairQueue, name: string, order: string[], releases: Release[]): void {
  void queue.acquire(name, signal).then((release) => {
    order.push(name);
    return releases.push(release);
  });
}

async function settle(): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve));
}

describe("places for queries", () => {
  it("go to whoever has the fewest running, not to whoever asked most", async () => {
    const queue = new FairQueue({ places: 2, maxWaiting: 100 });
    const order: string[] = [];
    const releases: Release[] = [];
    for (let i = 0; i < 10; i++) ask(queue, "greedy", order, releases);
    ask(queue, "modest", order, releases);
    ask(queue, "third", order, releases);
    await settle();
    expect(order).toEqual(["greedy", "greedy"]);
    releases.shift()?.();
    await settle();
    expect(order).toEqual(["greedy", "greedy", "modest"]);
    releases.shift()?.();
    await settle();
    expect(order).toEqual(["greedy", "greedy", "modest", "third"]);
    expect([queue.running, queue.waiting]).toEqual([2, 8]);
  });

  it("take turns among callers that have as many running", async () => {
    const queue = new FairQueue({ places: 1, maxWaiting: 100 });
    const order: string[] = [];
    const releases: Release[] = [];
    for (const name of ["a", "a", "a", "b", "b", "c"]) ask(queue, name, order, releases);
    for (let i = 0; i < 6; i++) {
      await settle();
      releases.shift()?.();
    }
    expect(order).toEqual(["a", "b", "c", "a", "b", "a"]);
  });

  it("are never all held by one caller when there are several", async () => {
    const queue = new FairQueue({ places: 4, maxWaiting: 100 });
    const order: string[] = [];
    const releases: Release[] = [];
    for (let i = 0; i < 10; i++) ask(queue, "greedy", order, releases);
    await settle();
    expect(order).toHaveLength(3);
    ask(queue, "late", order, releases);
    await settle();
    expect(order.at(-1)).toBe("late");
  });

  it("are given back once, however often that is said", async () => {
    const queue = new FairQueue({ places: 1, maxWaiting: 10 });
    const release = await queue.acquire("a", signal);
    release();
    release();
    expect(queue.running).toBe(0);
    await queue.acquire("a", signal);
    expect(queue.running).toBe(1);
  });

  it("are refused when too many wait, and a wait that is given up leaves nothing behind", async () => {
    const queue = new FairQueue({ places: 1, maxWaiting: 1 });
    const release = await queue.acquire("a", signal);
    const controller = new AbortController();
    const waiting = queue.acquire("b", controller.signal);
    await expect(queue.acquire("c", signal)).rejects.toMatchObject({ code: "OVERLOADED" });
    controller.abort(new ServiceError("DEADLINE_EXCEEDED"));
    await expect(waiting).rejects.toMatchObject({ code: "DEADLINE_EXCEEDED" });
    await expect(queue.acquire("b", controller.signal)).rejects.toMatchObject({
      code: "DEADLINE_EXCEEDED",
    });
    expect(queue.waiting).toBe(0);
    release();
    expect(queue.running).toBe(0);
  });
});
