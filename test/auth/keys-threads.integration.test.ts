import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { afterEach, describe, expect, it } from "vitest";
import { generateKeyString } from "../../src/auth/key-string.js";
import { mintIngestionKey } from "../../src/auth/keys/keys.js";
import { createSharedClock } from "../../src/auth/shared-clock.js";
import { Channel } from "../../src/runtime/threads/channel.js";
import { createKeyStore, type KeyStoreFixture } from "../helpers/auth/auth-fixture.js";
import type { AuthThread } from "../helpers/auth/auth-thread.js";

interface StartedThread {
  readonly ask: Channel<object, AuthThread>["ask"];
  stop(): Promise<void>;
}

function startThread(store: KeyStoreFixture): StartedThread {
  const handle = store.keys.share();
  const worker = new Worker(new URL("../helpers/auth/auth-thread.js", import.meta.url), {
    workerData: { handle },
    transferList: [handle.port],
  });
  const thread = new Channel<object, AuthThread>(worker, "a thread", {});
  return {
    ask: (method, argument) => thread.ask(method, argument),
    async stop() {
      const exited = once(worker, "exit");
      await thread.ask("stop", undefined);
      await exited;
    },
  };
}

let store: KeyStoreFixture;
afterEach(async () => {
  await store.stop();
});

describe("the key store on other threads", () => {
  it("answers every thread, with one statement for what all of them miss at once", async () => {
    store = await createKeyStore({ clock: createSharedClock() });
    const minted = await Promise.all(
      Array.from({ length: 20 }, (_, i) =>
        mintIngestionKey(store.db.sql, { name: "k", audience: `team-${i}`, createdBy: "me" }),
      ),
    );
    const unknown = Array.from({ length: 20 }, () => generateKeyString());
    const authorizations = [...minted.map((m) => m.key), ...unknown].map((k) => `Bearer ${k}`);
    const threads = [startThread(store), startThread(store)];
    // Wait until both run, so that they ask at the same time.
    for (const thread of threads) {
      await thread.ask("now", []);
    }
    const before = await Promise.all(threads.map((t) => t.ask("now", authorizations)));
    expect(before.flat().every((outcome) => outcome === null)).toBe(true);
    const answers = await Promise.all(threads.map((t) => t.ask("wait", authorizations)));
    for (const outcomes of answers) {
      expect(outcomes.slice(0, 20)).toEqual(
        minted.map(({ keyId, audience }) => ({
          kind: "ok",
          principal: { kind: "ingestion_key", keyId, issuer: null, subject: null, email: null, name: null, audience },
        })),
      );
      expect(outcomes.slice(20).every((outcome) => outcome.kind === "rejected")).toBe(true);
    }
    expect(await store.statements()).toBeLessThanOrEqual(2);
    // What one thread asked for, every thread and the owner now have in memory.
    const after = await Promise.all(threads.map((t) => t.ask("now", authorizations)));
    expect(after).toEqual(answers);
    expect(authorizations.map((a) => store.keys.authenticateNow(a))).toEqual(answers[0]);
    await Promise.all(threads.map((t) => t.stop()));
  });

  it("records the use of a key by another thread", async () => {
    store = await createKeyStore({ clock: createSharedClock() });
    const { key, keyId } = await mintIngestionKey(store.db.sql, {
      name: "k",
      audience: "a",
      createdBy: "me",
    });
    const thread = startThread(store);
    await thread.ask("wait", [`Bearer ${key}`]);
    await thread.stop();
    await store.keys.flushUsage();
    const [row] = await store.db.sql<{ used: boolean }[]>`
      select last_used_at is not null as used from ingestion_api_keys where key_id = ${keyId}`;
    expect(row?.used).toBe(true);
  });

  it("tells threads unavailable, and keeps none waiting, when the owner stops", async () => {
    store = await createKeyStore({ clock: createSharedClock() });
    const thread = startThread(store);
    await thread.ask("now", []);
    await store.keys.stop();
    const outcomes = await thread.ask("wait", [`Bearer ${generateKeyString()}`]);
    expect(outcomes).toEqual([{ kind: "unavailable", retryAfterSeconds: 1 }]);
    await thread.stop();
  });
});
