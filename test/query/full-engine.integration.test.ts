/** An engine that others have left without memory: whoever comes next does not notice. */
import { describe, expect, it, onTestFinished } from "vitest";

import type { EngineInstance, EngineLease } from "../../src/engine/supervisor.js";
import { inspectInstance, lakeInstance } from "../../src/query/backend/engine-instances.js";
import { toServiceError } from "../../src/runtime/errors.js";
import { startTestBackend, type TestBackend } from "../helpers/query/query-backend.js";
import { until } from "../helpers/until.js";
import { never } from "../helpers/never.js";

const memoryBytes = 96 << 20;
/** Takes all but some megabytes of that, for as long as the instance is open. */
const leftovers = "CREATE TABLE leftovers AS SELECT hash(i) AS h FROM range(8500000) t(i)";
/** Needs memory that an engine of that size has, and a full one has not. */
const modest = "SELECT count(DISTINCT i) AS n FROM range(500000) t(i)";
/** Needs more than an engine of that size has. */
const immodest = "SELECT count(DISTINCT i) AS n FROM range(20000000) t(i)";
/** Takes a while, and ends. */
const long = "SELECT count(*) AS n FROM range(100000000) t(i) WHERE hash(i) % 7 = 1";

async function start(o?: Parameters<typeof startTestBackend>[0]): Promise<TestBackend> {
  const t = await startTestBackend({
    engines: 1,
    memoryBytes,
    tempBytes: 0,
    // Engines are not replaced because of what they hold.
    systemLimits: false,
    ...o,
  });
  onTestFinished(() => t.stop());
  return t;
}

/** Leaves something behind in the one engine. */
async function fill(t: TestBackend, instance: EngineInstance): Promise<void> {
  const lease = await t.engines.lease(instance, never);
  const outcome = await lease.run(instance, [{ kind: "execute", sql: leftovers }]);
  lease.release();
  expect(outcome).toMatchObject({ kind: "ended", end: { error: null } });
}

/** Runs what has passed the gate. @returns how many messages came, or the code of the error; and engines lost */
async function outcomeOf(t: TestBackend, sql: string): Promise<{ readonly outcome: string; readonly losses: number }> {
  let losses = 0;
  let messages = 0;
  const onLoss = (): void => {
    losses++;
  };
  try {
    const stream = t.run({ sql, explain: "none" }, undefined, { onLoss });
    for await (const message of stream) {
      messages += message.length > 0 ? 1 : 0;
    }
    return { outcome: `${messages} messages`, losses };
  } catch (error) {
    return { outcome: toServiceError(error).code, losses };
  }
}

describe("a job that meets the end of the memory", () => {
  it("in an engine that has served others runs once more in a fresh one, and the full one is gone", async () => {
    const t = await start();
    await fill(t, lakeInstance([t.lakeDirectory]));
    const [full] = t.engines.pids;
    expect(await outcomeOf(t, modest)).toEqual({ outcome: "2 messages", losses: 0 });
    expect(t.engines.pids).toHaveLength(1);
    expect(t.engines.pids).not.toContain(full);
  });

  it("in a fresh engine is refused, and the engine is gone as well", async () => {
    const t = await start();
    const [fresh] = t.engines.pids;
    expect(await outcomeOf(t, immodest)).toEqual({ outcome: "PAYLOAD_TOO_LARGE", losses: 0 });
    await until(() => t.engines.pids.length === 1);
    expect(t.engines.pids).not.toContain(fresh);
    expect((await t.query(modest)).toArray()).toHaveLength(1);
  });

  it("while it is planned is planned in a fresh engine", async () => {
    const t = await start();
    await fill(t, inspectInstance);
    const [full] = t.engines.pids;
    const list = Array.from({ length: 30_000 }, (_, i) => i).join(",");
    const { fields } = await t.inspect(`SELECT 1 AS n WHERE 5 IN (${list})`);
    expect(fields).toHaveLength(1);
    expect(t.engines.pids).not.toContain(full);
  });

  it("in a step that may fail goes on, and is told all the same", async () => {
    const t = await start();
    const lease = await t.engines.lease(inspectInstance, never);
    const step = (sql: string) => ({ kind: "rows", sql, maxBytes: 100, optional: true }) as const;
    const outcome = await lease.run(inspectInstance, [step(immodest), step("SELECT 7")]);
    lease.release();
    expect(outcome).toMatchObject({
      kind: "ended",
      results: [{ error: expect.stringMatching(/^Out of Memory Error/u) as unknown }, { rows: [[7]] }],
      end: { error: null, outOfMemory: true },
    });
    // The engine is not used again.
    const next = await t.engines.lease(inspectInstance, never);
    expect(next.served).toBe(0);
    next.release();
  });
});

