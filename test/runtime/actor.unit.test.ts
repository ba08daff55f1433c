import * as fc from "fast-check";
import { describe, expect, test } from "vitest";

import { Actor, type Reply, ask } from "../../src/runtime/actor.js";
import { createManualClock } from "../helpers/manual-clock.js";
import { createSilentLogger } from "../../src/runtime/log/log.js";
import { Ring } from "../../src/runtime/collections/ring.js";

const logger = createSilentLogger();

function gate(): { readonly opened: Promise<void>; readonly open: () => void } {
  let open: () => void = () => undefined;
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { opened, open };
}

function turn(): Promise<void> {
  return new Promise((resolve) => {
    setImmediate(resolve);
  });
}

describe("mailbox", () => {
  test("one message at a time is handled, in order, even when handlers wait", async () => {
    const seen: string[] = [];
    const actor = new Actor<number>({
      name: "a",
      capacity: 10,
      logger,
      handle: async (n) => {
        seen.push(`begin ${n}`);
        await turn();
        seen.push(`end ${n}`);
      },
    });
    expect([actor.tell(1), actor.tell(2), actor.tell(3)]).toEqual([true, true, true]);
    await actor.stop();
    expect(seen).toEqual(["begin 1", "end 1", "begin 2", "end 2", "begin 3", "end 3"]);
  });

  test("a full mailbox refuses, and takes messages again when there is room", async () => {
    const { opened, open } = gate();
    const seen: number[] = [];
    const actor = new Actor<number>({
      name: "a",
      capacity: 2,
      logger,
      handle: async (n) => {
        await opened;
        seen.push(n);
      },
    });
    expect(actor.tell(1)).toBe(true);
    await turn(); // 1 is being handled and no longer waits
    expect([actor.tell(2), actor.tell(3), actor.tell(4)]).toEqual([true, true, false]);
    expect(actor.depth).toBe(2);
    open();
    await turn();
    expect(actor.tell(5)).toBe(true);
    await actor.stop();
    expect(seen).toEqual([1, 2, 3, 5]);
  });

  test("stop handles what waits and refuses what comes after", async () => {
    const { opened, open } = gate();
    const seen: number[] = [];
    const actor = new Actor<number>({
      name: "a",
      capacity: 10,
      logger,
      handle: async (n) => {
        await opened;
        seen.push(n);
      },
    });
    actor.tell(1);
    actor.tell(2);
    const stopped = actor.stop();
    expect(actor.tell(3)).toBe(false);
    open();
    await stopped;
    await actor.stop();
    expect(seen).toEqual([1, 2]);
    expect(actor.depth).toBe(0);
  });

  test("an endless stream of synchronous messages leaves the event loop its turns", async () => {
    let handled = 0;
    let turns = 0;
    const actor: Actor<null> = new Actor({
      name: "a",
      capacity: 4,
      logger,
      handle: (m: null) => {
        handled++;
        if (turns < 3) {
          actor.tell(m);
        }
      },
    });
    actor.tell(null);
    for (; turns < 3; turns++) {
      await turn();
    }
    await actor.stop();
    expect(handled).toBeGreaterThan(3);
  });

  test("a batch handler receives everything that waits, at most maxBatch", async () => {
    const batches: number[][] = [];
    const actor = new Actor<number>({
      name: "a",
      capacity: 10,
      logger,
      maxBatch: 3,
      handleBatch: async (messages) => {
        batches.push(messages);
        await turn();
      },
    });
    for (let i = 0; i < 7; i++) {
      actor.tell(i);
    }
    await actor.stop();
    expect(batches).toEqual([[0, 1, 2], [3, 4, 5], [6]]);
  });
});

