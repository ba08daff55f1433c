/** OTLP/gRPC from OpenTelemetry's Python SDK, whose gRPC library is the one of C, Ruby and PHP as well. */
import { execFile } from "node:child_process";
import { rm, writeFile } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import { afterAll, beforeAll, describe, expect, test } from "vitest";

import { freshMark } from "../../helpers/otlp/otlp-bodies.js";
import { pythonPrograms } from "../../helpers/python.js";
import { startTestIngestion, type TestIngestion } from "../../helpers/servers/ingest-server.js";

const run = promisify(execFile);
const version = "1.45.2";
const found = await pythonPrograms([
  `opentelemetry-sdk==${version}`,
  `opentelemetry-exporter-otlp-proto-grpc==${version}`,
]);
// Compiled, this file is dist/test/routes/otlp/grpc-python.conformance.test.js.
const script = fileURLToPath(new URL("../../../../test/helpers/otlp/python-grpc.py", import.meta.url));

describe.skipIf("missing" in found)("the Python SDK", () => {
  let t: TestIngestion;
  beforeAll(async () => {
    t = await startTestIngestion({
      environment: { SVC_OTLP_GRPC_LISTEN: "127.0.0.1:0", SVC_HTTP_DRIVER: "node" },
    });
  });
  afterAll(async () => {
    await t.stop();
  });

  /** What the program printed; rejects when it failed. */
  async function send(mark: string, count: number, environment: Record<string, string> = {}): Promise<string> {
    const python = "bin" in found ? path.join(found.bin, "python") : "";
    const { stderr } = await run(python, [script, mark, String(count)], {
      env: {
        OTEL_EXPORTER_OTLP_ENDPOINT: t.grpcUrl ?? "",
        OTEL_EXPORTER_OTLP_HEADERS: `Authorization=Bearer%20${t.key}`,
        ...environment,
      },
    });
    return stderr;
  }

  const stored = async (mark: string): Promise<Record<string, unknown>> => {
    const count = async (table: "log_entries" | "spans", column: string): Promise<unknown> =>
      (await t.rows(table, `select count(*)::int as n from t where ${column} like '${mark} %'`))[0]?.["n"];
    const [metric] = await t.rows("measures", `select value from t where name = 'm-${mark}'`);
    return { logs: await count("log_entries", "msg"), spans: await count("spans", "name"), metric: metric?.["value"] };
  };

  test.each([
    ["as they are", {}],
    ["with gzip", { OTEL_EXPORTER_OTLP_COMPRESSION: "gzip" }],
  ])("stores logs, spans and metrics %s", async (_, environment) => {
    const mark = freshMark();
    await send(mark, 1000, environment);
    expect(await stored(mark)).toEqual({ logs: 1000, spans: 1000, metric: 1000 });
  });

  test("is told why its key is refused", async () => {
    const sent = send(freshMark(), 1, { OTEL_EXPORTER_OTLP_HEADERS: "authorization=Bearer%20svk_no" });
    await expect(sent).rejects.toThrow(/UNAUTHENTICATED/);
  });

  test("repeats what an outage of the store held up", async () => {
    const other = await startTestIngestion({ environment: { SVC_OTLP_GRPC_LISTEN: "127.0.0.1:0" } });
    try {
      const lake = fileURLToPath(other.storeUri);
      await rm(lake, { recursive: true });
      await writeFile(lake, "in the way");
      const sent = send(freshMark(), 10, {
        OTEL_EXPORTER_OTLP_ENDPOINT: other.grpcUrl ?? "",
        OTEL_EXPORTER_OTLP_HEADERS: `authorization=Bearer%20${other.key}`,
      });
      const refused = (): Promise<number> => other.metric("ingestion_requests_total", 'code="503",protocol="grpc"');
      await expect.poll(refused, { timeout: 20_000 }).toBeGreaterThan(0);
      await rm(lake);
      await sent;
      expect(await other.rows("log_entries")).toHaveLength(10);
    } finally {
      await other.stop();
    }
  });

  test("is told where gRPC is when it calls the port of HTTP", async () => {
    const sent = send(freshMark(), 1, { OTEL_EXPORTER_OTLP_ENDPOINT: t.url, OTEL_EXPORTER_OTLP_TIMEOUT: "3" });
    await expect(sent).rejects.toThrow(/OTLP\/gRPC is taken on 127\.0\.0\.1:\d+/);
  });
});
