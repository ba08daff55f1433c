/**
 * Clusters whose workers are processes of their own, one of which is killed while a query runs, and then the whole
 * cluster: the answer is right, or an error, never short.
 */
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { processCpuSeconds } from "../../src/engine/process-cpu.js";
import { childrenOf, signal } from "../helpers/processes.js";
import { type Answer, type ClusterWorld, sortedRows, startClusterWorld } from "../helpers/query/cluster-world.js";
import { findSail, startSail } from "../helpers/query/sail.js";
import { startSailPods } from "../helpers/query/sail-pods.js";
import { findSpark, startSpark } from "../helpers/query/spark.js";
import { until } from "../helpers/until.js";

/** A cluster of two workers. */
interface Workers {
  readonly uri: string;
  running(): Promise<readonly number[]> | readonly number[];
  /** Ends the cluster at once. */
  kill(): Promise<void>;
  stop(): Promise<void>;
}

/** Of a process; 0 when it has ended. */
function cpuSeconds(pid: number): number {
  try {
    return processCpuSeconds(pid);
  } catch (error) {
    if (!/ENOENT|ESRCH/u.test(String(error))) {
      throw error;
    }
    return 0;
  }
}

const sail = await findSail();
const spark = await findSpark();
const engines = [
  {
    name: "Sail",
    found: sail,
    startsWorkers: true,
    start: async (): Promise<Workers> => {
      const pods = await startSailPods(sail ?? "", 2);
      const server = await startSail(sail ?? "", "kubernetes-cluster", pods.env);
      return {
        uri: server.uri,
        running: () => pods.running(),
        kill: () => server.stop(),
        stop: async () => {
          await server.stop();
          await pods.stop();
        },
      };
    },
  },
  {
    name: "Spark",
    found: spark,
    startsWorkers: false,
    start: async (): Promise<Workers> => {
      const server = await startSpark(spark ?? "", "local-cluster[2,1,1024]");
      return {
        uri: server.uri,
        running: () => childrenOf(server.pid),
        kill: () => server.stop(),
        stop: () => server.stop(),
      };
    },
  },
];

/** Both work for a while. */
const grouped =
  "SELECT a.span_id, count(*) AS n, max(a.name || b.name || b.span_id) AS last FROM spans a JOIN spans b ON a.time < b.time GROUP BY 1";
const streamed =
  "SELECT a.span_id, b.span_id AS other FROM spans a JOIN spans b ON a.time < b.time AND a.kind = b.kind";
/** More than is on its way at once. */
const long = "SELECT a.span_id, b.name FROM spans a CROSS JOIN (SELECT name FROM spans ORDER BY span_id LIMIT 600) b";
/** Shares of that work after which a worker is killed. */
const moments = [0.2, 0.5, 0.9];

/** `right`, how it was short or long, or the error. */
function judged(answer: Answer | string, right: readonly string[]): string {
  if (typeof answer === "string") {
    return answer;
  }
  const rows = sortedRows(answer);
  return JSON.stringify(rows) === JSON.stringify(right) ? "right" : `${rows.length} rows, not ${right.length}`;
}

for (const { name, found, startsWorkers, start } of engines) {
  describe.skipIf(found === null)(`${name} with two workers`, () => {
    let cluster: Workers;
    let world: ClusterWorld;

    beforeAll(async () => {
      cluster = await start();
      world = await startClusterWorld(cluster.uri);
    });

    afterAll(async () => {
      await world?.stop();
      await cluster?.stop();
    });

    /** Asks, and does something as soon as one worker has used so much CPU. */
    const askAndKill = async (sql: string, afterSeconds: number, kill: (worker: number) => Promise<void> | void) => {
      const before = new Map((await cluster.running()).map((pid) => [pid, cpuSeconds(pid)]));
      let ended = false;
      const asked = world
        .rowsOf(sql, "cluster")
        .catch((error: unknown) => String(error))
        .finally(() => {
          ended = true;
        });
      let killed = false;
      let mostSeconds = 0;
      await until(async () => {
        for (const pid of await cluster.running()) {
          const seconds = cpuSeconds(pid) - (before.get(pid) ?? 0);
          mostSeconds = Math.max(mostSeconds, seconds);
          if (!killed && seconds >= afterSeconds) {
            killed = true;
            await kill(pid);
          }
        }
        return killed || ended;
      }, 100_000);
      return { killed, mostSeconds, answer: await asked };
    };

    it.each([
      ["groups", grouped],
      ["streams", streamed],
    ])(
      "answers right or not at all when a worker is killed: %s",
      async (_, sql) => {
        const right = sortedRows(await world.rowsOf(sql, "local"));
        expect(right.length).toBeGreaterThan(1000);
        const { mostSeconds, answer: undisturbed } = await askAndKill(sql, Number.POSITIVE_INFINITY, () => undefined);
        expect(judged(undisturbed, right)).toBe("right");
        const outcomes: string[] = [];
        for (const moment of moments) {
          await until(async () => startsWorkers || (await cluster.running()).length === 2);
          const { killed, answer } = await askAndKill(sql, mostSeconds * moment, (pid) => void signal(pid, "SIGKILL"));
          outcomes.push(`${killed ? "killed" : "not killed"}: ${judged(answer, right)}`);
        }
        process.stdout.write(`${name}: ${outcomes.join("; ")}\n`);
        expect(outcomes.filter((outcome) => !/: right$|UNAVAILABLE|INTERNAL/u.test(outcome))).toEqual([]);
        expect(outcomes.some((outcome) => outcome.startsWith("killed"))).toBe(true);
        // And it goes on.
        await until(async () => {
          const again = await world.rowsOf(sql, "cluster").catch((error: unknown) => String(error));
          return judged(again, right) === "right";
        }, 100_000);
      },
      400_000,
    );

    it("answers right or not at all when a worker is killed while rows come", async () => {
      const right = sortedRows(await world.rowsOf(long, "local"));
      let killed = false;
      const answer = await world
        .rowsOf(long, "cluster", async (messages) => {
          const [worker] = messages === 4 ? await cluster.running() : [];
          if (worker !== undefined) {
            killed = signal(worker, "SIGKILL");
          }
        })
        .catch((error: unknown) => String(error));
      process.stdout.write(`${name}, while rows come: ${judged(answer, right)}\n`);
      expect({ killed, outcome: judged(answer, right) }).toEqual({
        killed: true,
        outcome: expect.stringMatching(/^right$|UNAVAILABLE|INTERNAL/u),
      });
    });

    it("fails when all of it is killed, and auto runs here", async () => {
      const right = sortedRows(await world.rowsOf(grouped, "local"));
      const { killed, answer } = await askAndKill(grouped, 0.1, () => cluster.kill());
      expect({ killed, answer }).toEqual({ killed: true, answer: expect.stringContaining("UNAVAILABLE") });
      expect(sortedRows(await world.rowsOf(grouped, "auto"))).toEqual(right);
    });
  });
}
