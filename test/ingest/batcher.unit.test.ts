/** The batcher's rules. */
import { setImmediate as turn } from "node:timers/promises";

import { pino } from "pino";
import { describe, expect, test } from "vitest";

import { type Encoding, startBatcher } from "../helpers/ingest/batcher.js";
import { ServiceError } from "../../src/runtime/errors.js";
import { ThreadDiedError } from "../../src/runtime/threads/task-thread.js";

describe("closing a batch", () => {
  test("requests of one turn share a batch, later ones wait until the worker is free", async () => {
    const { submit, encodings } = startBatcher();
    submit("a");
    submit("b");
    await turn();
    submit("c");
    submit("d");
    await turn();
    expect(encodings.map((e) => e.names)).toEqual([["a", "b"]]);
    encodings[0]?.done();
    await turn();
    await turn();
    expect(encodings.map((e) => e.names)).toEqual([
      ["a", "b"],
      ["c", "d"],
    ]);
  });

  test("a batch holds no more than its limit, and a larger request is alone", async () => {
    const { submit, encodings } = startBatcher({ workers: 4 });
    submit("large", 5000);
    submit("a", 500);
    submit("b", 300);
    submit("c", 200);
    await turn();
    expect(encodings.map((e) => e.names)).toEqual([["large"], ["a", "b"], ["c"]]);
  });

  test("a free second worker waits until enough is queued", async () => {
    const { submit, encodings } = startBatcher({ workers: 2 });
    submit("a");
    await turn();
    submit("b", 99);
    await turn();
    expect(encodings).toHaveLength(1);
    submit("c", 1);
    await turn();
    expect(encodings.map((e) => e.names)).toEqual([["a"], ["b", "c"]]);
  });

  test("a batch that takes long to encode holds up others only for a moment", async () => {
    const { submit, clock, encodings } = startBatcher({ workers: 3 });
    submit("slow");
    await turn();
    submit("a");
    await turn();
    clock.advance(249);
    await turn();
    expect(encodings.map((e) => e.names)).toEqual([["slow"]]);
    clock.advance(1);
    await turn();
    expect(encodings.map((e) => e.names)).toEqual([["slow"], ["a"]]);
    submit("b");
    await turn();
    expect(encodings).toHaveLength(2);
    encodings[1]?.done([]);
    await turn();
    await turn();
    expect(encodings.map((e) => e.names)).toEqual([["slow"], ["a"], ["b"]]);
    encodings[0]?.done([]);
    await turn();
    submit("c");
    await turn();
    // The slow one was counted out once, not twice.
    expect(encodings).toHaveLength(3);
  });

  test("a batch waits while more bytes than it holds are being committed", async () => {
    const { submit, encodings, commits } = startBatcher();
    const encoded = async (): Promise<void> => {
      await turn();
      encodings.at(-1)?.done();
      await turn();
      await turn();
    };
    submit("a", 10);
    await encoded();
    submit("b", 9);
    await turn();
    expect(encodings.map((e) => e.names)).toEqual([["a"]]);
    submit("c", 1);
    await encoded();
    expect(encodings.map((e) => e.names)).toEqual([["a"], ["b", "c"]]);
    expect(commits).toHaveLength(2);
    submit("d", 10);
    await turn();
    expect(encodings).toHaveLength(2);
    commits[0]?.done({ kind: "committed" });
    await turn();
    await turn();
    expect(encodings.map((e) => e.names)).toEqual([["a"], ["b", "c"], ["d"]]);
  });
});

