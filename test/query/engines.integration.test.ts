/** Queries in engine processes: what one of them does to itself hurts nobody else, and nothing is left behind. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { copyFile, mkdir, rename, writeFile } from "node:fs/promises";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

import { tableFromIPC } from "apache-arrow";
import { pino } from "pino";
import { describe, expect, it, onTestFinished, vi } from "vitest";

import { dataSegmentBytes } from "../../src/engine/process-memory.js";
import { inspectInstance, lakeInstance } from "../../src/query/backend/engine-instances.js";
import { toServiceError } from "../../src/runtime/errors.js";
import { ipcOf } from "../helpers/flight/flight-ipc.js";
import { endless } from "../helpers/query/endless.js";
import { startTestBackend, type TestBackend } from "../helpers/query/query-backend.js";
import { until } from "../helpers/until.js";

const large = "SELECT i, repeat('x', 200) AS s FROM range(100000000) t(i)";
/** Takes a while, and ends. */
const long = "SELECT count(*) AS n FROM range(100000000) t(i) WHERE hash(i) % 7 = 1";
/** Gigabytes in one step, which DuckDB does not count. */
const texts =
  "SELECT max(length(upper(s || i))) FROM range(2048) t(i), (SELECT string_agg(j, '') s FROM range(1000000) t(j))";

/** Engines start, compute and die; on a busy machine each of that takes its time. */
vi.setConfig({ testTimeout: 120_000 });

async function start(o?: Parameters<typeof startTestBackend>[0]): Promise<TestBackend> {
  const t = await startTestBackend(o);
  onTestFinished(() => t.stop());
  return t;
}

interface Reading {
  readonly cancel: () => void;
  /** How many messages came, or the code of the error. */
  readonly outcome: Promise<string>;
  readonly messages: () => number;
  readonly losses: () => number;
}

