/** What jobs leave behind in an engine. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";

import { expect, it, onTestFinished, vi } from "vitest";

import { EngineClient } from "../../src/engine/engine-client.js";
import type { EngineJob } from "../../src/engine/protocol.js";
import { until } from "../helpers/until.js";

const readyMs = 60_000;

async function start(entry: string): Promise<{ readonly engine: EngineClient; readonly job: EngineJob }> {
  const directory = await mkdtemp(path.join(tmpdir(), "telemetry-test-tidy-"));
  const file = fileURLToPath(new URL(entry, import.meta.url));
  const engine = await EngineClient.start({ entry: file, directory, dataBytes: null, readyMs, interruptMs: 5000 });
  onTestFinished(async () => {
    vi.useRealTimers();
    engine.close();
    await engine.ended;
    await rm(directory, { recursive: true, force: true });
  });
  const instance = {
    key: "test",
    directories: [],
    paths: [],
    memoryBytes: 500_000_000,
    tempDirectory: path.join(directory, "spill"),
    tempBytes: 0,
    threads: 1,
    setup: [],
  };
  return { engine, job: { instance, steps: [{ kind: "execute", sql: "CREATE TEMP TABLE t AS SELECT 1 AS n" }] } };
}

it("is removed when the engine says so, or when it has gone", async () => {
  const { engine, job } = await start("../../src/engine/engine-process.js");
  await Promise.all([engine.tidied(), engine.tidied()]);
  expect(await engine.run(job)).toMatchObject({ kind: "ended", end: { error: null } });
  await engine.tidied();
  expect(await engine.run(job)).toMatchObject({ kind: "ended", end: { error: null } });
  engine.kill("killed");
  await engine.tidied();
  await engine.ended;
  await engine.tidied();
});

it("is not waited for without end: an engine that never comes to it is killed", async () => {
  const { engine, job } = await start("../helpers/query/engine-that-leaves-things.js");
  expect(await engine.run(job)).toMatchObject({ kind: "ended", end: { error: null } });
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  let tidied = false;
  const wait = engine.tidied().then(() => (tidied = true));
  vi.advanceTimersByTime(readyMs - 1);
  expect([tidied, engine.gone]).toEqual([false, false]);
  vi.advanceTimersByTime(1);
  vi.useRealTimers();
  await until(() => engine.gone);
  await wait;
});
