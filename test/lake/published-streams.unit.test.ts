import { randomUUID } from "node:crypto";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, test } from "vitest";
import type { StreamRow } from "../../src/lake/catalogue-rows.js";
import { packCommit, unpackCommit } from "../../src/lake/packed-commit.js";
import { PublishedStreams } from "../../src/lake/published-streams.js";

const stream = (processId: string = randomUUID()): StreamRow => ({
  streamId: randomUUID(),
  processId,
  audience: "a",
  signal: 1,
});

test("processes of streams that were published are not new, those of others are", () => {
  const published = new PublishedStreams();
  const [one, other] = [stream(), stream()];
  published.add([one]);
  expect([...published.newProcesses([one, other])]).toEqual([other.processId]);
  // A further stream of the same process.
  expect([...published.newProcesses([one, stream(one.processId)])]).toEqual([one.processId]);
});

test("a server begins anew when it remembers 131,072 streams, and not before", () => {
  const published = new PublishedStreams();
  const many = Array.from({ length: 1 << 17 }, () => stream());
  published.add(many);
  published.add(many);
  expect(published.newProcesses(many).size).toBe(0);
  published.add([stream()]);
  expect(published.newProcesses(many).size).toBe(many.length);
});

test("what is remembered of a batch is its new streams, not the batch", () => {
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc") as () => void;
  const heldBytes = (): number => {
    collect();
    return process.memoryUsage().heapUsed;
  };
  const known = Array.from({ length: 255 }, () => stream());
  const published = new PublishedStreams();
  const before = heldBytes();
  const batches = 2000;
  for (let i = 0; i < batches; i++) {
    const commit = { processes: [], streams: [...known, stream()], blocks: [], partitions: [] };
    published.add(unpackCommit(structuredClone(packCommit(commit))).streams);
  }
  // 18 KB each when a batch stays.
  expect((heldBytes() - before) / batches).toBeLessThan(2048);
  expect(published.newProcesses(known).size).toBe(0);
});