describe("answering", () => {
  test("nothing is answered before the commit, and everything once after it", async () => {
    const { submit, encodings, commits, kinds } = startBatcher();
    submit("a");
    submit("b");
    await turn();
    encodings[0]?.done();
    await turn();
    expect(kinds()).toEqual({});
    commits[0]?.done({ kind: "committed" });
    await turn();
    expect(kinds()).toEqual({ a: ["stored"], b: ["stored"] });
  });

  test("the time in which a batch may be published begins before it is encoded", async () => {
    const { submit, clock, encodings, commits } = startBatcher();
    submit("a");
    await turn();
    clock.advance(20 * 60_000);
    encodings[0]?.done();
    await turn();
    expect(commits[0]?.assertInTime).not.toThrow();
    clock.advance(20 * 60_000);
    expect(commits[0]?.assertInTime).toThrow("may be gone");
  });

  test("a request waits for the database for 25 s in all: in the queue, and in every round of its batch", async () => {
    const { submit, clock, encodings, commits, kinds } = startBatcher();
    submit("first");
    await turn();
    encodings[0]?.done();
    await turn();
    submit("queued");
    clock.advance(5000);
    submit("later", 20);
    await turn();
    // Writing objects has deadlines of its own.
    clock.advance(7000);
    encodings[1]?.done();
    await turn();
    clock.advance(4000);
    commits[1]?.done({ kind: "duplicates", blockIds: new Set(["queued"]) });
    await turn();
    encodings[2]?.done();
    await turn();
    expect(commits.map(({ withinMs }) => withinMs)).toEqual([25_000, 20_000, 16_000]);
    expect(kinds()).toEqual({});
  });

  test("a request that has waited for 25 s before its batch closes is answered 503, and not encoded", async () => {
    const { submit, clock, encodings, commits, kinds } = startBatcher();
    submit("first");
    await turn();
    submit("old");
    clock.advance(1);
    submit("new");
    clock.advance(24_999);
    encodings[0]?.done();
    await turn();
    commits[0]?.done({ kind: "unavailable", reason: "" });
    await turn();
    await turn();
    expect(kinds()).toEqual({ first: ["unavailable"], old: ["unavailable"] });
    expect(encodings[1]?.names).toEqual(["new"]);
  });

  test("a batch with nothing to store is answered without a commit", async () => {
    const { submit, encodings, commits, kinds } = startBatcher();
    submit("empty");
    await turn();
    encodings[0]?.done([]);
    await turn();
    expect(commits).toEqual([]);
    expect(kinds()).toEqual({ empty: ["stored"] });
  });

  test("duplicates: the batch is encoded again without them, and its objects removed", async () => {
    const { submit, encodings, commits, removed, kinds } = startBatcher();
    submit("old");
    submit("new");
    await turn();
    encodings[0]?.done();
    await turn();
    commits[0]?.done({ kind: "duplicates", blockIds: new Set(["old"]) });
    await turn();
    expect(removed).toEqual(["old.parquet", "new.parquet"]);
    expect(encodings[1]).toMatchObject({ names: ["old", "new"], excluded: ["old"] });
    encodings[1]?.done();
    await turn();
    expect(commits[1]?.commit.blocks.map((b) => b.blockId)).toEqual(["new"]);
    commits[1]?.done({ kind: "committed" });
    await turn();
    expect(kinds()).toEqual({ old: ["stored"], new: ["stored"] });
  });

  test("duplicates in every round end in 503 after a bounded number of rounds", async () => {
    const { submit, encodings, commits, kinds } = startBatcher({ maxRounds: 2 });
    submit("a");
    submit("b");
    submit("c");
    await turn();
    for (const [round, name] of ["a", "b"].entries()) {
      encodings[round]?.done();
      await turn();
      commits[round]?.done({ kind: "duplicates", blockIds: new Set([name]) });
      await turn();
    }
    expect(encodings).toHaveLength(2);
    expect(kinds()).toEqual({ a: ["unavailable"], b: ["unavailable"], c: ["unavailable"] });
  });
});

test("requests that the segment of their batch had no room for are in the next one, and answered once", async () => {
  const { batcher, submit, encodings, commits, kinds } = startBatcher();
  submit("a");
  submit("b");
  submit("c");
  await turn();
  encodings[0]?.done(["a"], ["b", "c"]);
  await turn();
  await turn();
  // Not only when it is committed.
  expect(encodings[1]?.names).toEqual(["b", "c"]);
  commits[0]?.done({ kind: "committed" });
  await turn();
  expect(kinds()).toEqual({ a: ["stored"] });
  expect(batcher.unanswered).toBe(2);
  encodings[1]?.done();
  await turn();
  commits[1]?.done({ kind: "committed" });
  await turn();
  expect(kinds()).toEqual({ a: ["stored"], b: ["stored"], c: ["stored"] });
  expect(batcher.unanswered).toBe(0);
});

