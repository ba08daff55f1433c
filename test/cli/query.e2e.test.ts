import { spawn } from "node:child_process";
import { once } from "node:events";
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { tableFromIPC } from "apache-arrow";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { type CliFinished, runCommand } from "../helpers/cli/run-cli.js";
import {
  type MonolithProcess,
  commandLine,
  developmentVariables,
  runProgram,
  startMonolithProcess,
  temporaryDirectory,
} from "../helpers/servers/monolith.js";

const program = commandLine;

let data: { directory: string; remove(): Promise<void> };
let monolith: MonolithProcess;
let env: Record<string, string>;
beforeAll(async () => {
  data = await temporaryDirectory();
  monolith = await startMonolithProcess(data.directory);
  env = await developmentVariables(data.directory);
  for (const [text, timeUnixNano] of [
    ["first", "1700000000123456789"],
    ['second, "quoted"', "1700003600000000000"],
  ] as const) {
    await sendLog(text, timeUnixNano);
  }
});
afterAll(async () => {
  await monolith?.stop();
  await data.remove();
});

async function sendLog(text: string, timeUnixNano: string): Promise<void> {
  const authorization = decodeURIComponent(env["OTEL_EXPORTER_OTLP_HEADERS"] ?? "").slice("Authorization=".length);
  const response = await fetch(`${monolith.ingestionUrl}/ingestion/otlp/v1/logs`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization },
    body: JSON.stringify({
      resourceLogs: [
        {
          resource: { attributes: [{ key: "service.name", value: { stringValue: "cli-test" } }] },
          scopeLogs: [{ logRecords: [{ timeUnixNano, severityNumber: 9, body: { stringValue: text } }] }],
        },
      ],
    }),
  });
  expect(response.status).toBe(200);
}

/** In this process; what is the operating system's to do is tested with processes. */
function query(
  args: readonly string[],
  o: { readonly env?: Record<string, string>; readonly cwd?: string; readonly home?: string } = {},
): Promise<CliFinished> {
  return runCommand(["query", ...args], {
    env: o.env ?? env,
    homeDirectory: o.home ?? data.directory,
    workingDirectory: o.cwd ?? tmpdir(),
  });
}

const rows = "SELECT time, msg, NULL AS nothing FROM log_entries WHERE service_name = 'cli-test' ORDER BY time";

