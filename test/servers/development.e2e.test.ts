import { readFile, stat } from "node:fs/promises";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { runCommand } from "../helpers/cli/run-cli.js";
import {
  type Finished,
  type MonolithProcess,
  commandLine,
  developmentVariables,
  freeDevelopmentPorts,
  runProgram,
  runShell,
  startMonolithProcess,
  temporaryDirectory,
} from "../helpers/servers/monolith.js";
import { until } from "../helpers/until.js";

let data: { directory: string; remove(): Promise<void> };
let monolith: MonolithProcess;
beforeAll(async () => {
  data = await temporaryDirectory();
  monolith = await startMonolithProcess(data.directory, [
    "--telemetry-interval-seconds=0.5",
    "--maintenance-interval-seconds=0.5",
  ]);
});
afterAll(async () => {
  await monolith?.stop();
  await data.remove();
});

async function query(sql: string): Promise<Finished> {
  const env = await developmentVariables(data.directory);
  return await runProgram(commandLine, ["query", sql], { env });
}

async function jsonRows(sql: string): Promise<Record<string, unknown>[]> {
  const { code, stdout, stderr } = await runCommand(["query", "--format", "json", sql], {
    env: await developmentVariables(data.directory),
    homeDirectory: data.directory,
    workingDirectory: data.directory,
  });
  expect(stderr).toBe("");
  expect(code).toBe(0);
  return stdout
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => JSON.parse(line) as Record<string, unknown>);
}

/** Polls until `sql` yields a row: self-telemetry arrives when its batch is due. */
async function eventually(sql: string): Promise<Record<string, unknown>> {
  let row: Record<string, unknown> | undefined;
  await until(async () => {
    [row] = await jsonRows(sql);
    return row !== undefined;
  });
  return row as unknown as Record<string, unknown>;
}

async function requestCounts(): Promise<Record<string, number>> {
  const text = await (await fetch(`${monolith.ingestionUrl}/metrics`)).text();
  const counts: Record<string, number> = { logs: 0, metrics: 0, traces: 0 };
  for (const [, labels, value] of text.matchAll(/^ingestion_requests_total\{(.*)\} (\d+)$/gm)) {
    const signal = /signal="(\w+)"/.exec(labels ?? "")?.[1] ?? "";
    if (signal in counts) {
      counts[signal] = (counts[signal] ?? 0) + Number(value);
    }
  }
  return counts;
}

