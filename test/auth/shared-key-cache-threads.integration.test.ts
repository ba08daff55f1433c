import { createHash } from "node:crypto";
import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { describe, expect, it } from "vitest";
import { createSharedKeyCache, SharedKeyCacheWriter } from "../../src/auth/keys/shared-key-cache.js";
import { identityOfVersion } from "../helpers/auth/auth-cache-versions.js";

interface Report {
  readonly problems: readonly string[];
  readonly hits: number;
  readonly changes: number;
}

describe("the shared key cache under many threads", () => {
  it("shows every reader whole entries, its own key's, and never an older one after a newer", async () => {
    const handle = createSharedKeyCache({
      maxLive: 12,
      maxUnknown: 4,
      principalKind: "ingestion_key",
      refreshWindowMs: 0,
    });
    const writer = new SharedKeyCacheWriter(handle, () => undefined);
    const hashes = Array.from({ length: 16 }, (_, i) => createHash("sha256").update(`key ${i}`).digest("binary"));
    const done = new Int32Array(new SharedArrayBuffer(4));
    const workers = Array.from(
      { length: 3 },
      () =>
        new Worker(new URL("../helpers/auth/auth-cache-reader.js", import.meta.url), {
          workerData: { handle, hashes, done },
        }),
    );
    await Promise.all(workers.map((worker) => once(worker, "online")));
    const reports = Promise.all(workers.map(async (worker) => (await once(worker, "message"))[0] as Report));
    // 16 keys in room for 12: entries are replaced in place, evicted, and their slots reused.
    for (let version = 0; version < 20_000; version++) {
      for (const [i, hash] of hashes.entries()) {
        if ((version + i) % 5 === 0) {
          continue;
        }
        writer.setLive(hash, identityOfVersion(i, version), 1000, version);
      }
      if (version % 500 === 0) {
        await new Promise((resolve) => setImmediate(resolve));
      }
    }
    Atomics.store(done, 0, 1);
    for (const report of await reports) {
      expect(report.problems).toEqual([]);
      expect(report.hits).toBeGreaterThan(1000);
      expect(report.changes).toBeGreaterThan(100);
    }
    await Promise.all(workers.map((worker) => worker.terminate()));
  });
});