/** Starts a query that has passed the gate; it is read until it ends or fails. */
function begin(t: TestBackend, sql: string): Reading {
  const controller = new AbortController();
  let messages = 0;
  let losses = 0;
  const stream = t.run({ sql, explain: "none" }, undefined, {
    signal: controller.signal,
    onLoss: () => losses++,
  });
  const read = async (): Promise<string> => {
    try {
      for await (const message of stream) {
        messages += message.length > 0 ? 1 : 0;
      }
      return `${messages} messages`;
    } catch (error) {
      return toServiceError(error).code;
    } finally {
      await stream.ended;
    }
  };
  return {
    cancel: () => {
      controller.abort();
    },
    outcome: read(),
    messages: () => messages,
    losses: () => losses,
  };
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

async function one(t: TestBackend, sql = "SELECT 7 AS n"): Promise<unknown> {
  return (await t.query(sql)).get(0)?.toJSON();
}

describe("engines", () => {
  it("answer short queries while others compute without end, and are free after those are cancelled", async () => {
    const t = await start({ engines: 4 });
    const busy = [endless, endless, `EXPLAIN ANALYZE ${endless}`].map((sql) => begin(t, sql));
    await until(() => t.engines.lent === 3);
    for (let i = 0; i < 20; i++) {
      expect(await one(t, `SELECT ${i} AS n`)).toEqual({ n: i });
    }
    for (const { cancel } of busy) {
      cancel();
    }
    for (const { outcome } of busy) {
      expect(await outcome).toBe("CANCELLED");
    }
    await until(() => t.engines.lent === 0);
    expect(await one(t)).toEqual({ n: 7 });
  });

  it("keep what does not fit into memory apart, and remove it", async () => {
    const t = await start({ engines: 2, memoryBytes: 64 << 20 });
    const sql = `SELECT count(*) AS n, sum(h) AS h, bool_and(ordered) AS ordered FROM (
      SELECT h, coalesce(h >= lag(h) OVER (), true) AS ordered FROM (
        SELECT hash(i) % 300000 AS h, repeat('x', 20) || i AS t FROM range(300000) t(i) ORDER BY h, t))`;
    const alone = await one(t, sql);
    expect(alone).toMatchObject({ n: 300_000n, ordered: true });
    const together = await Promise.all([one(t, sql), one(t, sql)]);
    expect(together).toEqual([alone, alone]);
    expect(readdirSync(t.tempDirectory).length).toBe(2);
    await t.engines.stop();
    expect(readdirSync(t.tempDirectory)).toEqual([]);
  });

  it("are started ahead of who needs them, and end when they are idle for long", async () => {
    const t = await start({ engines: 3, spares: 1, idleMs: 200 });
    expect(t.engines.pids).toHaveLength(1);
    const busy = [begin(t, endless), begin(t, endless)];
    await until(() => t.engines.pids.length === 3);
    for (const { cancel } of busy) {
      cancel();
    }
    await Promise.all(busy.map(({ outcome }) => outcome));
    await until(() => t.engines.pids.length === 1);
    expect(await one(t)).toEqual({ n: 7 });
  });

  it("come back with the instance that was open, and give others another one", async () => {
    const t = await start({ engines: 2, spares: 2 });
    const { signal } = new AbortController();
    const temp = async (directory: string): Promise<unknown> => {
      const instance = lakeInstance([directory]);
      const lease = await t.engines.lease(instance, signal);
      const made = await lease.run(instance, [
        { kind: "execute", sql: "CREATE TABLE IF NOT EXISTS seen (i INTEGER)" },
        { kind: "execute", sql: "INSERT INTO seen VALUES (1)" },
        { kind: "rows", sql: "SELECT CAST(count(*) AS INTEGER) FROM seen", maxBytes: 100 },
      ]);
      lease.release();
      return made.kind === "ended" ? made.results[2]?.rows : made;
    };
    expect(await temp("/nowhere/a")).toEqual([[1]]);
    expect(await temp("/nowhere/b")).toEqual([[1]]);
    expect(await temp("/nowhere/a")).toEqual([[2]]);
    expect(await temp("/nowhere/b")).toEqual([[2]]);
    expect(await temp("/nowhere/c")).toEqual([[1]]);
  });

  it.runIf(process.platform === "linux")("give back what a large job took, and serve on", async () => {
    const t = await start({ engines: 1, memoryBytes: 2 ** 30 });
    const [pid = 0] = t.engines.pids;
    const ownBytes = dataSegmentBytes(pid);
    const list = Array.from({ length: 30_000 }, (_, i) => i).join(",");
    await t.query(`SELECT 1 WHERE 5 IN (${list})`);
    expect((await t.query("SELECT max(h) FROM (SELECT DISTINCT hash(i) AS h FROM range(5000000) t(i))")).numRows).toBe(
      1,
    );
    await until(() => dataSegmentBytes(pid) < ownBytes + (288 << 20));
    expect(t.engines.pids).toEqual([pid]);
  });

  it.runIf(process.platform === "linux")("serve on when what a job left goes only after its end", async () => {
    const t = await start({ engines: 1, memoryBytes: 512 << 20 });
    const [pid = 0] = t.engines.pids;
    const ownBytes = dataSegmentBytes(pid);
    for (let i = 0; i < 2; i++) {
      const lease = await t.engines.lease(inspectInstance, new AbortController().signal);
      // It goes with its connection.
      const sql = "CREATE TEMP TABLE mine AS SELECT hash(i) AS h FROM range(45000000) t(i)";
      const filled = await lease.run(inspectInstance, [{ kind: "execute", sql }]);
      expect(filled).toMatchObject({ kind: "ended", end: { error: null } });
      lease.release();
      expect(await one(t)).toEqual({ n: 7 });
      expect(dataSegmentBytes(pid)).toBeLessThan(ownBytes + (288 << 20));
    }
    expect(t.engines.pids).toEqual([pid]);
  });

  it.runIf(process.platform === "linux")("are replaced when a job has left much behind", async () => {
    const t = await start({ engines: 1, memoryBytes: 512 << 20 });
    const [pid = 0] = t.engines.pids;
    expect(await one(t)).toEqual({ n: 7 });
    expect(t.engines.pids).toEqual([pid]);
    const lease = await t.engines.lease(inspectInstance, new AbortController().signal);
    const sql = "CREATE TABLE kept AS SELECT hash(i) AS h FROM range(50000000) t(i)";
    const filled = await lease.run(inspectInstance, [{ kind: "execute", sql }]);
    expect(filled).toMatchObject({ kind: "ended", end: { error: null } });
    lease.release();
    await until(() => !isAlive(pid));
    expect(await one(t)).toEqual({ n: 7 });
  });

  it.runIf(process.platform === "linux")(
    "have no environment, a limit to their memory and a lower priority",
    async () => {
      const t = await start();
      const [pid = 0] = t.engines.pids;
      expect(readFileSync(`/proc/${pid}/environ`, "utf8")).toBe("");
      const limits = readFileSync(`/proc/${pid}/limits`, "utf8");
      expect(limits).toMatch(/Max core file size +0 /u);
      expect(limits).toMatch(/Max data size +\d+ /u);
      expect(await one(t)).toEqual({ n: 7 });
      const niceness = readdirSync(`/proc/${pid}/task`).map((thread) => {
        const stat = readFileSync(`/proc/${pid}/task/${thread}/stat`, "utf8");
        return Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[16]);
      });
      expect(niceness.length).toBeGreaterThan(4);
      expect(niceness.filter((nice) => nice <= 0)).toEqual([]);
    },
  );

  it("go on when their whole group is signalled: the server decides when they end", async () => {
    const t = await start({ engines: 1 });
    const query = begin(t, long);
    await until(() => t.engines.lent === 1);
    for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
      process.kill(t.engines.pids[0] ?? 0, signal);
    }
    expect(await query.outcome).toBe("2 messages");
    expect(query.losses()).toBe(0);
  });

  it("end with their server, also when that is killed", async () => {
    const entry = fileURLToPath(new URL("../helpers/query/query-engine-child.js", import.meta.url));
    const child = spawn(process.execPath, [entry], { stdio: ["pipe", "pipe", "inherit"] });
    const [line] = (await once(child.stdout, "data")) as [Buffer];
    const pids = JSON.parse(line.toString()) as number[];
    expect(pids.filter(isAlive)).toHaveLength(2);
    child.kill("SIGKILL");
    await until(() => !pids.some(isAlive));
  });
});

