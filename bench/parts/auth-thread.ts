/** A thread of `bench auth`: cached key checks in a tight loop, or a source of unknown keys. */
import { parentPort, workerData } from "node:worker_threads";
import { openKeyAuthenticator, type KeyAuthenticatorHandle } from "../../src/auth/keys/key-authenticator.js";
import { generateKeyString, hashKeyBinary } from "../../src/auth/key-string.js";

/** What the thread is to do. */
export type AuthThreadWork =
  | {
      readonly kind: "hit";
      readonly handle: KeyAuthenticatorHandle;
      readonly authorizations: readonly string[];
      readonly checks: number;
    }
  | {
      readonly kind: "source";
      readonly keysPerSecond: number;
      /** Keys that the other side has taken so far; shared. */
      readonly taken: Int32Array;
    };

/** What a thread that checked cached keys reports: microseconds for each check. */
export interface HitReport {
  /** Median over runs of 1000 checks, by the wall. */
  readonly microseconds: number;
  /** Best run of 1000 checks: what the code costs when nobody else wants the core. */
  readonly bestMicroseconds: number;
  /** CPU of the whole process while this thread was at it. */
  readonly processCpuMicroseconds: number;
  /** The same for the SHA-256 alone. */
  readonly hashMicroseconds: number;
  readonly misses: number;
}

const work = workerData as AuthThreadWork;
if (work.kind === "hit") {
  const keys = openKeyAuthenticator(work.handle);
  const { authorizations, checks } = work;
  let misses = 0;
  const check = (i: number): void => {
    const outcome = keys.authenticateNow(authorizations[i % authorizations.length] as string);
    if (outcome === null || outcome.kind !== "ok") {
      misses++;
    }
  };
  const tokens = authorizations.map((authorization) => authorization.slice("Bearer ".length));
  let hashed = 0;
  const hash = (i: number): void => {
    hashed += hashKeyBinary(tokens[i % tokens.length] as string).length;
  };
  const run = (count: number, body: (i: number) => void): number[] => {
    const microseconds: number[] = [];
    for (let done = 0; done < count; done += 1000) {
      const startMs = performance.now();
      for (let i = 0; i < 1000; i++) {
        body(done + i);
      }
      microseconds.push(performance.now() - startMs);
    }
    return microseconds.toSorted((a, b) => a - b);
  };
  run(checks / 10, check);
  const hashOnly = run(checks / 10, hash);
  misses = 0;
  const cpuBefore = process.cpuUsage();
  const runs = run(checks, check);
  const cpu = process.cpuUsage(cpuBefore);
  const report: HitReport = {
    microseconds: runs[Math.floor(runs.length / 2)] as number,
    bestMicroseconds: runs[0] as number,
    processCpuMicroseconds: (cpu.user + cpu.system) / checks,
    hashMicroseconds: hashed === 0 ? 0 : (hashOnly[Math.floor(hashOnly.length / 2)] as number),
    misses,
  };
  parentPort?.postMessage(report, []);
  await keys.stop();
} else {
  // Random 32 bytes are dear in JavaScript; a counter in otherwise fixed bytes is as distinct.
  const bytes = Buffer.alloc(32, 0xa5);
  let count = 0;
  let dropped = 0;
  const startMs = performance.now();
  setInterval(() => {
    const scheduled = Math.floor(((performance.now() - startMs) / 1000) * work.keysPerSecond);
    // No more than 50 ms ahead of the taker: a queue of messages would be this bench's memory, not
    // the service's. What cannot be offered in time is dropped from the schedule and shows as rate.
    const due = Math.min(scheduled - dropped, Atomics.load(work.taken, 0) + work.keysPerSecond / 20);
    dropped = scheduled - Math.floor(due);
    const batch: string[] = [];
    for (; count < Math.floor(due); count++) {
      bytes.writeDoubleBE(count, 24);
      batch.push(`Bearer ${generateKeyString(() => bytes)}`);
    }
    if (batch.length > 0) {
      parentPort?.postMessage(batch, []);
    }
  }, 5);
}
