import { setMaxListeners } from "node:events";

import { describe, expect, it } from "vitest";

import { FairQueue, type Place } from "../../src/runtime/turns/fair-queue.js";
import { createManualClock } from "../helpers/manual-clock.js";
import { ServiceError } from "../../src/runtime/errors.js";

const { signal } = new AbortController();
setMaxListeners(100, signal);

/** Asks for a place and notes in `order` when it was given. */
function ask(queue: FairQueue, name: string, order: string[], places: Place[]): void {
  void queue.acquire(name, signal).then((place) => {
    order.push(name);
    return places.push(place);
  });
}

async function settle(): Promise<void> {
  await new Promise((resolve) => setImmediate(resolve));
}

describe("places for queries", () => {
  it("go to the caller with the fewest running, not to the one who asked most", async () => {
    const queue = new FairQueue({ places: 2, maxWaiting: 100 });
    const order: string[] = [];
    const places: Place[] = [];
    for (let i = 0; i < 10; i++) {
      ask(queue, "greedy", order, places);
    }
    ask(queue, "modest", order, places);
    ask(queue, "third", order, places);
    await settle();
    expect(order).toEqual(["greedy", "greedy"]);
    places.shift()?.release();
    await settle();
    expect(order).toEqual(["greedy", "greedy", "modest"]);
    places.shift()?.release();
    await settle();
    expect(order).toEqual(["greedy", "greedy", "modest", "third"]);
    expect([queue.running, queue.waiting]).toEqual([2, 8]);
  });

  it("take turns among callers that have as many running", async () => {
    const queue = new FairQueue({ places: 1, maxWaiting: 100 });
    const order: string[] = [];
    const places: Place[] = [];
    for (const name of ["a", "a", "a", "b", "b", "c"]) {
      ask(queue, name, order, places);
    }
    for (let i = 0; i < 6; i++) {
      await settle();
      places.shift()?.release();
    }
    expect(order).toEqual(["a", "b", "c", "a", "b", "a"]);
  });

  it("come to a caller with several queries though others come back again and again", async () => {
    const queue = new FairQueue({ places: 1, maxWaiting: 100 });
    const order: string[] = [];
    const places: Place[] = [];
    const names = ["a", "b", "page", "page", "page"];
    for (const name of names) {
      ask(queue, name, order, places);
    }
    for (let i = 0; i < 9; i++) {
      await settle();
      places.shift()?.release();
      const served = order.at(-1);
      if (served === "a" || served === "b") {
        ask(queue, served, order, places);
      }
    }
    expect(order.slice(0, 9)).toEqual(["a", "b", "page", "a", "b", "page", "a", "b", "page"]);
  });

  it("are never all held by one caller when there are several", async () => {
    const queue = new FairQueue({ places: 4, maxWaiting: 100 });
    const order: string[] = [];
    const places: Place[] = [];
    for (let i = 0; i < 10; i++) {
      ask(queue, "greedy", order, places);
    }
    await settle();
    expect(order).toHaveLength(3);
    ask(queue, "late", order, places);
    await settle();
    expect(order.at(-1)).toBe("late");
  });

  it("are given back once, however often that is said", async () => {
    const queue = new FairQueue({ places: 1, maxWaiting: 10 });
    const place = await queue.acquire("a", signal);
    place.release();
    place.release();
    expect(queue.running).toBe(0);
    await queue.acquire("a", signal);
    expect(queue.running).toBe(1);
  });

  it("are refused when too many wait, and a wait that is given up leaves nothing behind", async () => {
    const queue = new FairQueue({ places: 1, maxWaiting: 1 });
    const place = await queue.acquire("a", signal);
    const controller = new AbortController();
    const waiting = queue.acquire("b", controller.signal);
    await expect(queue.acquire("c", AbortSignal.timeout(5000))).rejects.toMatchObject({ code: "OVERLOADED" });
    controller.abort(new ServiceError("DEADLINE_EXCEEDED"));
    await expect(waiting).rejects.toMatchObject({ code: "DEADLINE_EXCEEDED" });
    await expect(queue.acquire("b", controller.signal)).rejects.toMatchObject({
      code: "DEADLINE_EXCEEDED",
    });
    expect(queue.waiting).toBe(0);
    place.release();
    expect(queue.running).toBe(0);
  });

  it("are refused to the newest of who waits most when too many wait", async () => {
    const queue = new FairQueue({ places: 2, maxWaiting: 4 });
    const order: string[] = [];
    const refused: string[] = [];
    const places: Place[] = [];
    const wait = (name: string): void => {
      void queue.acquire(name.charAt(0), signal).then(
        (place) => {
          order.push(name);
          return places.push(place);
        },
        (error: unknown) => refused.push(`${name} ${error instanceof ServiceError ? error.code : ""}`),
      );
    };
    for (let i = 1; i <= 7; i++) {
      wait(`a${i}`);
    }
    await settle();
    expect(refused).toEqual(["a7 OVERLOADED"]);
    for (const name of ["b1", "b2", "b3", "c1", "c2"]) {
      wait(name);
    }
    await settle();
    expect(refused.slice(1)).toEqual([
      "a6 OVERLOADED",
      "a5 OVERLOADED",
      // With it he would have the most.
      "b3 OVERLOADED",
      "a4 OVERLOADED",
      // With it he would have as many as the one with the most.
      "c2 OVERLOADED",
    ]);
    expect([queue.running, queue.waiting]).toEqual([2, 4]);
    for (let i = 0; i < 4; i++) {
      places.shift()?.release();
      await settle();
    }
    expect(order).toEqual(["a1", "a2", "b1", "c1", "a3", "b2"]);
    expect(queue.waiting).toBe(0);
  });

  it("are given to who may have one, however many wait who may not", async () => {
    const queue = new FairQueue({ places: 4, maxWaiting: 2 });
    const order: string[] = [];
    for (const name of ["a", "a", "a", "a", "a", "b"]) {
      ask(queue, name, order, []);
    }
    await settle();
    expect([order, queue.waiting]).toEqual([["a", "a", "a", "b"], 2]);
  });

  it("are half of them at most for one caller while others wait", async () => {
    const queue = new FairQueue({ places: 8, maxWaiting: 100 });
    const order: string[] = [];
    const places: Place[] = [];
    for (let i = 0; i < 20; i++) {
      ask(queue, "greedy", order, places);
    }
    for (let i = 0; i < 20; i++) {
      ask(queue, "late", order, places);
    }
    for (let i = 0; i < 20; i++) {
      await settle();
      places.shift()?.release();
    }
    await settle();
    // Since the late one came, each has got every other place.
    const since = order.slice(order.indexOf("late"));
    expect(since.filter((name) => name === "greedy").length).toBeLessThanOrEqual(since.length / 2);
  });

  it("are half of them at most for one caller while another has asked within a minute, though nobody else waits", async () => {
    const clock = createManualClock();
    const queue = new FairQueue({ places: 8, maxWaiting: 100, clock });
    (await queue.acquire("dashboard", signal)).release();
    const order: string[] = [];
    const places: Place[] = [];
    for (let i = 0; i < 10; i++) {
      ask(queue, "greedy", order, places);
    }
    await settle();
    expect([queue.running, queue.waiting]).toEqual([4, 6]);
    clock.advance(59_000);
    await settle();
    expect(queue.running).toBe(4);
    // Nobody asks and nothing ends: time alone gives the others away, all but the last.
    clock.advance(1000);
    await settle();
    expect([queue.running, queue.waiting]).toEqual([7, 3]);
    ask(queue, "dashboard", order, places);
    places.shift()?.release();
    await settle();
    expect([order.at(-1), queue.running]).toEqual(["dashboard", 7]);
  });

  it("are half of them for each of two callers but the last one, which is for a third", async () => {
    const queue = new FairQueue({ places: 4, maxWaiting: 100 });
    const order: string[] = [];
    for (const name of ["a", "b", "a", "b", "a", "b"]) {
      ask(queue, name, order, []);
    }
    await settle();
    expect(order).toEqual(["a", "b", "a"]);
    ask(queue, "c", order, []);
    await settle();
    expect(order.at(-1)).toBe("c");
  });
});