test("requests that there was no room for are not encoded again when others of their batch are duplicates", async () => {
  const { submit, encodings, commits, kinds } = startBatcher({ workers: 2 });
  submit("a");
  submit("b");
  submit("c");
  await turn();
  encodings[0]?.done(["a", "b"], ["c"]);
  await turn();
  commits[0]?.done({ kind: "duplicates", blockIds: new Set(["a"]) });
  await turn();
  await turn();
  expect(encodings.map(({ names }) => names)).toEqual([
    ["a", "b", "c"],
    ["a", "b"],
  ]);
  encodings[1]?.done();
  await turn();
  commits[1]?.done({ kind: "committed" });
  await turn();
  await turn();
  encodings[2]?.done();
  await turn();
  commits[2]?.done({ kind: "committed" });
  await turn();
  expect(encodings.map(({ names }) => names)[2]).toEqual(["c"]);
  expect(kinds()).toEqual({ a: ["stored"], b: ["stored"], c: ["stored"] });
});

test("large requests are stored beside the others, one batch at a time", async () => {
  const { batcher, submit, encodings, commits, kinds } = startBatcher({ workers: 2 });
  submit("large 1", 300);
  submit("small 1");
  await turn();
  encodings[0]?.done(["small 1"], ["large 1"], "large");
  await turn();
  commits[0]?.done({ kind: "committed" });
  await turn();
  await turn();
  expect(kinds()).toEqual({ "small 1": ["stored"] });
  expect(encodings[1]).toMatchObject({ names: ["large 1"], large: true });
  // Neither its encoding nor its transaction is waited for.
  submit("small 2");
  submit("large 2", 300);
  await turn();
  expect(encodings[2]).toMatchObject({ names: ["small 2", "large 2"], large: false });
  encodings[1]?.done();
  encodings[2]?.done(["small 2"], ["large 2"], "large");
  await turn();
  expect(commits.slice(1).map(({ large }) => large)).toEqual([true, false]);
  commits[2]?.done({ kind: "committed" });
  await turn();
  submit("small 3");
  await turn();
  expect(encodings[3]).toMatchObject({ names: ["small 3"], large: false });
  expect(kinds()).toEqual({ "small 1": ["stored"], "small 2": ["stored"] });
  commits[1]?.done({ kind: "committed" });
  await turn();
  await turn();
  expect(encodings[4]).toMatchObject({ names: ["large 2"], large: true });
  // Nor do they end without each other.
  const stopped = batcher.stop();
  encodings[3]?.done();
  encodings[4]?.done();
  await turn();
  commits[3]?.done({ kind: "committed" });
  commits[4]?.done({ kind: "committed" });
  await stopped;
  expect(Object.keys(kinds()).length).toBe(5);
});

