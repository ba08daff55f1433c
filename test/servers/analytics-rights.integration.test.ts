/** What an analytics server needs of a bucket: reading, and nothing else. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";

import { afterEach, expect, test, vi } from "vitest";

import { withEndpoint } from "../../src/lake/store/s3-address.js";
import { parseConfig } from "../../src/runtime/config/parse.js";
import { Scope } from "../../src/runtime/lifecycle.js";
import { createMetrics } from "../../src/runtime/metrics.js";
import { startAnalyticsServer } from "../../src/servers/analytics.js";
import { mintAnalyticsKey } from "../../src/auth/keys/keys.js";
import { createTappedLogger } from "../helpers/cleartext/cleartext-tap.js";
import { createTestDatabase } from "../helpers/postgres/postgres.js";
import { until } from "../helpers/until.js";

const scope = new Scope("test", createTappedLogger());

afterEach(async () => {
  vi.unstubAllEnvs();
  await scope.stop();
});

test("an analytics server is ready with the right to read alone, and not without it", async () => {
  vi.stubEnv("AWS_ACCESS_KEY_ID", "a");
  vi.stubEnv("AWS_SECRET_ACCESS_KEY", "b");
  vi.stubEnv("AWS_REGION", "us-east-1");
  let mayRead = true;
  const written: string[] = [];
  const bucket = createServer((request, response) => {
    const reads = request.method === "GET" || request.method === "HEAD";
    if (!reads) {
      written.push(`${request.method} ${request.url}`);
    }
    const [status, code] = reads && mayRead ? [404, "NoSuchKey"] : [403, "AccessDenied"];
    const body = `<Error><Code>${code}</Code><Message>m</Message></Error>`;
    request.resume();
    response.writeHead(status, { "content-length": body.length });
    response.end(request.method === "HEAD" ? undefined : body);
  });
  await new Promise<void>((resolve) => {
    bucket.listen(0, "127.0.0.1", resolve);
  });
  scope.defer("bucket", async () => {
    bucket.closeAllConnections();
    await new Promise((resolve) => {
      bucket.close(resolve);
    });
  });
  const database = await createTestDatabase();
  scope.defer("database", () => database.drop());
  await mintAnalyticsKey(database.sql, { name: "test", createdBy: "test" });
  const start = () =>
    startAnalyticsServer({
      config: parseConfig("analytics", [], {
        SVC_ANALYTICS_LISTEN: "127.0.0.1:0",
        SVC_ANALYTICS_HEALTH_LISTEN: "127.0.0.1:0",
      }),
      connectionString: database.connectionString,
      objectStoreUri: withEndpoint("s3://lake", `http://127.0.0.1:${(bucket.address() as AddressInfo).port}`),
      logger: createTappedLogger(),
      metrics: createMetrics(),
    });
  const server = await start();
  scope.defer("server", () => server.stop());
  const ready = async (): Promise<number> => {
    const answer = await fetch(`http://127.0.0.1:${server.healthAddress.port}/ready`);
    await answer.arrayBuffer();
    return answer.status;
  };
  expect(await ready()).toBe(200);
  mayRead = false;
  // A good result holds for some seconds.
  await until(async () => {
    await sleep(200);
    return (await ready()) === 503;
  });
  expect(written).toEqual([]);
  await expect(start()).rejects.toThrow("it denies access");
});
