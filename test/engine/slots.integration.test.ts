/** Large messages of results, which an engine lays out in memory that it shares with the server. */
import { ftruncateSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

import { tableFromIPC } from "apache-arrow";
import { afterEach, beforeEach, describe, expect, it } from "vitest";

import { EngineClient, type JobOutcome, type OnData } from "../../src/engine/engine-client.js";
import { MessageSlots, slotBytes } from "../../src/engine/message-slots.js";
import { messagesAhead } from "../../src/engine/protocol.js";
import { ipcOf } from "../helpers/flight/flight-ipc.js";
import { until } from "../helpers/until.js";

const entry = fileURLToPath(new URL("../../src/engine/engine-process.js", import.meta.url));
let directory: string;
let engine: EngineClient;

beforeEach(async () => {
  directory = await mkdtemp(path.join(tmpdir(), "telemetry-test-slots-"));
  engine = await EngineClient.start({
    entry,
    directory,
    dataBytes: null,
    readyMs: 30_000,
    interruptMs: 5000,
  });
});

afterEach(async () => {
  engine.close();
  await engine.ended;
  await rm(directory, { recursive: true, force: true });
});

/** Runs a statement. */
function run(sql: string, onData: OnData, signal?: AbortSignal): Promise<JobOutcome> {
  return engine.run(
    {
      instance: {
        key: "test",
        directories: [],
        paths: [],
        memoryBytes: 500_000_000,
        tempDirectory: path.join(directory, "spill"),
        tempBytes: 100_000_000,
        threads: 2,
        setup: [],
      },
      steps: [{ kind: "stream", sql, messageBytes: 1 << 20 }],
    },
    { onData, signal },
  );
}

/** Whether a message lies in memory that outlives it, and not in its own. */
const isShared = (message: Uint8Array): boolean => message.buffer.byteLength > message.length * 2;

const rows = 400_000;
const sql = `SELECT i, 'row ' || i AS text FROM range(${rows}) t(i)`;

describe.skipIf(process.platform !== "linux")("messages in shared memory", () => {
  it("are whole until they are done with, however late that is", async () => {
    const parts: Promise<Uint8Array[]>[] = [];
    let shared = 0;
    const read = async (message: Uint8Array, done: () => void): Promise<Uint8Array[]> => {
      await sleep(30);
      const part = ipcOf(message);
      done();
      return part;
    };
    const ended = await run(sql, (message, done) => {
      if (isShared(message)) {
        shared++;
      }
      parts.push(read(message, done));
    });
    expect(ended).toMatchObject({ kind: "ended", end: { error: null, rows } });
    expect(shared).toBeGreaterThan(messagesAhead * 2);
    const table = tableFromIPC((await Promise.all(parts)).flat());
    expect(table.numRows).toBe(rows);
    let wrong = 0;
    let next = 0;
    for (const row of table) {
      if (row?.["text"] !== `row ${next++}`) {
        wrong++;
      }
    }
    expect(wrong).toBe(0);
  });

  it("are whole until they are done with when later ones are done with before", async () => {
    const releases: (() => void)[] = [];
    let first: { readonly message: Uint8Array; readonly copy: Uint8Array; readonly at: number } | null = null;
    const running = run(sql, (message, done) => {
      releases.push(done);
      if (first === null && isShared(message)) {
        first = { message, copy: message.slice(), at: releases.length };
      } else {
        done();
      }
    });
    await until(() => first !== null && releases.length === first.at + messagesAhead - 1);
    await sleep(50);
    const { message, copy } = first as unknown as { message: Uint8Array; copy: Uint8Array };
    expect(Buffer.compare(message, copy)).toBe(0);
    releases.forEach((done) => {
      done();
    });
    expect(await running).toMatchObject({ kind: "ended", end: { error: null, rows } });
  });

  it("keep the job from ending until all are released", async () => {
    const messages: Uint8Array[] = [];
    const releases: (() => void)[] = [];
    let held = true;
    let ended = false;
    const short = `SELECT i FROM range(120000) t(i)`;
    const running = run(short, (message, done) => {
      messages.push(message);
      // The last may come late.
      if (held) {
        releases.push(done);
      } else {
        done();
      }
    }).finally(() => {
      ended = true;
    });
    await until(() => messages.some(isShared));
    await sleep(100);
    expect(ended).toBe(false);
    held = false;
    for (const done of releases) {
      done();
      // A message is done with once.
      done();
    }
    expect(await running).toMatchObject({ kind: "ended", end: { error: null, rows: 120_000 } });
  });

  it("of a job that is given up are free for the next one", async () => {
    const controller = new AbortController();
    const releases: (() => void)[] = [];
    const first = run(sql, (_message, done) => releases.push(done), controller.signal);
    await until(() => releases.length === messagesAhead);
    controller.abort();
    expect(await first).toMatchObject({ kind: "ended", end: { kind: "cancelled" } });
    const reads: Promise<Uint8Array[]>[] = [];
    let most = 0;
    let held = 0;
    const read = async (message: Uint8Array, done: () => void): Promise<Uint8Array[]> => {
      // On a busy machine the engine is slower than a reader that does not wait for all of them.
      await until(() => most === messagesAhead);
      await sleep(20);
      const part = ipcOf(message);
      held--;
      done();
      return part;
    };
    const second = await run(sql.replace("'row '", "'other '"), (message, done) => {
      // What is done with too late says nothing about the slots of this job.
      releases.shift()?.();
      most = Math.max(most, ++held);
      reads.push(read(message, done));
    });
    const parts = (await Promise.all(reads)).flat();
    expect(most).toBe(messagesAhead);
    expect(second).toMatchObject({ kind: "ended", end: { error: null, rows } });
    expect(tableFromIPC(parts).get(rows - 1)?.["text"]).toBe(`other ${rows - 1}`);
  });

  it("are those that fit; a larger one, and a small one, come over the stream", async () => {
    const seen: { readonly bytes: number; readonly shared: boolean }[] = [];
    for (const statement of [
      `SELECT repeat('x', ${slotBytes * 2}) AS text`,
      "SELECT repeat('x', 1000000) AS text",
      "SELECT 'x' AS text",
    ]) {
      await run(statement, (message, done) => {
        if (message.length > 500_000 || statement.endsWith("'x' AS text")) {
          seen.push({ bytes: message.length, shared: isShared(message) });
        }
        done();
      });
    }
    expect(seen.map(({ shared }) => shared)).toEqual([false, true, false, false]);
    expect(seen[0]?.bytes).toBeGreaterThan(slotBytes * 2);
  });

  it("are in memory that nobody can cut short", () => {
    const { fd, slots } = MessageSlots.create() ?? { fd: -1, slots: null };
    expect(() => {
      ftruncateSync(fd, 0);
    }).toThrow("EPERM");
    const other = MessageSlots.open(fd);
    slots?.bytes.fill(7, 10, 20);
    expect([...other.message(8, 4)]).toEqual([0, 0, 7, 7]);
    expect(() => other.message(other.bytes.length - 1, 2)).toThrow(RangeError);
  });
});
