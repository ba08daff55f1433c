import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readdirSync } from "node:fs";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { hostname, tmpdir } from "node:os";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";

import { describe, expect, it } from "vitest";

import { makeTempDirectory } from "../../src/query/temp-directory.js";
import { noSources, startTestPool, type TestPool } from "../helpers/query-pool.js";
import { until } from "../helpers/until.js";
import { endless } from "../helpers/endless.js";

/** Sends a million rows and then looks for further ones for ever: the reader waits for a chunk that does not come. */
const endlessFetch = "SELECT i FROM range(1000000000000) t(i) WHERE i < 1000000";

/** Starts a query; it is read until it ends or fails. */
async function begin(
  t: TestPool,
  sql: string,
): Promise<{
  readonly cancel: () => void;
  readonly outcome: Promise<string>;
  /** Messages that came so far; the first is the schema. */
  readonly messages: () => number;
}> {
  const { executable } = await t.pool.inspect(sql);
  const controller = new AbortController();
  const stream = t.pool.run(executable, noSources, controller.signal);
  let messages = 0;
  const read = async (): Promise<string> => {
    try {
      for await (const message of stream) messages += message.length > 0 ? 1 : 0;
      return `${messages} messages`;
    } catch (error) {
      return (error as { code?: string }).code ?? String(error);
    } finally {
      await stream.ended.catch(() => undefined);
    }
  };
  return {
    cancel: () => {
      controller.abort();
    },
    outcome: read(),
    messages: () => messages,
  };
}

describe("one query thread", () => {
  it("answers short queries while all its other places hold endless ones, and is free after they are cancelled", async () => {
    const t = await startTestPool({ threads: 1, queriesPerThread: 8 });
    try {
      const long = await Promise.all(Array.from({ length: 6 }, () => begin(t, endless)));
      await until(() => t.pool.running === 6);
      for (let i = 0; i < 20; i++) {
        const table = await t.query(`SELECT sum(i) AS n FROM range(${i + 1}) t(i)`);
        expect(Number(table.get(0)?.["n"])).toBe((i * (i + 1)) / 2);
      }
      expect(t.pool.running).toBe(6);
      for (const { cancel } of long) cancel();
      for (const { outcome } of long) expect(await outcome).toBe("CANCELLED");
      await until(() => t.pool.running === 0);
      expect((await t.query("SELECT 7 AS n")).get(0)?.["n"]).toBe(7);
    } finally {
      await t.stop();
    }
  });

  it("lets others pass a query that has sent rows and then finds no more", async () => {
    const t = await startTestPool({ threads: 1, queriesPerThread: 8 });
    try {
      const stuck = await begin(t, endlessFetch);
      // All that there is has come when nothing comes any more.
      for (let before = 0; before < 2 || stuck.messages() > before; await sleep(150)) {
        before = stuck.messages();
        await sleep(150);
      }
      for (let i = 0; i < 10; i++) {
        expect((await t.query(`SELECT ${i} AS n`)).get(0)?.["n"]).toBe(i);
      }
      stuck.cancel();
      expect(await stuck.outcome).toBe("CANCELLED");
      await until(() => t.pool.running === 0);
    } finally {
      await t.stop();
    }
  });

  it("gives up EXPLAIN ANALYZE of what would never end", async () => {
    const t = await startTestPool({ threads: 1, queriesPerThread: 4 });
    try {
      const explained = await begin(t, `EXPLAIN ANALYZE ${endless}`);
      await until(() => t.pool.running === 1);
      expect((await t.query("SELECT 1 AS n")).get(0)?.["n"]).toBe(1);
      explained.cancel();
      expect(await explained.outcome).toBe("CANCELLED");
    } finally {
      await t.stop();
    }
  });
});

describe("two query threads", () => {
  it("keep what does not fit into memory apart", async () => {
    const t = await startTestPool({ threads: 2, queriesPerThread: 2, memoryLimitBytes: 64 << 20 });
    try {
      const rows = 1_000_000;
      const sql = (seed: number): string =>
        `SELECT count(*) AS n, sum(h) AS h, bool_and(ordered) AS ordered FROM (
           SELECT h, coalesce(h >= lag(h) OVER (), true) AS ordered FROM (
             SELECT hash(i + ${seed}) % 1000000 AS h, repeat('x', 20) || i AS t FROM range(${rows}) t(i) ORDER BY h, t))`;
      const alone = (await t.query(sql(1))).get(0)?.toJSON();
      const together = await Promise.all([1, 1, 1, 1].map((seed) => t.query(sql(seed))));
      for (const table of together) {
        expect(table.get(0)?.toJSON()).toEqual(alone);
        expect(Number(table.get(0)?.["n"])).toBe(rows);
      }
    } finally {
      await t.stop();
    }
  });
});