describe("an engine that dies", () => {
  it("before its first row is replaced, and its query runs once more", async () => {
    const t = await start({ engines: 2 });
    // They are there before they count: an alert does not see the step from nothing to 1.
    for (const cause of ["memory", "stuck", "crash"]) {
      expect(await t.metrics.text()).toContain(`query_engine_losses_total{cause="${cause}"} 0`);
    }
    const query = begin(t, long);
    await until(() => t.engines.lent === 1);
    process.kill(t.engines.pids[0] ?? 0, "SIGKILL");
    expect(await query.outcome).toBe("2 messages");
    expect(query.losses()).toBe(1);
    expect(await t.metrics.text()).toMatch(/query_engine_losses_total\{cause="memory"\} 1/u);
  });

  it.each([
    ["SIGSEGV", "INTERNAL"],
    ["SIGABRT", "PAYLOAD_TOO_LARGE"],
  ] as const)("twice, of %s, ends the query with %s, and the log says of what", async (signal, code) => {
    const log: string[] = [];
    const t = await start({ engines: 1, logger: pino({ level: "warn" }, { write: (line) => log.push(line) }) });
    const query = begin(t, endless);
    for (let death = 1; death <= 2; death++) {
      await until(() => t.engines.lent === 1);
      process.kill(t.engines.pids[0] ?? 0, signal);
      await until(() => query.losses() === death);
    }
    expect(await query.outcome).toBe(code);
    expect(await one(t)).toEqual({ n: 7 });
    expect(log.filter((line) => line.includes(`"exit":"${signal}"`))).toHaveLength(2);
  });

  it("after rows went out makes an error of the result, never a short one", async () => {
    const t = await start({ engines: 2 });
    const query = begin(t, large);
    await until(() => query.messages() > 5);
    process.kill(t.engines.pids[0] ?? 0, "SIGKILL");
    expect(await query.outcome).toBe("PAYLOAD_TOO_LARGE");
    expect(await one(t)).toEqual({ n: 7 });
  });

  it("while it plans is replaced without anybody noticing", async () => {
    const t = await start({ engines: 2 });
    const [pid = 0] = t.engines.pids;
    process.kill(pid, "SIGSTOP");
    const planned = t.inspect("SELECT 1 AS n");
    await until(() => t.engines.lent === 1);
    process.kill(pid, "SIGKILL");
    expect((await planned).fields).toHaveLength(1);
  });
});

