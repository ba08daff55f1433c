/** `configureTelemetry` with the oldest packages of OpenTelemetry that the client's package says it takes. */
import { execFile } from "node:child_process";
import { once } from "node:events";
import { cp, mkdir, readFile, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import type { AddressInfo } from "node:net";
import path from "node:path";
import { promisify } from "node:util";
import { expect, it, onTestFinished } from "vitest";

import { lastingDirectory } from "../helpers/run-directory.js";

const run = promisify(execFile);

/** Where they are installed, with the package beside them as it was built. */
async function installOldest(): Promise<string> {
  const directory = path.join(lastingDirectory(), "telemetry-service-conformance-peers");
  const source = path.dirname(createRequire(import.meta.url).resolve("telemetry-service-client/package.json"));
  const manifest = await readFile(path.join(source, "package.json"), "utf8");
  const { peerDependencies } = JSON.parse(manifest) as { peerDependencies: Record<string, string> };
  const dependencies = Object.fromEntries(
    Object.entries(peerDependencies).map(([name, range]) => [name, /\d+\.\d+\.\d+/u.exec(range)?.[0] ?? range]),
  );
  await mkdir(directory, { recursive: true });
  await writeFile(path.join(directory, "package.json"), JSON.stringify({ type: "module", dependencies }));
  await run("npm", ["install", "--silent", "--no-audit", "--no-fund"], { cwd: directory });
  const copy = path.join(directory, "node_modules", "telemetry-service-client");
  await cp(path.join(source, "dist", "src"), path.join(copy, "dist", "src"), { recursive: true });
  await writeFile(path.join(copy, "package.json"), manifest);
  return directory;
}

it("sends all three signals", async () => {
  const paths = new Set<string | undefined>();
  const server = createServer((request, response) => {
    paths.add(request.url);
    request.resume();
    request.once("end", () => response.end());
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const code = `
    import { configureTelemetry } from "telemetry-service-client/telemetry";
    import { metrics, trace } from "@opentelemetry/api";
    import { logs } from "@opentelemetry/api-logs";
    const telemetry = await configureTelemetry({ url: "${url}" });
    logs.getLogger("test").emit({ body: "text" });
    metrics.getMeter("test").createCounter("things").add(1);
    trace.getTracer("test").startSpan("span").end();
    await telemetry.shutdown();`;
  await run(process.execPath, ["--input-type=module", "-e", code], { cwd: await installOldest(), env: {} });
  const all = ["logs", "metrics", "traces"].map((signal) => `/ingestion/otlp/v1/${signal}`);
  expect(paths).toEqual(new Set(all));
});
