/** Objects in a bucket, which a cluster reads with credentials of its own, whatever the object store does meanwhile. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import {
  type Fault,
  type FaultProxy,
  findS3Server,
  s3Environment,
  type S3Server,
  startFaultProxy,
  startS3Server,
} from "../helpers/lake/s3-server.js";
import { type ClusterWorld, sortedRows, startClusterWorld } from "../helpers/query/cluster-world.js";
import { findSail, startSail } from "../helpers/query/sail.js";
import type { SparkConnectServer } from "../helpers/query/spark-connect-server.js";

const program = await findS3Server();
const sail = await findSail();
const rows = "SELECT span_id, time, name, duration_ms FROM spans";

describe.skipIf(program === null || sail === null)("Sail over a bucket", () => {
  let server: S3Server;
  let proxy: FaultProxy;
  let cluster: SparkConnectServer;
  let world: ClusterWorld;

  const start = (secret: string): Promise<SparkConnectServer> =>
    startSail(sail ?? "", "local-cluster", {
      ...s3Environment,
      AWS_SECRET_ACCESS_KEY: secret,
      AWS_ENDPOINT: proxy.endpoint,
      AWS_ALLOW_HTTP: "true",
    });
  const open = (uri: string, prefix: string): Promise<ClusterWorld> =>
    startClusterWorld(uri, {
      ...s3Environment,
      SVC_OBJECT_STORE_URI: `s3://lake/${prefix}`,
      SVC_S3_ENDPOINT: server.endpoint,
    });

  beforeAll(async () => {
    server = await startS3Server(program ?? "");
    proxy = await startFaultProxy(server.endpoint);
    cluster = await start(s3Environment.AWS_SECRET_ACCESS_KEY);
    world = await open(cluster.uri, "telemetry");
  });

  afterAll(async () => {
    await world?.stop();
    await cluster?.stop();
    await proxy?.stop();
    await server?.stop();
  });

  it.each([
    rows,
    "SELECT * FROM log_entries",
    "SELECT service_name, count(*) AS n, max(time) AS latest FROM log_entries GROUP BY ALL",
    "SELECT name, max(value) AS most FROM measures GROUP BY ALL",
  ])("%s", async (sql) => {
    proxy.requests.length = 0;
    expect(await world.compare(sql)).toBeGreaterThan(0);
    // It was the cluster that read, and nothing but objects of the lake.
    const read = proxy.requests.filter(({ method }) => method === "GET");
    expect(read.length).toBeGreaterThan(0);
    expect(read.filter(({ url }) => !url.pathname.startsWith("/lake/telemetry/"))).toEqual([]);
  });

  it.each([
    ["fails", { kind: "status", status: 503, code: "SlowDown" }],
    ["breaks off", { kind: "cut body", bytes: 100 }],
    ["is gone", { kind: "status", status: 404, code: "NoSuchKey" }],
  ] as readonly (readonly [string, Fault])[])(
    "answers right or not at all when an object's read %s",
    async (_, fault) => {
      const right = sortedRows(await world.rowsOf(rows, "local"));
      const outcome = async (times: number): Promise<string> => {
        let hits = 0;
        proxy.fault = (method, url) =>
          method === "GET" && url.pathname.includes("/spans/") && hits++ < times ? fault : null;
        try {
          const answer = sortedRows(await world.rowsOf(rows, "cluster"));
          return JSON.stringify(answer) === JSON.stringify(right) ? "right" : `${answer.length} rows`;
        } catch (error) {
          return String(error);
        } finally {
          proxy.fault = () => null;
          expect(hits).toBeGreaterThan(0);
        }
      };
      expect(await outcome(1)).toMatch(/^right$|INTERNAL|UNAVAILABLE/u);
      expect(await outcome(Number.POSITIVE_INFINITY)).toMatch(/INTERNAL|UNAVAILABLE/u);
      expect(sortedRows(await world.rowsOf(rows, "auto"))).toEqual(right);
    },
  );

  it("is not given the server's credentials", async () => {
    const other = await start("another secret");
    const second = await open(other.uri, "other");
    try {
      await expect(second.rowsOf(rows, "cluster")).rejects.toThrow(/INTERNAL|UNAVAILABLE/u);
      expect((await second.rowsOf(rows, "auto")).rows.length).toBeGreaterThan(0);
    } finally {
      await second.stop();
      await other.stop();
    }
  });
});