describe("failures", () => {
  test("a commit without a database: 503, the objects stay, new bodies are refused for a moment", async () => {
    const { batcher, clock, submit, encodings, commits, removed, answers } = startBatcher();
    submit("a");
    await turn();
    encodings[0]?.done();
    await turn();
    commits[0]?.done({ kind: "unavailable", reason: "its disk is full" });
    await turn();
    expect(answers.get("a")).toEqual([{ kind: "unavailable", retryAfterSeconds: 1, reason: "its disk is full" }]);
    expect(removed).toEqual([]);
    expect(batcher.obstacle).toBe("its disk is full");
    clock.advance(1001);
    expect(batcher.obstacle).toBeNull();
  });

  test("storage that takes one batch now and then is not storing, until most are taken or none was tried", async () => {
    const { batcher, clock, submit, encodings, commits } = startBatcher();
    const outcome = async (kind: "committed" | "unavailable"): Promise<void> => {
      submit(`request ${encodings.length}`);
      await turn();
      encodings.at(-1)?.done();
      await turn();
      commits.at(-1)?.done({ kind, reason: "" });
      await turn();
    };
    expect(batcher.storing).toBe(true);
    await outcome("committed");
    await outcome("unavailable");
    expect(batcher.storing).toBe(false);
    clock.advance(6000);
    await outcome("unavailable");
    await outcome("committed");
    expect(batcher.storing).toBe(false);
    await outcome("committed");
    expect(batcher.storing).toBe(true);
    await outcome("unavailable");
    expect(batcher.storing).toBe(false);
    clock.advance(10_001);
    expect(batcher.storing).toBe(true);
  });

  test("storage that fails every batch is told of in the log once a minute", async () => {
    const lines: unknown[] = [];
    const logger = pino({}, { write: (line: string) => lines.push(JSON.parse(line)) });
    const { clock, submit, encodings } = startBatcher({ logger });
    for (let i = 0; i < 3; i++) {
      submit(`request ${i}`);
      await turn();
      encodings.at(-1)?.fail(new ServiceError("UNAVAILABLE"));
      await turn();
      await turn();
      clock.advance(6000);
    }
    expect(encodings).toHaveLength(3);
    expect(lines).toMatchObject([{ level: 50, msg: "a batch was not encoded" }]);
  });

  test("storage that fails a batch gives it 503 and no other", async () => {
    const { batcher, submit, encodings, commits, kinds, answers } = startBatcher();
    submit("a");
    await turn();
    submit("b");
    encodings[0]?.fail(new ServiceError("UNAVAILABLE", "its disk is full"));
    await turn();
    await turn();
    expect(batcher.obstacle).toBe("its disk is full");
    encodings[1]?.done();
    await turn();
    commits[0]?.done({ kind: "committed" });
    await turn();
    expect(kinds()).toEqual({ a: ["unavailable"], b: ["stored"] });
    expect(answers.get("a")).toMatchObject([{ reason: "its disk is full" }]);
  });

  /** Stores all but `bad`, whose batches fail; tells how often it was tried. */
  async function storeBeside(
    lab: ReturnType<typeof startBatcher>,
    fail: (encoding: Encoding) => void,
  ): Promise<number> {
    for (const name of ["a", "b", "bad", "c", "d"]) {
      lab.submit(name);
    }
    const handled = new Set<unknown>();
    let tries = 0;
    while (lab.batcher.unanswered > 0) {
      await turn();
      // However many such requests there are, they take one thread.
      expect(lab.encodings.filter((encoding) => !handled.has(encoding)).length).toBeLessThanOrEqual(1);
      for (const encoding of lab.encodings) {
        if (handled.has(encoding)) {
          continue;
        }
        handled.add(encoding);
        if (encoding.names.includes("bad")) {
          tries++;
          fail(encoding);
        } else {
          encoding.done();
        }
      }
      for (const commit of lab.commits) {
        if (handled.has(commit)) {
          continue;
        }
        handled.add(commit);
        commit.done({ kind: "committed" });
      }
    }
    return tries;
  }

  test("a request that trips over a defect gets 500 alone; its neighbours are stored", async () => {
    const lab = startBatcher();
    const tries = await storeBeside(lab, (encoding) => encoding.fail(new TypeError("defect")));
    // Of five, of three, and alone.
    expect(tries).toBe(3);
    expect(lab.kinds()).toEqual({ a: ["stored"], b: ["stored"], bad: ["internal"], c: ["stored"], d: ["stored"] });
  });

  test("a request that its thread dies of gets 500 when it did so twice alone; its neighbours are stored", async () => {
    const lab = startBatcher();
    const tries = await storeBeside(lab, (encoding) => encoding.fail(new ThreadDiedError("out of memory")));
    expect(tries).toBe(4);
    expect(lab.kinds()).toEqual({ a: ["stored"], b: ["stored"], bad: ["internal"], c: ["stored"], d: ["stored"] });
    expect(lab.batcher.obstacle).toBeNull();
  });

  test("a request that was alone when its thread died once is stored", async () => {
    const lab = startBatcher();
    let dies = true;
    await storeBeside(lab, (encoding) => {
      if (dies && encoding.names.length === 1) {
        dies = false;
        encoding.fail(new ThreadDiedError("killed"));
      } else if (encoding.names.length > 1) {
        encoding.fail(new TypeError("defect"));
      } else {
        encoding.done();
      }
    });
    expect(lab.kinds()["bad"]).toEqual(["stored"]);
  });

  test("rows that the database refuses are narrowed down in the same way", async () => {
    const { submit, encodings, commits, removed, kinds } = startBatcher();
    submit("bad");
    await turn();
    encodings[0]?.done();
    await turn();
    commits[0]?.done({ kind: "failed", error: new Error("refused") });
    await turn();
    expect(kinds()).toEqual({ bad: ["internal"] });
    expect(removed).toEqual(["bad.parquet"]);
  });
});