describe("a monolith in development mode", () => {
  it("hands its keys out in a file of mode 0600 and prints none", async () => {
    const file = path.join(data.directory, "dev.env");
    expect((await stat(file)).mode & 0o777).toBe(0o600);
    const variables = await developmentVariables(data.directory);
    expect(variables["OTEL_EXPORTER_OTLP_ENDPOINT"]).toBe(`${monolith.ingestionUrl}/ingestion/otlp`);
    expect(monolith.output()).toContain(variables["SVC_ANALYTICS_URI"]);
    expect(monolith.output()).toMatch(/^ {2}OTLP\/gRPC {4}http:\/\/127\.0\.0\.1:[1-9]\d*$/mu);
    expect(await readFile(file, "utf8")).toMatch(/svk_\w{49}/);
    expect(monolith.output()).not.toMatch(/svk_\w/);
  });

  it("stores what an SDK sends that was configured by sourcing the file, and a query prints it", async () => {
    const sent = await runShell(
      '. ./dev.env && exec "$node" "$file" "bonjour, monde"',
      "test/helpers/otlp/otlp-sender.js",
      data.directory,
    );
    expect(sent).toEqual({ code: 0, stdout: "", stderr: "" });
    const { stdout, stderr, code } = await query("SELECT level, msg FROM log_entries WHERE msg = 'bonjour, monde'");
    expect({ stderr, code }).toEqual({ stderr: "", code: 0 });
    expect(stdout).toBe("level │ msg\n──────┼───────────────\n    4 │ bonjour, monde\n");
    const [span] = await jsonRows("SELECT name FROM spans WHERE name = 'bonjour, monde'");
    expect(span).toEqual({ name: "bonjour, monde" });
  });

  it("stores what the JavaScript of docs/sending.md sends, as the service that a variable names", async () => {
    const [, program = ""] = /^```js\n([\s\S]*?)^```$/mu.exec(await readFile("docs/sending.md", "utf8")) ?? [];
    const node = `OTEL_SERVICE_NAME=documented "$node" --input-type=module --eval '${program}'`;
    const sent = await runShell(`. ./dev.env && cd '${process.cwd()}' && ${node}`, "", data.directory);
    expect(sent).toEqual({ code: 0, stdout: "", stderr: "" });
    expect(await jsonRows("SELECT msg FROM log_entries WHERE service_name = 'documented'")).toEqual([{ msg: "hello" }]);
  });

  it("says where exporters find it by their default port", async () => {
    const [, url = ""] = /OTLP\/HTTP +\S+\/ingestion\/otlp {2}(http:\/\/\S+)\n/.exec(monolith.output()) ?? [];
    expect((await fetch(`${url}/health`)).status).toBe(200);
  });

  it("shows its own logs, metrics and spans", async () => {
    const own = (table: string, column: string, value: string): Promise<Record<string, unknown>> =>
      eventually(`SELECT ${column} AS found FROM ${table} WHERE ${column} = '${value}' LIMIT 1`);
    for (const [table, column, value] of [
      ["log_entries", "msg", "embedded database is ready"],
      ["measures", "name", "process_resident_memory_bytes"],
      ["spans", "name", "start"],
      ["spans", "name", "store batch"],
      ["spans", "name", "query"],
    ] as const) {
      expect(await own(table, column, value)).toEqual({ found: value });
    }
  });

  it("sends nothing about what it sends: idle, only metrics at their interval", async () => {
    const metricsOf = async (): Promise<number> => (await requestCounts())["metrics"] ?? 0;
    // What the tests above caused goes out with the first of these rounds.
    const quiet = async (): Promise<boolean> => {
      const before = await requestCounts();
      const startMs = performance.now();
      const first = before["metrics"] ?? 0;
      await until(async () => (await metricsOf()) >= first + 6);
      // Reports that waited for a commit are counted together, once; where one made the next, these would always come at once.
      if (performance.now() - startMs <= 2000) {
        return false;
      }
      const after = await requestCounts();
      return after["logs"] === before["logs"] && after["traces"] === before["traces"];
    };
    await expect.poll(quiet).toBe(true);
  });

  it("keeps a second instance off its data directory with one sentence", async () => {
    const second = await runProgram("src/bin/telemetry-monolith.js", [
      "--development",
      `--data-dir=${data.directory}`,
      ...freeDevelopmentPorts,
    ]);
    expect(second.code).toBe(1);
    expect(second.stdout).toBe("");
    expect(second.stderr).toMatch(/^telemetry-monolith: .*in use by another instance.*\n$/);
  });

  it("names the variable to change when its port is taken", async () => {
    const other = await temporaryDirectory();
    const second = await runProgram("src/bin/telemetry-monolith.js", [
      "--development",
      `--data-dir=${other.directory}`,
      "--log-level=error",
      ...freeDevelopmentPorts.slice(1),
      `--ingestion-listen=${monolith.ingestionUrl.replace("http://", "")}`,
    ]);
    await other.remove();
    expect(second.code).toBe(1);
    expect(second.stdout).toBe("");
    expect(second.stderr).toMatch(/^telemetry-monolith: .*SVC_INGESTION_LISTEN.*\n$/);
  });

  it("merges what it reports about itself", async () => {
    const merges = async (): Promise<number> => {
      const text = await (await fetch(`${monolith.ingestionUrl}/metrics`)).text();
      return Number(/^maintenance_merges_total (\d+)$/mu.exec(text)?.[1]);
    };
    await expect.poll(merges).toBeGreaterThan(0);
    const levels = await jsonRows("SELECT DISTINCT level FROM list_partitions() WHERE level > 0");
    expect(levels).not.toEqual([]);
  });

  it("exits with 0 on SIGTERM, and the next start uses the same keys and finds the rows", async () => {
    const before = await developmentVariables(data.directory);
    expect(await monolith.stop("SIGTERM")).toBe(0);
    monolith = await startMonolithProcess(data.directory);
    const after = await developmentVariables(data.directory);
    for (const name of ["OTEL_EXPORTER_OTLP_HEADERS", "SVC_ANALYTICS_API_KEY"]) {
      expect(after[name]).toBe(before[name]);
    }
    expect(after["OTEL_EXPORTER_OTLP_ENDPOINT"]).toBe(`${monolith.ingestionUrl}/ingestion/otlp`);
    expect(await jsonRows("SELECT msg FROM log_entries WHERE msg = 'bonjour, monde'")).toEqual([
      { msg: "bonjour, monde" },
    ]);
  });
});