describe("an engine that does not answer", () => {
  it("to an interrupt is killed, and another takes its place", async () => {
    const t = await start({ engines: 1, interruptMs: 200 });
    const query = begin(t, endless);
    await until(() => t.engines.lent === 1);
    const [pid = 0] = t.engines.pids;
    process.kill(pid, "SIGSTOP");
    query.cancel();
    expect(await query.outcome).toBe("CANCELLED");
    await until(() => !isAlive(pid));
    expect(await one(t)).toEqual({ n: 7 });
    expect(t.engines.pids).not.toContain(pid);
    expect(await t.metrics.text()).toMatch(/query_engine_losses_total\{cause="stuck"\} 1/u);
  });

  it("while it plans is given up at the deadline of planning", async () => {
    const t = await start({ engines: 1, interruptMs: 100, planningMs: 6000 });
    process.kill(t.engines.pids[0] ?? 0, "SIGSTOP");
    await expect(t.inspect("SELECT 1")).rejects.toMatchObject({ code: "DEADLINE_EXCEEDED" });
    expect(await one(t)).toEqual({ n: 7 });
  });
});

describe("engines that cannot be started", () => {
  it("are UNAVAILABLE at the start of the server", async () => {
    await expect(start({ entry: "/nonexistent/engine.js" })).rejects.toMatchObject({
      code: "UNAVAILABLE",
    });
  });

  it("make the server unhealthy until they can", async () => {
    const t = await start({ engines: 1 });
    const entry = path.join(t.tempDirectory, "engine.mjs");
    const away = path.join(t.tempDirectory, "away.mjs");
    const real = new URL("../../src/engine/engine-process.js", import.meta.url);
    await writeFile(entry, `import ${JSON.stringify(real.href)};`);
    await copyFile(entry, away);
    const other = await start({ engines: 1, entry });
    await rename(entry, `${entry}.gone`);
    process.kill(other.engines.pids[0] ?? 0, "SIGKILL");
    await until(() => !other.engines.healthy);
    await expect(one(other)).rejects.toMatchObject({ code: "UNAVAILABLE" });
    await rename(away, entry);
    await until(() => other.engines.healthy);
    expect(await one(other)).toEqual({ n: 7 });
  });
});

describe("a system that limits no memory by itself", () => {
  it("has the engine that takes too much killed", async () => {
    const t = await start({ engines: 2, systemLimits: false, memoryBytes: 64 << 20 });
    const query = begin(t, texts);
    expect(await query.outcome).toBe("PAYLOAD_TOO_LARGE");
    expect(query.losses()).toBe(2);
    expect(await one(t)).toEqual({ n: 7 });
  });
});

