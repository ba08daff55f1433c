/** Both ends of a channel on one thread: what crosses it is cloned all the same. */
import { MessageChannel } from "node:worker_threads";

import { afterEach, expect, test } from "vitest";

import { ServiceError } from "../../src/runtime/errors.js";
import { Channel } from "../../src/runtime/threads/channel.js";
import { until } from "../helpers/until.js";

interface Front {
  told(notice: { readonly text: string }): void;
}

interface Back {
  add(numbers: { readonly a: number; readonly b: number }): Promise<number>;
  fail(kind: "known" | "unknown"): Promise<void>;
  uncloneable(): Promise<unknown>;
  never(): Promise<void>;
  bytes(notice: { readonly bytes: Uint8Array }): void;
  total(): Promise<number>;
}

let close: () => void = () => undefined;
afterEach(() => {
  close();
});

function connect(): {
  front: Channel<Front, Back>;
  back: Channel<Back, Front>;
  told: string[];
} {
  const { port1, port2 } = new MessageChannel();
  close = () => {
    port1.close();
  };
  const told: string[] = [];
  let total = 0;
  const front = new Channel<Front, Back>(port1, "the back", {
    told: ({ text }) => told.push(text),
  });
  const back = new Channel<Back, Front>(port2, "the front", {
    add: ({ a, b }) => Promise.resolve(a + b),
    fail: (kind) => {
      const cause = new RangeError("inner");
      return kind === "known"
        ? Promise.reject(new ServiceError("CONFLICT", "taken", { cause, retryAfterSeconds: 7 }))
        : Promise.reject(new SyntaxError("unexpected thing"));
    },
    uncloneable: () => Promise.resolve(() => undefined),
    never: () => new Promise(() => undefined),
    bytes: ({ bytes }) => {
      total += bytes.length;
    },
    total: () => Promise.resolve(total),
  });
  return { front, back, told };
}

test("questions are answered, each with its own answer", async () => {
  const { front } = connect();
  const sums = await Promise.all([1, 2, 3].map((a) => front.ask("add", { a, b: 10 })));
  expect(sums).toEqual([11, 12, 13]);
});

test("errors keep code, retry time and cause, and any other is INTERNAL with the original as cause", async () => {
  const { front } = connect();
  await expect(front.ask("fail", "known")).rejects.toMatchObject({
    name: "ServiceError",
    code: "CONFLICT",
    message: "taken",
    retryAfterSeconds: 7,
    cause: { name: "RangeError", message: "inner" },
  });
  await expect(front.ask("fail", "unknown")).rejects.toMatchObject({
    code: "INTERNAL",
    cause: { name: "SyntaxError", message: "unexpected thing" },
  });
});

test("what cannot be cloned is INTERNAL in either direction, and the channel goes on", async () => {
  const { front } = connect();
  const a = (() => undefined) as unknown as number;
  await expect(front.ask("add", { a, b: 1 })).rejects.toMatchObject({ code: "INTERNAL" });
  await expect(front.ask("uncloneable", undefined)).rejects.toMatchObject({ code: "INTERNAL" });
  expect(await front.ask("add", { a: 1, b: 1 })).toBe(2);
});

test("notices go both ways, before the questions that follow them, and move their buffers", async () => {
  const { front, back, told } = connect();
  back.tell({ kind: "told", text: "one" });
  back.tell({ kind: "told", text: "two" });
  const bytes = new Uint8Array(5);
  front.tell({ kind: "bytes", bytes }, [bytes.buffer]);
  expect(bytes.length).toBe(0);
  expect(await front.ask("total", undefined)).toBe(5);
  await until(() => told.length === 2);
  expect(told).toEqual(["one", "two"]);
});

test("the end of the other side rejects what waits, and whatever is asked afterwards", async () => {
  const { front } = connect();
  const waiting = front.ask("never", undefined);
  close();
  const gone = { code: "UNAVAILABLE", message: "the back ended" };
  await expect(waiting).rejects.toMatchObject(gone);
  await expect(front.ask("add", { a: 1, b: 1 })).rejects.toMatchObject(gone);
});