describe("an engine that dies for want of memory", () => {
  it("after it has served others is not held against the statement", async () => {
    const t = await start({ engines: 2 });
    await t.query("SELECT 1 AS n");
    const running = outcomeOf(t, long);
    await until(() => t.engines.lent === 1);
    process.kill(t.engines.pids[0] ?? 0, "SIGKILL");
    expect(await running).toEqual({ outcome: "2 messages", losses: 0 });
  });

  it("and a fresh one after it are", async () => {
    const t = await start();
    await t.query("SELECT 1 AS n");
    const running = outcomeOf(t, long);
    for (const served of [1, 0]) {
      await until(() => t.engines.lent === 1);
      const [pid = 0] = t.engines.pids;
      process.kill(pid, "SIGKILL");
      await until(() => served === 0 || (t.engines.lent === 1 && !t.engines.pids.includes(pid)));
    }
    expect(await running).toEqual({ outcome: "PAYLOAD_TOO_LARGE", losses: 2 });
  });
});

describe("a fresh engine", () => {
  it("takes the place of an idle one where there may be no more", async () => {
    const t = await start();
    await t.query("SELECT 1 AS n");
    const [used] = t.engines.pids;
    const lease = await t.engines.lease(inspectInstance, never, true);
    expect(lease.served).toBe(0);
    expect(t.engines.pids).not.toContain(used);
    lease.release();
    lease.release();
    // Nobody has asked it for anything, so it is fresh.
    const again = await t.engines.lease(inspectInstance, never, true);
    expect(again.served).toBe(0);
    again.release();
  });

  it("leaves idle ones be as long as there may be more", async () => {
    const t = await start({ engines: 8, spares: 3 });
    const use = async (): Promise<EngineLease> => {
      const lease = await t.engines.lease(inspectInstance, never);
      await lease.run(inspectInstance, [{ kind: "rows", sql: "SELECT 1", maxBytes: 100 }]);
      return lease;
    };
    for (const lease of await Promise.all([use(), use(), use()])) {
      lease.release();
    }
    const used = t.engines.pids;
    const fresh = await Promise.all(Array.from({ length: 4 }, () => t.engines.lease(inspectInstance, never, true)));
    expect(fresh.map(({ served }) => served)).toEqual([0, 0, 0, 0]);
    expect(t.engines.pids).toEqual(expect.arrayContaining([...used]));
  });

  it("is waited for in turn, and so is what is behind it", async () => {
    const t = await start();
    const first = await t.engines.lease(inspectInstance, never);
    await first.run(inspectInstance, [{ kind: "rows", sql: "SELECT 1", maxBytes: 100 }]);
    const order: string[] = [];
    const wait = async (name: string, fresh: boolean): Promise<void> => {
      const lease = await t.engines.lease(inspectInstance, never, fresh);
      order.push(`${name} ${lease.served}`);
      await lease.run(inspectInstance, [{ kind: "rows", sql: "SELECT 1", maxBytes: 100 }]);
      lease.release();
    };
    const waiting = [wait("fresh", true), wait("any", false)];
    first.release();
    await Promise.all(waiting);
    expect(order).toEqual(["fresh 0", "any 1"]);
  });
});