describe("statements that would take the server down", () => {
  /** Another caller's query, once in a while, until it is told to stop. */
  function neighbour(t: TestBackend): { readonly end: () => Promise<number> } {
    const ended = new AbortController();
    const ask = async (): Promise<number> => {
      let answered = 0;
      while (!ended.signal.aborted) {
        expect(await one(t)).toEqual({ n: 7 });
        answered++;
      }
      return answered;
    };
    const asking = ask();
    return {
      end: () => {
        ended.abort();
        return asking;
      },
    };
  }

  it.each([
    ["a crash of DuckDB's", "SELECT lead(1, -9223372036854775808) OVER ()", "INTERNAL"],
    [
      "lists without bound in one step",
      "SELECT max(len(list_append(l, i))) FROM range(2048) t(i), (SELECT list(j) l FROM range(1000000) t(j))",
      "PAYLOAD_TOO_LARGE",
    ],
    ["texts without bound in one step", texts, "PAYLOAD_TOO_LARGE"],
  ])("%s: others do not notice", async (_what, sql, code) => {
    const t = await start({ engines: 4, spares: 2, memoryBytes: 64 << 20 });
    const beside = neighbour(t);
    expect(await begin(t, sql).outcome).toBe(code);
    expect(await beside.end()).toBeGreaterThan(0);
  });

  it("a step that no interrupt ends: its engine is killed when it is given up", async () => {
    const t = await start({ engines: 4, spares: 2, interruptMs: 300 });
    const hashes = Array.from(
      { length: 12 },
      (_, k) => `max(sha256(CASE WHEN i % ${k + 2} = 0 THEN s ELSE t END))`,
    ).join(", ");
    const sql = `SELECT ${hashes} FROM range(2048) r(i),
      (SELECT string_agg(j, chr(44)) s, string_agg(j, chr(45)) t FROM range(1000000) g(j))`;
    const beside = neighbour(t);
    const queries = [begin(t, sql), begin(t, sql)];
    await until(() => t.engines.lent >= 2);
    for (const { cancel } of queries) {
      cancel();
    }
    for (const { outcome } of queries) {
      expect(await outcome).toBe("CANCELLED");
    }
    await until(() => t.engines.lent <= 1);
    expect(await beside.end()).toBeGreaterThan(0);
  });
});

describe("the files of others", () => {
  it("are out of reach of a statement that has slipped past the gate", async () => {
    const t = await start({ engines: 2 });
    const of = (audience: string): string => path.join(t.lakeDirectory, "log_entries", `audience=${audience}`);
    const make = await t.engines.lease(inspectInstance, new AbortController().signal);
    for (const audience of ["mine", "mine2", "theirs"]) {
      await mkdir(of(audience), { recursive: true });
      const directories = [of(audience)];
      const written = await make.run({ ...inspectInstance, key: audience, directories }, [
        {
          kind: "execute",
          sql: `COPY (SELECT '${audience}' AS msg) TO '${of(audience)}/a.parquet'`,
        },
      ]);
      expect(written).toMatchObject({ kind: "ended", end: { error: null } });
    }
    make.release();
    const instance = lakeInstance([of("mine")]);
    const ask = async (sql: string): Promise<string> => {
      const lease = await t.engines.lease(instance, new AbortController().signal);
      const outcome = await lease.run(instance, [{ kind: "rows", sql, maxBytes: 10_000 }]);
      lease.release();
      if (outcome.kind === "lost") {
        return "lost";
      }
      return outcome.end.error ?? JSON.stringify(outcome.results[0]?.rows);
    };
    expect(await ask(`SELECT msg FROM read_parquet('${of("mine")}/*.parquet')`)).toBe('[["mine"]]');
    for (const sql of [
      `SELECT * FROM read_parquet('${of("theirs")}/a.parquet')`,
      `SELECT * FROM read_parquet('${of("mine2")}/a.parquet')`,
      `SELECT * FROM read_parquet('${of("mine")}/../audience=theirs/a.parquet')`,
      `SELECT * FROM read_parquet('${t.lakeDirectory}/*/*/*.parquet')`,
      `SELECT * FROM read_blob('${of("theirs")}/a.parquet')`,
      `SELECT * FROM glob('${t.lakeDirectory}/log_entries/audience=theirs/*')`,
      "SELECT * FROM read_text('/etc/passwd')",
      `COPY (SELECT 1) TO '${of("theirs")}/b.parquet'`,
      `ATTACH '${of("theirs")}/x.db' AS x`,
    ]) {
      const answer = await ask(sql);
      expect(`${sql}: ${answer}`).toMatch(/Permission Error|\[\]$/u);
      expect(answer).not.toContain('theirs"]');
    }
    for (const sql of [
      `SET allowed_directories = ['/']`,
      "SET enable_external_access = true",
      "RESET lock_configuration",
    ]) {
      expect(await ask(sql)).toMatch(/locked|Cannot change/u);
    }
    expect(existsSync(path.join(of("theirs"), "b.parquet"))).toBe(false);
    // And through the backend, where nothing of it is told.
    await expect(
      (async () => {
        const stream = t.run(
          { sql: `SELECT * FROM read_parquet('${of("theirs")}/a.parquet')`, explain: "none" },
          { files: [], rows: [], directories: [of("mine")] },
        );
        for await (const message of stream) {
          expect(message.length).toBeGreaterThan(0);
        }
      })(),
    ).rejects.toMatchObject({ code: "INTERNAL", message: "internal error" });
  });
});