describe("a place whose reader takes nothing", () => {
  const second = 1000;
  const stall = async (clock: ReturnType<typeof createManualClock>, seconds: number) => {
    for (let i = 0; i < seconds; i++) {
      clock.advance(second);
      await settle();
    }
  };

  it("is taken away after 30 seconds, when somebody waits", async () => {
    const clock = createManualClock();
    const queue = new FairQueue({ places: 2, maxWaiting: 10, clock });
    const [stalled, read] = await Promise.all([queue.acquire("a", signal), queue.acquire("a", signal)]);
    stalled.offered();
    read.offered();
    read.taken();
    await stall(clock, 120);
    expect(stalled.signal.aborted).toBe(false);
    const waiting = queue.acquire("b", signal);
    await stall(clock, 2);
    expect(stalled.signal.reason).toMatchObject({ code: "OVERLOADED" });
    expect(read.signal.aborted).toBe(false);
    stalled.release();
    (await waiting).release();
  });

  it("stays as long as none of those who wait may have it", async () => {
    const clock = createManualClock();
    const queue = new FairQueue({ places: 4, maxWaiting: 10, clock });
    const stalled = await queue.acquire("b", signal);
    stalled.offered();
    await stall(clock, 29);
    // Half of the places are his, and one is free.
    const order: string[] = [];
    for (let i = 0; i < 3; i++) {
      ask(queue, "a", order, []);
    }
    await stall(clock, 10);
    expect([queue.running, queue.waiting, stalled.signal.aborted]).toEqual([3, 1, false]);
    // Where b has not asked for a minute it is not kept from a any more.
    await stall(clock, 22);
    expect([order.length, stalled.signal.aborted]).toEqual([2, true]);
    stalled.release();
    await settle();
    expect(order.length).toBe(3);
  });

  it("is taken away as often as those who wait may have one", async () => {
    const clock = createManualClock();
    const queue = new FairQueue({ places: 8, maxWaiting: 100, clock });
    const first: Place[] = [];
    for (const name of ["b", "b", "b", "b", "a", "a", "a"]) {
      ask(queue, name, [], first);
    }
    await settle();
    for (const place of first) {
      place.offered();
    }
    await stall(clock, 28);
    for (const place of first.slice(4)) {
      place.taken();
    }
    const order: string[] = [];
    for (const name of ["a", "a", "c", "c"]) {
      ask(queue, name, order, []);
    }
    await stall(clock, 3);
    // One of each goes on, and the last place is for somebody else.
    const taken = first.filter((place) => place.signal.aborted);
    expect([taken.length, queue.running, queue.waiting]).toEqual([3, 8, 3]);
    for (const place of taken) {
      place.release();
    }
    await settle();
    expect([order.sort(), queue.running, queue.waiting]).toEqual([["a", "c", "c"], 7, 1]);
  });

  it("stays when it was read from in time, and as long as nobody waits", async () => {
    const clock = createManualClock();
    const queue = new FairQueue({ places: 1, maxWaiting: 10, clock });
    const place = await queue.acquire("a", signal);
    place.offered();
    await stall(clock, 29);
    const waiting = queue.acquire("b", signal);
    place.taken();
    place.offered();
    await stall(clock, 29);
    expect(place.signal.aborted).toBe(false);
    await stall(clock, 3);
    expect(place.signal.aborted).toBe(true);
    place.release();
    (await waiting).release();
  });
});