describe("supervision", () => {
  test("a message whose handler throws fails alone, and the next one finds fresh state", async () => {
    const failed: [number, string][] = [];
    const totals: number[] = [];
    let created = 0;
    const actor = new Actor<number, { total: number }>({
      name: "a",
      capacity: 10,
      logger,
      create: () => {
        created++;
        return { total: 0 };
      },
      handle: (n, state) => {
        if (n < 0) {
          throw new Error("negative");
        }
        state.total += n;
        totals.push(state.total);
      },
      onError: (n, error) => {
        failed.push([n, (error as Error).message]);
      },
    });
    for (const n of [1, 2, -1, 4]) {
      actor.tell(n);
    }
    await actor.stop();
    expect(totals).toEqual([1, 3, 4]);
    expect(created).toBe(2);
    expect(failed).toEqual([[-1, "negative"]]);
    expect(actor.healthy).toBe(true);
  });

  test("every message of a failed batch is told of it, whatever the handler did to its array", async () => {
    const failed: number[] = [];
    const actor = new Actor<number>({
      name: "a",
      capacity: 10,
      logger,
      handleBatch: async (messages) => {
        messages.splice(0);
        await turn();
        throw new Error("no");
      },
      onError: (n) => {
        failed.push(n);
      },
    });
    actor.tell(1);
    actor.tell(2);
    await actor.stop();
    expect(failed).toEqual([1, 2]);
  });

  test("too many failures in a row make it unhealthy, and one success healthy again", async () => {
    const actor = new Actor<boolean>({
      name: "a",
      capacity: 10,
      logger,
      maxRestarts: 2,
      handle: (works) => {
        if (!works) {
          throw new Error("no");
        }
      },
    });
    actor.tell(false);
    actor.tell(false);
    await turn();
    expect(actor.healthy).toBe(true);
    actor.tell(false);
    await turn();
    expect(actor.healthy).toBe(false);
    actor.tell(true);
    await turn();
    expect(actor.healthy).toBe(true);
    await actor.stop();
  });

  test("failures that are spread over more than the window do not add up", async () => {
    const clock = createManualClock();
    const actor = new Actor<null>({
      name: "a",
      capacity: 10,
      logger,
      clock,
      maxRestarts: 1,
      restartWindowMs: 1000,
      handle: () => {
        throw new Error("no");
      },
    });
    for (let i = 0; i < 5; i++) {
      actor.tell(null);
      await turn();
      clock.advance(1001);
    }
    expect(actor.healthy).toBe(true);
    actor.tell(null);
    actor.tell(null);
    await actor.stop();
    expect(actor.healthy).toBe(false);
  });

  test("a state that cannot be created fails the message and is tried again for the next", async () => {
    let attempts = 0;
    const seen: number[] = [];
    const failed: number[] = [];
    const actor = new Actor<number, string>({
      name: "a",
      capacity: 10,
      logger,
      create: () => {
        attempts++;
        if (attempts === 1) {
          throw new Error("not yet");
        }
        return "state";
      },
      handle: (n) => {
        seen.push(n);
      },
      onError: (n) => {
        failed.push(n);
      },
    });
    actor.tell(1);
    actor.tell(2);
    await actor.stop();
    expect(failed).toEqual([1]);
    expect(seen).toEqual([2]);
  });
});

describe("ask", () => {
  interface Question {
    readonly n: number;
    readonly reply: Reply<number>;
  }
  const doubling = (capacity: number, wait: Promise<void>): Actor<Question> =>
    new Actor<Question>({
      name: "doubler",
      capacity,
      logger,
      handle: async ({ n, reply }) => {
        await wait;
        if (n < 0) {
          throw new Error("negative");
        }
        reply.resolve(n * 2);
      },
    });

  test("is answered by the handler, and rejected when the handler throws", async () => {
    const actor = doubling(10, Promise.resolve());
    const question = (n: number): Promise<number> => ask(actor, (reply: Reply<number>) => ({ n, reply }));
    await expect(question(21)).resolves.toBe(42);
    await expect(question(-1)).rejects.toThrow("negative");
    await actor.stop();
  });

  test("is OVERLOADED when the mailbox is full and UNAVAILABLE when the actor has stopped", async () => {
    const { opened, open } = gate();
    const actor = doubling(1, opened);
    const question = (): Promise<number> => ask(actor, (reply: Reply<number>) => ({ n: 1, reply }));
    const first = question();
    await turn();
    const second = question();
    await expect(question()).rejects.toMatchObject({ code: "OVERLOADED", retryable: true });
    open();
    await expect(Promise.all([first, second])).resolves.toEqual([2, 2]);
    await actor.stop();
    await expect(question()).rejects.toMatchObject({ code: "UNAVAILABLE" });
  });
});

