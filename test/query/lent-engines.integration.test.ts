/** Who gets which engine process. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";

import { describe, expect, it, onTestFinished, vi } from "vitest";

import type { EngineLease } from "../../src/engine/supervisor.js";
import { inspectInstance, lakeInstance, serializeStep } from "../../src/query/backend/engine-instances.js";
import { startTestBackend, type TestBackend } from "../helpers/query/query-backend.js";
import { until } from "../helpers/until.js";

/** Engines start slowly on a busy machine. */
vi.setConfig({ testTimeout: 120_000 });

const many = lakeInstance(["/many"]);

async function start(o: Parameters<typeof startTestBackend>[0]): Promise<TestBackend> {
  const t = await startTestBackend(o);
  onTestFinished(() => t.stop());
  return t;
}

const real = new URL("../../src/engine/engine-process.js", import.meta.url);

/** A file that starts an engine, for a test that takes it away; or another program. */
async function entryFile(program = `import ${JSON.stringify(real.href)};`): Promise<string> {
  const directory = await mkdtemp(path.join(tmpdir(), "telemetry-test-entry-"));
  onTestFinished(() => rm(directory, { recursive: true }));
  const entry = path.join(directory, "engine.mjs");
  await writeFile(entry, program);
  return entry;
}

describe("engines", () => {
  it("leave the last that is idle to whose lake is open in it, as long as more can be started", async () => {
    const other = await start({ engines: 5, spares: 3 });
    const { signal } = new AbortController();
    const lease = (instance: typeof many): Promise<EngineLease> => other.engines.lease(instance, signal);
    const few = lakeInstance([other.lakeDirectory]);
    const opened = await lease(few);
    await opened.run(few, [serializeStep("SELECT 1")]);
    opened.release();
    await Promise.all([many, many].map(lease));
    const more = [many, many].map(lease);
    const again = await lease(few);
    expect(again.served).toBe(1);
    again.release();
    await Promise.all(more);
  });

  it("are lent first with the lake open, then with one that is open elsewhere", async () => {
    const other = await start({ engines: 3, spares: 3 });
    const { signal } = new AbortController();
    const lease = (instance: typeof many): Promise<EngineLease> => other.engines.lease(instance, signal);
    const use = async (used: EngineLease, ...instances: (typeof many)[]): Promise<void> => {
      for (const instance of instances) {
        await used.run(instance, [serializeStep("SELECT 1")]);
      }
    };
    const [first, second, third] = [lakeInstance(["/first"]), lakeInstance(["/second"]), lakeInstance(["/third"])];
    const [one, two, three] = [await lease(first), await lease(first), await lease(first)];
    await use(one, inspectInstance, first, second);
    await use(two, first, first);
    await use(three, first);
    for (const lent of [one, two, three]) {
      lent.release();
    }
    // The first has closed the lake that it had before.
    const known = await lease(first);
    expect(known.served).toBe(2);
    known.release();
    // It has waited longest, and alone has that lake open.
    const unknown = await lease(third);
    expect(unknown.served).toBe(1);
    unknown.release();
  });

  it("go to one who has several when no other comes up", async () => {
    const entry = await entryFile();
    const other = await start({ engines: 5, spares: 3, entry });
    await rm(entry);
    const { signal } = new AbortController();
    const few = lakeInstance([other.lakeDirectory]);
    const opened = await other.engines.lease(few, signal);
    await opened.run(few, [serializeStep("SELECT 1")]);
    opened.release();
    await Promise.all([many, many].map((instance) => other.engines.lease(instance, signal)));
    const last = await other.engines.lease(many, signal);
    expect(last.served).toBe(1);
  });

  it("that have served are not waited for by one who wants another while none comes up", async () => {
    const entry = await entryFile();
    const other = await start({ engines: 2, spares: 1, entry });
    await rm(entry);
    const { signal } = new AbortController();
    const used = await other.engines.lease(many, signal);
    await used.run(many, [serializeStep("SELECT 1")]);
    const next = other.engines.lease(many, signal);
    await expect(other.engines.lease(many, signal, true)).rejects.toMatchObject({ code: "UNAVAILABLE" });
    expect(other.engines.healthy).toBe(false);
    // Who takes any gets the one that is up.
    used.release();
    expect((await next).served).toBe(1);
  });

  it("do not keep the last from what reads no lake", async () => {
    const other = await start({ engines: 5, spares: 3 });
    const { signal } = new AbortController();
    const few = lakeInstance([other.lakeDirectory]);
    const opened = await other.engines.lease(few, signal);
    await opened.run(few, [serializeStep("SELECT 1")]);
    opened.release();
    // One more than there were: another may have come up since.
    const looks = await Promise.all(Array.from({ length: 4 }, () => other.engines.lease(inspectInstance, signal)));
    expect(looks.filter(({ served }) => served > 0).length).toBe(1);
  });

  it("go to one who has several when no other lake is open in the last that is idle", async () => {
    const other = await start({ engines: 5, spares: 3 });
    const { signal } = new AbortController();
    await Promise.all([many, many, many].map((instance) => other.engines.lease(instance, signal)));
    // Without the start of another.
    expect(other.engines.pids.length).toBe(3);
  });

  it("go first to an audience that has none", async () => {
    const t = await start({ engines: 3, spares: 1 });
    const { signal } = new AbortController();
    const order: string[] = [];
    const leases = [many, many, many, lakeInstance(["/one"])].map(async (instance) => {
      const lease = await t.engines.lease(instance, signal);
      order.push(instance === many ? "many" : "one");
      return lease;
    });
    await until(() => order.length === 3);
    expect(order).toEqual(["many", "one", "many"]);
    const [first] = leases;
    (await first)?.release();
    await Promise.all(leases);
    expect(order).toEqual(["many", "one", "many", "many"]);
  });

  it("do not go to one who has given up waiting", async () => {
    const t = await start({ engines: 1, spares: 1 });
    const { signal } = new AbortController();
    const used = await t.engines.lease(many, signal);
    const left = new AbortController();
    const givenUp = t.engines.lease(many, left.signal);
    left.abort();
    used.release();
    await expect(givenUp).rejects.toMatchObject({ code: "CANCELLED" });
    const next = await t.engines.lease(many, signal);
    expect(t.engines.lent).toBe(1);
    next.release();
  });

  it("that are starting end when they are stopped, also those that never come up", async () => {
    const entry = await entryFile(`import { createReadStream, writeFileSync } from "node:fs";
      writeFileSync("pid", String(process.pid));
      // Its end is the server's.
      createReadStream("", { fd: 3 }).resume();`);
    const t = await start({ spares: 0, entry });
    // The time in which one has to come up is never over.
    vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
    onTestFinished(() => {
      vi.useRealTimers();
    });
    const lease = t.engines.lease(many, new AbortController().signal);
    lease.catch(() => undefined);
    const pidOf = (): number => {
      const [directory = ""] = readdirSync(t.tempDirectory);
      const file = path.join(t.tempDirectory, directory, "pid");
      return existsSync(file) ? Number(readFileSync(file, "utf8")) : 0;
    };
    await until(() => pidOf() > 0);
    const pid = pidOf();
    await t.engines.stop();
    await expect(lease).rejects.toMatchObject({ code: "UNAVAILABLE" });
    expect(() => process.kill(pid, 0)).toThrow("ESRCH");
    expect(readdirSync(t.tempDirectory)).toEqual([]);
  });
});