describe("telemetry query", () => {
  it("prints an aligned table with nanosecond times and nulls", async () => {
    expect(await runProgram(program, ["query", rows], { env })).toEqual({
      code: 0,
      stderr: "",
      stdout: [
        "time                           │ msg              │ nothing",
        "───────────────────────────────┼──────────────────┼────────",
        "2023-11-14T22:13:20.123456789Z │ first            │    NULL",
        '2023-11-14T23:13:20.000000000Z │ second, "quoted" │    NULL',
        "",
      ].join("\n"),
    });
  });

  it("prints JSON Lines, CSV and an Arrow stream of the same rows", async () => {
    const json = await query(["--format", "json", rows]);
    expect(
      json.stdout
        .split("\n")
        .slice(0, 2)
        .map((line) => JSON.parse(line) as unknown),
    ).toEqual([
      { time: "2023-11-14T22:13:20.123456789Z", msg: "first", nothing: null },
      { time: "2023-11-14T23:13:20.000000000Z", msg: 'second, "quoted"', nothing: null },
    ]);
    const csv = await query(["--format=csv", rows]);
    expect(csv.stdout).toBe(
      'time,msg,nothing\n2023-11-14T22:13:20.123456789Z,first,\n2023-11-14T23:13:20.000000000Z,"second, ""quoted""",\n',
    );
    const file = path.join(data.directory, "result.arrow");
    const arrow = spawn(
      "sh",
      ["-c", 'exec "$0" "$@" > "$file"', process.execPath, program, "query", "--format", "arrow", rows],
      {
        env: { ...process.env, ...env, file },
      },
    );
    expect((await once(arrow, "close"))[0]).toBe(0);
    const table = tableFromIPC(await readFile(file));
    expect(table.getChild("msg")?.toArray()).toEqual(["first", 'second, "quoted"']);
  });

  it("reads the statement from standard input", async () => {
    const { stdout, code } = await runProgram(program, ["query", "--format", "csv", "-"], {
      env,
      input: "SELECT 1 AS one\n",
    });
    expect({ stdout, code }).toEqual({ stdout: "one\n1\n", code: 0 });
  });

  it("narrows the result to a time range, its end not included", async () => {
    const narrowed = await query([
      "--format=csv",
      "--begin=2023-11-14T22:00:00Z",
      "--end=2023-11-14T23:13:20Z",
      "SELECT msg FROM log_entries WHERE service_name = 'cli-test'",
    ]);
    expect(narrowed.stdout).toBe("msg\nfirst\n");
  });

  it("stops after --limit rows", async () => {
    const limited = await query(["--format=csv", "--limit=3", "SELECT range AS n FROM range(1000000)"]);
    expect(limited).toEqual({ code: 0, stderr: "", stdout: "n\n0\n1\n2\n" });
  });

  it("fails with DuckDB's words, which point at the place, and exit code 1", async () => {
    const failed = await query(["SELECT nothing_like_it FROM log_entries"]);
    expect(failed.code).toBe(1);
    expect(failed.stdout).toBe("");
    expect(failed.stderr).toMatch(/^telemetry: .*nothing_like_it/);
    const lines = failed.stderr.trimEnd().split("\n");
    expect(lines.at(-1)?.indexOf("^")).toBe(lines.at(-2)?.indexOf("nothing_like_it"));
  });

  it.each([
    [[], "a statement is missing"],
    [["SELECT", "1"], "put the SQL into quotes"],
    [["--format", "xml", "SELECT 1"], "--format takes one of table, expanded, json, csv, arrow"],
    [["--begin", "tomorrow", "SELECT 1"], "--begin takes"],
    [["--begin", "now", "--end", "-1h", "SELECT 1"], "--begin takes a time before --end"],
    [["--limit", "-1", "SELECT 1"], "--limit takes"],
    [["--analytics-uri", "http://x", "SELECT 1"], "--analytics-uri takes"],
    [["--analytics-uri", "grpc://x:1/path", "SELECT 1"], "--analytics-uri takes grpc://host:port or grpc+tls://"],
    [["--analytics-uri", "grpc://x:70000", "SELECT 1"], "--analytics-uri takes grpc://host:port or grpc+tls://"],
  ])("explains the wrong usage of %j with exit code 2", async (args, message) => {
    const { code, stderr, stdout } = await query(args);
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(stderr).toContain(message);
    expect(stderr.split("\n")).toHaveLength(2);
  });

  it("says what to do without a key, naming dev.env where there is one but not reading it", async () => {
    const without = { SVC_ANALYTICS_URI: env["SVC_ANALYTICS_URI"] ?? "" };
    const bare = await query(["SELECT 1"], { env: without });
    expect(bare.code).toBe(1);
    expect(bare.stderr).toContain("SVC_ANALYTICS_API_KEY");
    const directory = path.dirname(data.directory);
    const beside = await mkdtemp(path.join(directory, "cli-hint-"));
    await mkdir(path.join(beside, "data"));
    await cp(path.join(data.directory, "dev.env"), path.join(beside, "data", "dev.env"));
    const hinted = await query(["SELECT 1"], { env: without, cwd: beside });
    const login = await runProgram(commandLine, ["login"], { cwd: beside });
    await rm(beside, { recursive: true });
    expect(hinted.code).toBe(1);
    expect(hinted.stderr).toContain('run ". data/dev.env" first');
    expect(hinted.stderr).not.toContain("svk_");
    expect(login.stderr).toBe('telemetry: run ". data/dev.env" first to use the development server started here\n');
  });

  it("ends lines of CSV with LF, and with CRLF when it is asked to", async () => {
    const plain = await query(["--format=csv", "SELECT 1 AS one"], { env });
    expect(plain.stdout).toBe("one\n1\n");
    const windows = await query(["--format=csv", "--crlf", "SELECT 1 AS one"], { env });
    expect(windows.stdout).toBe("one\r\n1\r\n");
    const table = await query(["--crlf", "SELECT 1 AS one"], { env });
    expect(table).toMatchObject({ code: 2, stdout: "" });
  });

  it("takes the key from the file that a profile names, and refuses one that does not exist", async () => {
    const home = await mkdtemp(path.join(tmpdir(), "cli-home-"));
    await mkdir(path.join(home, ".telemetry"));
    await writeFile(path.join(home, ".telemetry", "dev.key"), env["SVC_ANALYTICS_API_KEY"] ?? "", {
      mode: 0o600,
    });
    await writeFile(
      path.join(home, ".telemetry", "config.json"),
      JSON.stringify({ profiles: { dev: { api_key_file: "dev.key" } } }),
    );
    const profiled = await query(["--format=csv", "--profile=dev", "SELECT 1 AS one"], {
      env: { SVC_ANALYTICS_URI: env["SVC_ANALYTICS_URI"] ?? "" },
      home,
    });
    // A profile that nobody defined is refused, also where the key comes from the environment.
    const unknown = await query(["--profile=foo", "SELECT 1"], { home });
    await rm(path.join(home, ".telemetry", "config.json"));
    const missing = await query(["--profile=dev", "SELECT 1"], { home });
    await rm(home, { recursive: true });
    expect(unknown).toMatchObject({ code: 1, stdout: "" });
    expect(unknown.stderr).toContain("has no profile named foo");
    expect(missing).toMatchObject({ code: 1, stdout: "" });
    expect(missing.stderr).toContain("profile dev was asked for");
    expect(profiled).toEqual({ code: 0, stderr: "", stdout: "one\n1\n" });
  });

  it("says that a server cannot be reached", async () => {
    const { code, stderr } = await query(["SELECT 1"], {
      env: { ...env, SVC_ANALYTICS_URI: "grpc://127.0.0.1:1" },
    });
    expect(code).toBe(1);
    expect(stderr).toBe(
      "telemetry: the analytics server at 127.0.0.1:1 cannot be reached; check the address, and try again in a moment\n",
    );
    const { SVC_ANALYTICS_API_KEY = "" } = env;
    const byFlag = await query(["--analytics-uri", "grpc://127.0.0.1:1", "SELECT 1"], {
      env: { SVC_ANALYTICS_API_KEY },
    });
    expect(byFlag.stderr).toBe(stderr);
  });

  it("ends quietly when its reader goes away", async () => {
    const script =
      '"$0" "$1" query --format csv "SELECT range AS n FROM range(50000000)" | head -n 2; echo "${PIPESTATUS[0]}"';
    const child = spawn("bash", ["-c", script, process.execPath, program], {
      env: { ...process.env, ...env },
    });
    let output = "";
    for (const stream of [child.stdout, child.stderr]) {
      stream.on("data", (chunk: Buffer) => {
        output += chunk.toString();
      });
    }
    await once(child, "close");
    expect(output).toBe("n\n0\n0\n");
  });

  it("is cancelled by Ctrl-C with exit code 130", async () => {
    const child = spawn(
      process.execPath,
      [program, "query", "--format=csv", "SELECT range AS n FROM range(10000000000)"],
      {
        env: { ...process.env, ...env },
        stdio: ["ignore", "pipe", "pipe"],
      },
    );
    let stderr = "";
    child.stderr.on("data", (chunk: Buffer) => {
      stderr += chunk.toString();
    });
    child.stdout.once("data", () => child.kill("SIGINT"));
    child.stdout.resume();
    const [code] = (await once(child, "close")) as [number];
    expect({ code, stderr }).toEqual({ code: 130, stderr: "" });
  });
});