describe("stopping", () => {
  it("in the middle of anything ends every query and never takes the process down", async () => {
    const entry = fileURLToPath(new URL("../helpers/query-stop-loop.js", import.meta.url));
    const child = spawn(process.execPath, [entry, "12"], { stdio: ["ignore", "pipe", "pipe"] });
    let output = "";
    child.stdout.on("data", (chunk: Buffer) => (output += chunk.toString()));
    child.stderr.on("data", (chunk: Buffer) => (output += chunk.toString()));
    const [code, signal] = (await once(child, "exit")) as [number | null, string | null];
    expect({ code, signal, output }).toEqual({ code: 0, signal: null, output: "12 stops\n" });
    // Twelve pools are started and stopped, at full load.
  }, 120_000);
});

describe("results", () => {
  it("end with RESOURCE_EXHAUSTED's code at the row that is one too many", async () => {
    const t = await startTestPool({ maxResultRows: 100_000 });
    try {
      expect((await t.query("SELECT i FROM range(100000) t(i)")).numRows).toBe(100_000);
      await expect(t.query("SELECT i FROM range(100001) t(i)")).rejects.toMatchObject({
        code: "PAYLOAD_TOO_LARGE",
        message: expect.stringContaining("more than 100000 rows") as unknown,
      });
    } finally {
      await t.stop();
    }
  });

  it("are bounded in bytes", async () => {
    const t = await startTestPool({ maxResultBytes: 3 << 20 });
    try {
      expect((await t.query("SELECT i FROM range(300000) t(i)")).numRows).toBe(300_000);
      await expect(t.query("SELECT i FROM range(500000) t(i)")).rejects.toMatchObject({
        code: "PAYLOAD_TOO_LARGE",
        message: expect.stringContaining("SVC_QUERY_MAX_RESULT_BYTES") as unknown,
      });
    } finally {
      await t.stop();
    }
  });
});

describe("the directory for temporary files", () => {
  it("of a dead process is removed at the next start; those of living and foreign ones stay", async () => {
    const root = await mkdtemp(path.join(tmpdir(), "telemetry-test-temp-"));
    try {
      const own = await makeTempDirectory(root);
      const owner = JSON.parse(await readFile(path.join(own, "owner.json"), "utf8")) as Record<
        string,
        unknown
      >;
      expect(owner).toMatchObject({ pid: process.pid, hostname: hostname() });
      const child = spawn(process.execPath, ["-e", ""]);
      await once(child, "exit");
      const leave = async (
        name: string,
        content: Record<string, unknown> | null,
      ): Promise<string> => {
        const directory = path.join(root, name);
        await mkdir(path.join(directory, "1"), { recursive: true });
        await writeFile(path.join(directory, "1", "spilled.tmp"), "x");
        if (content !== null) {
          await writeFile(path.join(directory, "owner.json"), JSON.stringify(content));
        }
        return directory;
      };
      const dead = await leave("telemetry-query-dead", { ...owner, pid: child.pid });
      const reused = await leave("telemetry-query-reused", { ...owner, started: "1" });
      const kept = await Promise.all([
        leave("telemetry-query-foreign", { ...owner, pid: child.pid, hostname: "elsewhere" }),
        leave("telemetry-query-container", { ...owner, pid: child.pid, pidNamespace: "pid:[1]" }),
        leave("telemetry-query-nobody", null),
        leave("telemetry-query-garbage", { pid: "all" }),
        leave("something-else", { ...owner, pid: child.pid }),
      ]);
      const next = await makeTempDirectory(root);
      expect(existsSync(dead)).toBe(false);
      // Where the system says when a process started, a number that was given out again is told apart.
      expect(existsSync(reused)).toBe(owner["started"] === "");
      for (const directory of [own, next, ...kept]) expect(existsSync(directory)).toBe(true);
      expect(readdirSync(next)).toEqual(["owner.json"]);
    } finally {
      await rm(root, { recursive: true, force: true });
    }
  });
});
