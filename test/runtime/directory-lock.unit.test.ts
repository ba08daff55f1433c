/** The secret of a directory that several take at one moment. */
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { Worker } from "node:worker_threads";

import { expect, it, onTestFinished } from "vitest";

import { directorySecret } from "../../src/runtime/directory-lock.js";

/** Reads each secret as soon as it is there, as a process that starts at the same moment. */
const reader = `
  const { readFileSync } = require("node:fs");
  const { parentPort, workerData } = require("node:worker_threads");
  parentPort.postMessage(workerData.map((directory) => {
    for (;;) {
      try {
        return readFileSync(directory + "/lock.secret", "utf8");
      } catch {}
    }
  }));`;

it("is whole from the first moment, one for all who start then, and stays", async () => {
  const parent = await mkdtemp(path.join(tmpdir(), "telemetry-test-directory-lock-"));
  onTestFinished(() => rm(parent, { recursive: true, force: true }));
  const directories = await Promise.all(Array.from({ length: 500 }, () => mkdtemp(path.join(parent, "d"))));
  const worker = new Worker(reader, { eval: true, workerData: directories });
  onTestFinished(async () => {
    await worker.terminate();
  });
  const read = new Promise<unknown>((resolve) => worker.once("message", resolve));
  await new Promise((resolve) => worker.once("online", resolve));
  const secrets: string[] = [];
  for (const directory of directories) {
    const taken = new Set(await Promise.all([directorySecret(directory), directorySecret(directory)]));
    expect([...taken]).toEqual([expect.stringMatching(/^[0-9a-f]{32}$/u)]);
    expect(await directorySecret(directory)).toBe([...taken][0]);
    expect(await readdir(directory)).toEqual(["lock.secret"]);
    secrets.push(...taken);
  }
  expect(await read).toEqual(secrets);
});
