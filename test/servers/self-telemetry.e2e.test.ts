import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { fileURLToPath } from "node:url";
import { afterAll, expect, it } from "vitest";

import { mintAnalyticsKey, mintIngestionKey } from "../../src/auth/keys/keys.js";
import { temporaryDirectory } from "../helpers/servers/monolith.js";
import { createTestDatabase } from "../helpers/postgres/postgres.js";

const cleanups: (() => Promise<unknown> | void)[] = [];
afterAll(async () => {
  for (const cleanup of cleanups.toReversed()) {
    await cleanup();
  }
});

it("the servers on their own report to SVC_TELEMETRY_URL with the ingestion key", async () => {
  const reported = new Map<string, { authorization: string | undefined; body: Buffer }>();
  let onReport = (): void => {};
  const receiver = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      const body = Buffer.concat(chunks);
      const service = ["telemetry-ingestion-srv", "flight-sql-srv"].find((name) => body.includes(name));
      const { authorization } = request.headers;
      reported.set(`${service ?? "?"} ${request.url ?? ""}`, { authorization, body });
      response.writeHead(200).end();
      onReport();
    });
  });
  await new Promise<void>((resolve) => {
    receiver.listen(0, "127.0.0.1", resolve);
  });
  cleanups.push(() => {
    receiver.closeAllConnections();
    receiver.close();
  });
  const db = await createTestDatabase();
  cleanups.push(() => db.drop());
  const { key } = await mintIngestionKey(db.sql, {
    name: "self",
    audience: "public",
    createdBy: "test",
  });
  await mintAnalyticsKey(db.sql, { name: "reader", createdBy: "test" });
  const data = await temporaryDirectory();
  cleanups.push(() => data.remove());

  /** Rejects when the server ends by itself. */
  const start = (program: string, args: readonly string[]): Promise<never> => {
    const child = spawn(
      process.execPath,
      [fileURLToPath(new URL(`../../src/bin/${program}.js`, import.meta.url)), ...args],
      {
        cwd: tmpdir(),
        stdio: ["ignore", "ignore", "pipe"],
        env: {
          PATH: process.env["PATH"],
          SVC_DATA_DIR: data.directory,
          SVC_SQL_CONNECTION_STRING: db.connectionString,
          SVC_TELEMETRY_URL: `http://127.0.0.1:${(receiver.address() as AddressInfo).port}`,
          SVC_INGESTION_API_KEY: key,
        },
      },
    );
    let stderr = "";
    child.stderr.on("data", (chunk: Buffer) => {
      stderr += chunk.toString();
    });
    const ended = once(child, "close");
    cleanups.push(async () => {
      child.kill("SIGTERM");
      await ended;
    });
    return ended.then(() => {
      throw new Error(`${program} ended: ${stderr}`);
    });
  };
  const deaths = [
    start("telemetry-ingestion-srv", ["--ingestion-listen=127.0.0.1:0", "--otlp-http-listen=", "--otlp-grpc-listen="]),
    start("flight-sql-srv", ["--analytics-listen=127.0.0.1:0", "--analytics-health-listen=127.0.0.1:0"]),
  ];
  for (const death of deaths) {
    death.catch(() => undefined);
  } // at the end of the test they are no failure

  const expected = ["telemetry-ingestion-srv", "flight-sql-srv"].flatMap((service) =>
    ["logs", "metrics", "traces"].map((signal) => `${service} /ingestion/otlp/v1/${signal}`),
  );
  const complete = new Promise<void>((resolve) => {
    onReport = () => {
      if (expected.every((name) => reported.has(name))) {
        resolve();
      }
    };
    onReport();
  });
  await Promise.race([complete, ...deaths]);
  for (const { authorization } of reported.values()) {
    expect(authorization).toBe(`Bearer ${key}`);
  }
  expect([...reported.keys()].sort()).toEqual(expected.sort());
});
