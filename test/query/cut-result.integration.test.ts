/** Results whose engine is killed after rows have gone out: no client takes them for whole ones. */
import { mkdir, mkdtemp, rename, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";

import { status } from "@grpc/grpc-js";
import { beforeAll, beforeEach, expect, it } from "vitest";

import { vary } from "../../bench/load/attacks.js";
import { childrenOf } from "../helpers/processes.js";
import { connectReader } from "../../bench/load/flight-reader.js";
import { openQueryLake, publishObjects } from "../../bench/load/query-lake.js";
import { staticKey } from "telemetry-service-client";
import { connect } from "telemetry-service-client";
import { startTestAnalytics, type TestAnalytics } from "../helpers/servers/analytics.js";
import { until } from "../helpers/until.js";

/** A result without end; one that has ended two engines is refused, so each test has another. */
const large = (): string => vary("SELECT i, repeat('x', 200) AS s FROM range(100000000) t(i)");

let t: TestAnalytics;

beforeAll(async () => {
  t = await startTestAnalytics();
  const directory = await mkdtemp(path.join(tmpdir(), "telemetry-test-cut-"));
  const { directory: from, objects } = await openQueryLake(directory, 400_000, 4);
  for (const object of objects) {
    const to = path.join(t.lake.directory, object.path);
    await mkdir(path.dirname(to), { recursive: true });
    await rename(path.join(from, object.path), to);
  }
  await publishObjects(t.sql, "log_entries", objects);
  return async () => {
    await t.stop();
    await rm(directory, { recursive: true, force: true });
  };
});

/** Of the server's engines. */
function pids(): number[] {
  return childrenOf(process.pid, "engine-process");
}

const killed = new Set<number>();

beforeEach(async () => {
  // The last test has killed some, and a query that meets two of those in a row fails at once.
  await until(() => pids().some((pid) => !killed.has(pid)));
});

/** Kills every engine of the server. */
function killEngines(): void {
  expect(pids().length).toBeGreaterThan(0);
  for (const pid of pids()) {
    killed.add(pid);
    process.kill(pid, "SIGKILL");
  }
}

const cutOff = [status.INTERNAL, status.RESOURCE_EXHAUSTED];

it.each([
  ["fetched", large],
  ["taken in place", () => "SELECT time, msg, properties FROM log_entries"],
])("a gRPC client gets an error status, never the end, of rows that are %s", async (_how, sql) => {
  const reader = connectReader(`127.0.0.1:${t.port}`, t.key);
  try {
    const stream = await reader.open(sql());
    let messages = 0;
    const over = new Promise<unknown>((resolve) => {
      stream.on("end", () => {
        resolve("the end");
      });
      stream.on("error", resolve);
    });
    stream.on("data", () => {
      if (++messages === 5) {
        stream.pause();
        killEngines();
        stream.resume();
      }
    });
    const outcome = await over;
    expect(outcome).toMatchObject({ name: "Error" });
    expect(cutOff).toContain((outcome as { readonly code?: number }).code);
    expect(messages).toBeGreaterThanOrEqual(5);
  } finally {
    reader.close();
  }
});

it("the client that comes with the service throws behind the batches that came", async () => {
  const client = connect({ uri: `grpc://127.0.0.1:${t.port}`, auth: staticKey(t.key) });
  try {
    const { batches } = await client.query(large());
    let rows = 0;
    const read = async (): Promise<string> => {
      for await (const batch of batches) {
        const first = rows === 0 && batch.numRows > 0;
        rows += batch.numRows;
        if (first) {
          killEngines();
        }
      }
      return "the end";
    };
    await expect(read()).rejects.toMatchObject({ name: "FlightSqlError" });
    expect(rows).toBeGreaterThan(0);
    expect(rows).toBeLessThan(100_000_000);
  } finally {
    client.close();
  }
});