describe("a large result", () => {
  it("passes through without being held", async () => {
    const t = await start({ engines: 1 });
    // Test files share this process.
    const before = process.memoryUsage().arrayBuffers;
    let mostBytes = 0;
    let bytes = 0;
    const sql = "SELECT i, repeat('x', 200) AS s FROM range(1500000) t(i)";
    for await (const message of t.run({ sql, explain: "none" })) {
      bytes += message.length;
      mostBytes = Math.max(mostBytes, process.memoryUsage().arrayBuffers);
    }
    expect(bytes).toBeGreaterThan(300 << 20);
    expect(mostBytes - before).toBeLessThan(200 << 20);
  });

  it("is whole while the reader of an earlier result of its engine catches up", async () => {
    const t = await start({ engines: 1 });
    // Three small messages, which are all with the server when the engine is free again.
    const small = t.run({ sql: "SELECT i % 2 = 0 AS even FROM range(100000) t(i)", explain: "none" });
    expect(await small.ended).toMatchObject({ failure: null });
    const rows = 400_000;
    const sql = `SELECT i, 'row ' || i AS text FROM range(${rows}) t(i)`;
    const parts: Uint8Array[] = [];
    const earlier: number[] = [];
    for await (const message of t.run({ sql, explain: "none" })) {
      // The one reader does not hurry; the other takes what it has.
      await sleep(50);
      if (parts.length === 0) {
        for await (const early of small) {
          earlier.push(early.length);
        }
      }
      await sleep(50);
      parts.push(...ipcOf(message));
    }
    expect(earlier).toHaveLength(3);
    const texts = Array.from(tableFromIPC(parts), (row) => String(row["text"]));
    expect(texts.filter((text, i) => text !== `row ${i}`)).toEqual([]);
    expect(texts).toHaveLength(rows);
  });

  it("waits for its reader", async () => {
    const t = await start({ engines: 1 });
    const stream = t.run({ sql: large, explain: "none" });
    const messages = stream[Symbol.asyncIterator]();
    for (let i = 0; i < 3; i++) {
      await messages.next();
    }
    const before = process.memoryUsage().arrayBuffers;
    await new Promise((resolve) => setTimeout(resolve, 100));
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(32 << 20);
    await messages.return?.(undefined);
    await stream.ended;
    expect(t.engines.lent).toBe(0);
  });
});

describe("results", () => {
  it("end with RESOURCE_EXHAUSTED's code at the row that is one too many", async () => {
    const t = await start({ maxResultRows: 100_000 });
    expect((await t.query("SELECT i FROM range(100000) t(i)")).numRows).toBe(100_000);
    await expect(t.query("SELECT i FROM range(100001) t(i)")).rejects.toMatchObject({
      code: "PAYLOAD_TOO_LARGE",
      message: expect.stringContaining("more than 100000 rows") as unknown,
    });
  });

  it("are bounded in bytes", async () => {
    const t = await start({ maxResultBytes: 3 << 20 });
    expect((await t.query("SELECT i FROM range(300000) t(i)")).numRows).toBe(300_000);
    await expect(t.query("SELECT i FROM range(500000) t(i)")).rejects.toMatchObject({
      code: "PAYLOAD_TOO_LARGE",
      message: expect.stringContaining("SVC_QUERY_MAX_RESULT_BYTES") as unknown,
    });
  });
});