describe("waiting for senders that were answered", () => {
  /** Stores requests as one batch that takes so long. */
  async function store(lab: ReturnType<typeof startBatcher>, names: readonly string[], tookMs: number): Promise<void> {
    const { length } = lab.encodings;
    names.forEach((name) => {
      lab.submit(name);
    });
    await turn();
    lab.encodings[length]?.done();
    await turn();
    lab.clock.advance(tookMs);
    lab.commits.at(-1)?.done({ kind: "committed" });
    await turn();
  }

  test("goes on until as many are back", async () => {
    const lab = startBatcher();
    await store(lab, ["a", "b"], 8);
    lab.submit("c");
    await turn();
    expect(lab.encodings).toHaveLength(1);
    lab.submit("d");
    await turn();
    expect(lab.encodings[1]?.names).toEqual(["c", "d"]);
  });

  test("counts what was queued when they were answered", async () => {
    const lab = startBatcher();
    lab.submit("a");
    lab.submit("b");
    await turn();
    lab.encodings[0]?.done();
    await turn();
    lab.submit("queued");
    await turn();
    lab.clock.advance(8);
    lab.commits[0]?.done({ kind: "committed" });
    await turn();
    lab.submit("c");
    await turn();
    expect(lab.encodings).toHaveLength(1);
    lab.submit("d");
    await turn();
    expect(lab.encodings[1]?.names).toEqual(["queued", "c", "d"]);
  });

  test.each([
    { tookMs: 8, waitMs: 2 },
    { tookMs: 1000, waitMs: 5 },
  ])("ends after $waitMs ms when a batch took $tookMs ms", async ({ tookMs, waitMs }) => {
    const lab = startBatcher();
    await store(lab, ["a", "b"], tookMs);
    lab.submit("c");
    await turn();
    lab.clock.advance(waitMs - 0.5);
    await turn();
    expect(lab.encodings).toHaveLength(1);
    lab.clock.advance(0.5);
    expect(lab.encodings[1]?.names).toEqual(["c"]);
  });

  test("does not hold up a sender who is alone, nor many bytes, nor a stop", async () => {
    const alone = startBatcher();
    await store(alone, ["a"], 8);
    alone.submit("b");
    await turn();
    expect(alone.encodings[1]?.names).toEqual(["b"]);

    const large = startBatcher();
    await store(large, ["a", "b"], 8);
    large.submit("c", 100);
    await turn();
    expect(large.encodings[1]?.names).toEqual(["c"]);

    const stopped = startBatcher();
    await store(stopped, ["a", "b"], 8);
    stopped.submit("c");
    await turn();
    expect(stopped.encodings).toHaveLength(1);
    void stopped.batcher.stop();
    await turn();
    expect(stopped.encodings[1]?.names).toEqual(["c"]);
  });
});

describe("life", () => {
  test("stop answers what was submitted, refuses the rest, and then resolves", async () => {
    const { batcher, submit, encodings, commits, kinds } = startBatcher();
    submit("a");
    let stopped = false;
    const stopping = batcher.stop().then(() => {
      stopped = true;
      return stopped;
    });
    submit("late");
    await turn();
    expect(kinds()).toEqual({ late: ["unavailable"] });
    encodings[0]?.done();
    await turn();
    expect(stopped).toBe(false);
    commits[0]?.done({ kind: "committed" });
    expect(await stopping).toBe(true);
    expect(kinds()["a"]).toEqual(["stored"]);
  });

  test("time without an answer counts only while somebody waits", async () => {
    const { batcher, clock, submit } = startBatcher();
    clock.advance(5000);
    expect(batcher.stalledMs).toBe(0);
    submit("a");
    clock.advance(3000);
    expect(batcher.stalledMs).toBe(3000);
    await turn();
  });
});