test("for any interleaving of sending and waiting, accepted messages are handled once and in order", async () => {
  const script = fc.array(fc.oneof(fc.constant("turn" as const), fc.integer({ min: 1, max: 40 })), {
    maxLength: 30,
  });
  await fc.assert(
    fc.asyncProperty(
      script,
      fc.integer({ min: 1, max: 100 }),
      fc.boolean(),
      fc.integer({ min: 2, max: 9 }),
      async (steps, capacity, batching, failEvery) => {
        const accepted: number[] = [];
        const handled: number[] = [];
        const failed: number[] = [];
        let inside = 0;
        const work = async (messages: readonly number[]): Promise<void> => {
          inside++;
          expect(inside).toBe(1);
          const fails = messages.some((n) => n % failEvery === 0);
          if (messages.some((n) => n % 3 === 0)) {
            await turn();
          }
          inside--;
          if (fails) {
            throw new Error("no");
          }
          handled.push(...messages);
        };
        const common = {
          name: "a",
          capacity,
          logger,
          onError: (n: number): void => {
            failed.push(n);
          },
        };
        const actor = batching
          ? new Actor<number>({ ...common, maxBatch: 7, handleBatch: work })
          : new Actor<number>({ ...common, handle: (n) => work([n]) });
        let next = 0;
        for (const step of steps) {
          if (step === "turn") {
            await turn();
            continue;
          }
          for (let i = 0; i < step; i++) {
            const full = actor.depth === capacity;
            const taken = actor.tell(next);
            expect(taken).toBe(!full);
            if (taken) {
              accepted.push(next);
            }
            next++;
          }
        }
        await actor.stop();
        const outcome = [...handled, ...failed].sort((a, b) => a - b);
        expect(outcome).toEqual(accepted);
        expect(handled).toEqual([...handled].sort((a, b) => a - b));
      },
    ),
    { numRuns: 100 },
  );
});

test("a ring behaves like a bounded array", () => {
  const apply = {
    push: (ring: Ring<number>, model: number[], n: number) => {
      const fits = Math.min(n, ring.capacity - model.length);
      const items = Array.from({ length: n }, (_, i) => i);
      model.push(...items.slice(0, fits));
      return [items.filter((i) => ring.push(i)).length, fits];
    },
    take: (ring: Ring<number>, model: number[], n: number) => [ring.takeMany(n), model.splice(0, n)],
    remove: (ring: Ring<number>, model: number[], n: number) => [
      ring.remove(n),
      model.includes(n) && model.splice(model.indexOf(n), 1).length === 1,
    ],
  };
  const operations = fc.array(
    fc.oneof(
      fc.record({ op: fc.constant("push" as const), n: fc.nat(20) }),
      fc.record({ op: fc.constant("take" as const), n: fc.nat(20) }),
      fc.record({ op: fc.constant("remove" as const), n: fc.nat(20) }),
    ),
    { maxLength: 400 },
  );
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 150 }), operations, (capacity, list) => {
      const ring = new Ring<number>(capacity);
      const model: number[] = [];
      for (const { op, n } of list) {
        const [got, expected] = apply[op](ring, model, n);
        expect(got).toEqual(expected);
        expect(ring.size).toBe(model.length);
      }
      expect(ring.takeMany(capacity)).toEqual(model);
      expect(() => ring.take()).toThrow(RangeError);
    }),
    { numRuns: 100 },
  );
});
