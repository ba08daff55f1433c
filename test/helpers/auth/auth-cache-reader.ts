/** A thread that reads the shared key cache as fast as it can and checks everything it reads. */
import { parentPort, workerData } from "node:worker_threads";
import { openSharedKeyCache, type SharedKeyCacheHandle } from "../../../src/auth/keys/shared-key-cache.js";
import { identityOfVersion, versionOfKeyId } from "./auth-cache-versions.js";

interface ReaderData {
  readonly handle: SharedKeyCacheHandle;
  readonly hashes: readonly string[];
  /** Becomes 1 when the writer is done. */
  readonly done: Int32Array;
}

const { handle, hashes, done } = workerData as ReaderData;
const cache = openSharedKeyCache(handle, { clock: () => 0, requestRefresh: () => undefined });
const lastSeen = new Map<string, number>();
const problems: string[] = [];
let hits = 0;
let changes = 0;
while (Atomics.load(done, 0) === 0) {
  for (const [i, hash] of hashes.entries()) {
    const outcome = cache.recall(hash) ?? cache.lookup(hash);
    if (outcome === null) {
      continue;
    }
    if (outcome.kind !== "ok" || outcome.principal.keyId === null) {
      problems.push(`hash ${i} gave ${outcome.kind}`);
      continue;
    }
    hits++;
    const { keyId, audience } = outcome.principal;
    const version = versionOfKeyId(keyId);
    const expected = identityOfVersion(i, version);
    if (expected.keyId !== keyId || expected.audience !== audience) {
      problems.push(`hash ${i} version ${version}: torn ${keyId} ${audience ?? "null"}`);
    }
    const before = lastSeen.get(hash) ?? -1;
    if (version < before) {
      problems.push(`hash ${i} went back from ${before} to ${version}`);
    }
    if (version !== before) {
      changes++;
    }
    lastSeen.set(hash, version);
  }
  if (problems.length > 20) {
    break;
  }
}
parentPort?.postMessage({ problems: problems.slice(0, 20), hits, changes }, []);
