/** `telemetry tail`, `trace` and `doctor` against a whole service. */
import { createServer } from "node:http";
import { once } from "node:events";
import { PassThrough } from "node:stream";
import { type AddressInfo, connect, createServer as createTcpServer } from "node:net";
import { tmpdir } from "node:os";
import { runCli } from "telemetry-service-client/cli";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

import { type CliFinished, runCommand } from "../helpers/cli/run-cli.js";
import {
  type MonolithProcess,
  developmentVariables,
  startMonolithProcess,
  temporaryDirectory,
} from "../helpers/servers/monolith.js";
import { freePort } from "../helpers/free-port.js";
import { until } from "../helpers/until.js";

let data: Awaited<ReturnType<typeof temporaryDirectory>>;
let monolith: MonolithProcess;
let env: Record<string, string>;

beforeAll(async () => {
  data = await temporaryDirectory();
  monolith = await startMonolithProcess(data.directory);
  env = await developmentVariables(data.directory);
});
afterAll(async () => {
  await monolith?.stop();
  await data.remove();
});

const telemetry = (args: readonly string[], over: Record<string, string> = {}): Promise<CliFinished> =>
  runCommand(args, { env: { ...env, ...over }, homeDirectory: data.directory, workingDirectory: tmpdir() });

async function send(signal: "logs" | "traces", body: unknown): Promise<void> {
  const authorization = decodeURIComponent((env["OTEL_EXPORTER_OTLP_HEADERS"] ?? "").slice("Authorization=".length));
  const response = await fetch(`${monolith.ingestionUrl}/ingestion/otlp/v1/${signal}`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization },
    body: JSON.stringify(body),
  });
  expect(response.status).toBe(200);
}

const resource = (service: string) => ({
  attributes: [{ key: "service.name", value: { stringValue: service } }],
});
const log = (message: string, severityNumber: number, service = "tailed"): Promise<void> =>
  send("logs", {
    resourceLogs: [
      {
        resource: resource(service),
        scopeLogs: [
          {
            logRecords: [
              { timeUnixNano: String(BigInt(Date.now()) * 1_000_000n), severityNumber, body: { stringValue: message } },
            ],
          },
        ],
      },
    ],
  });

/** Follows until `last` was printed, then presses Ctrl-C. */
async function tail(
  args: readonly string[],
  last: string,
  meanwhile: (shown: () => string) => Promise<void>,
  over: Record<string, string> = {},
): Promise<{ readonly code: number; readonly text: string }> {
  const interrupted = new AbortController();
  const stdout = new PassThrough();
  const stderr = new PassThrough();
  let text = "";
  for (const stream of [stdout, stderr]) {
    stream.on("data", (chunk: Buffer) => {
      text += chunk.toString();
    });
  }
  const running = runCli({
    argv: ["tail", ...args],
    env: { ...env, ...over },
    homeDirectory: data.directory,
    workingDirectory: tmpdir(),
    version: "test",
    terminal: { stdin: new PassThrough(), stdout, stderr, interrupted: interrupted.signal, now: Date.now },
  });
  await meanwhile(() => text);
  await until(() => text.includes(last));
  interrupted.abort();
  return { code: await running, text };
}

describe("telemetry tail", () => {
  it("prints what is there, and what comes, once and filtered", async () => {
    await log("there already", 17);
    await log("not that bad", 9);
    const { code, text } = await tail(
      ["--service", "tailed", "--level", "warn", "--lines", "5"],
      "the end",
      async (shown) => {
        await until(() => shown().includes("there already"));
        await log("it came", 13);
        await log("of another", 17, "other");
        await log("quiet", 5);
        await until(() => shown().includes("it came"));
        await log("red \u001b[31m text", 21);
        await log("the end", 17);
      },
    );
    expect(code).toBe(130);
    const lines = text.trimEnd().split("\n");
    expect(lines.map((line) => line.replace(/^\S+Z /u, ""))).toEqual([
      "error tailed there already",
      "warn  tailed it came",
      String.raw`fatal tailed red \x1b[31m text`,
      "error tailed the end",
    ]);
  });

  it("prints once what comes between its first two looks", async () => {
    const target = new URL(env["SVC_ANALYTICS_URI"] ?? "");
    let came = false;
    const proxy = createTcpServer((near) => {
      const far = connect(Number(target.port), target.hostname);
      far.pipe(near);
      const pass = async (chunk: Buffer): Promise<void> => {
        if (!came && chunk.includes("ORDER BY time DESC")) {
          came = true;
          near.pause();
          await log("in between", 17, "between");
          near.resume();
        }
        far.write(chunk);
      };
      near.on("data", (chunk: Buffer) => void pass(chunk));
      far.on("error", () => near.destroy());
      near.on("error", () => far.destroy());
      near.on("close", () => far.destroy());
    }).listen(0, "127.0.0.1");
    await once(proxy, "listening");
    const over = { SVC_ANALYTICS_URI: `grpc://127.0.0.1:${(proxy.address() as AddressInfo).port}` };
    const { text } = await tail(
      ["--service", "between"],
      "the last",
      async (shown) => {
        await until(() => shown().includes("in between"));
        await log("the last", 17, "between");
      },
      over,
    );
    proxy.close();
    expect(text.match(/in between|the last/gu)).toEqual(["in between", "the last"]);
  });

  it("prints JSON, and takes a text and a condition", async () => {
    const { text } = await tail(
      ["--json", "--lines", "0", "--grep", "50%", "--where", "service_name <> 'other'"],
      "stop 50%",
      async (shown) => {
        // What was there before it began is not shown.
        await until(async () => {
          await log("begun 50%", 9, "json");
          return shown().includes("begun 50%");
        });
        await log("at 50%", 9, "other");
        await log("at 50%", 9, "json");
        await log("at 51%", 9, "json");
        await log("stop 50%", 9, "json");
      },
    );
    const rows = text
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    expect(rows.map((row) => row["msg"])).toEqual(expect.arrayContaining(["stop 50%"]));
    expect(rows.every((row) => row["service_name"] === "json" && String(row["msg"]).includes("50%"))).toBe(true);
    expect(Object.keys(rows[0] ?? {})).toEqual(["insert_time", "time", "level", "service_name", "msg"]);
  });

  it("fails with the server's words for a condition that is none", async () => {
    const failed = await telemetry(["tail", "--where", "nothing_like_it"]);
    expect(failed.code).toBe(1);
    expect(failed.stderr).toContain("nothing_like_it");
  });
});

describe("telemetry trace", () => {
  const traceId = "5b8aa5a2d2c872e8321cf37308d69df2";
  const span = (spanId: string, parentSpanId: string, name: string, beginMs: number, endMs: number, code = 0) => ({
    traceId,
    spanId,
    parentSpanId,
    name,
    startTimeUnixNano: String(1_700_000_000_000_000_000n + BigInt(beginMs) * 1_000_000n),
    endTimeUnixNano: String(1_700_000_000_000_000_000n + BigInt(endMs) * 1_000_000n),
    status: { code },
  });

  it("draws its spans, whatever case the id has", async () => {
    await send("traces", {
      resourceSpans: [
        {
          resource: resource("front"),
          scopeSpans: [{ spans: [span("00000000000000a1", "", "GET /", 0, 100)] }],
        },
        {
          resource: resource("back"),
          scopeSpans: [{ spans: [span("00000000000000b1", "00000000000000a1", "SELECT", 20, 80, 2)] }],
        },
      ],
    });
    const { code, stdout, stderr } = await telemetry(["trace", traceId.toUpperCase()]);
    expect([code, stderr]).toEqual([0, ""]);
    const lines = stdout.trimEnd().split("\n");
    expect(lines[0]).toMatch(/^GET \/ +front +100 ms █+$/u);
    expect(lines[1]).toMatch(/^ {2}SELECT ✗ +back +60\.0 ms +█+$/u);
    expect(lines[2]).toBe("2 spans of 2 services, 100 ms, 1 failed");
    const json = JSON.parse((await telemetry(["trace", traceId, "--json"])).stdout) as unknown[];
    expect(json).toHaveLength(2);
  });

  it("says that there is none, and what an id is", async () => {
    const none = await telemetry(["trace", "0".repeat(31) + "1"]);
    expect([none.code, none.stdout]).toEqual([1, ""]);
    expect(none.stderr).toContain("there is no span of trace");
    const wrong = await telemetry(["trace", "abc"]);
    expect([wrong.code, wrong.stdout]).toEqual([2, ""]);
    expect(wrong.stderr).toContain("32 hexadecimal digits");
  });
});

describe("telemetry doctor", () => {
  const findings = async (over: Record<string, string> = {}) => {
    const { code, stdout } = await telemetry(["doctor", "--json"], over);
    const list = JSON.parse(stdout) as { check: string; result: string; detail: string }[];
    return { code, of: (check: string) => list.find((one) => one.check === check) };
  };

  it("finds nothing wrong where nothing is, and names what was not tried", async () => {
    const { code, of } = await findings();
    expect(code).toBe(0);
    for (const check of ["ingestion", "sending", "analytics", "reading", "web", "clock"]) {
      expect([check, of(check)?.result]).toEqual([check, "ok"]);
    }
    expect(of("login")).toMatchObject({
      result: "skipped",
      detail: "you are not logged in; run: telemetry login",
    });
    const text = await telemetry(["doctor"]);
    expect(text.stdout).toMatch(/^ok +analytics +grpc:\/\/\S+ answers in \d+ ms: /mu);
  });

  it("says what is wrong and what to do, with exit code 1", async () => {
    const { code, of } = await findings({
      SVC_ANALYTICS_API_KEY: "svk_wrong",
      SVC_WEB_URL: `http://127.0.0.1:${await freePort()}`,
      OTEL_EXPORTER_OTLP_HEADERS: "Authorization=Bearer%20svk_wrong",
    });
    expect(code).toBe(1);
    expect(of("analytics")?.detail).toContain("check the key, or log in again");
    expect(of("web")?.detail).toContain("cannot be reached (ECONNREFUSED)");
    expect(of("web")?.detail).toContain("SVC_WEB_URL");
    expect(of("sending")?.detail).toContain("telemetry setup");
    const elsewhere = await findings({ SVC_ANALYTICS_URI: "grpc://127.0.0.1:1", OTEL_EXPORTER_OTLP_ENDPOINT: "" });
    expect(elsewhere.of("analytics")?.detail).toContain("cannot be reached");
    expect(elsewhere.of("sending")?.result).toBe("skipped");
  });

  it("sends over OTLP/gRPC where the environment says so", async () => {
    const grpcEndpoint = /OTLP\/gRPC +(http:\/\/\S+)/u.exec(monolith.output())?.[1] ?? "";
    const env = { OTEL_EXPORTER_OTLP_PROTOCOL: "grpc", OTEL_EXPORTER_OTLP_ENDPOINT: grpcEndpoint };
    expect((await findings(env)).of("sending")).toEqual({
      check: "sending",
      result: "ok",
      detail: `${grpcEndpoint} takes requests of this environment`,
    });
    const refused = (await findings({ ...env, OTEL_EXPORTER_OTLP_HEADERS: "Authorization=Bearer%20svk_wrong" })).of(
      "sending",
    );
    expect(refused?.result).toBe("failed");
    expect(refused?.detail).toMatch(/answered UNAUTHENTICATED: .*telemetry setup$/u);
    const nowhere = await findings({ ...env, OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:1" });
    expect(nowhere.of("sending")?.detail).toMatch(/answered UNAVAILABLE: .*SVC_OTLP_GRPC_LISTEN/u);
  });

  it("notices a clock that is off", async () => {
    const server = createServer((_, response) => {
      response.setHeader("date", new Date(Date.now() + 3600_000).toUTCString());
      response.end("{}");
    }).listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    try {
      const { code, of } = await findings({ SVC_TELEMETRY_URL: `http://127.0.0.1:${port}` });
      expect([code, of("clock")?.result]).toEqual([1, "failed"]);
      expect(of("clock")?.detail).toMatch(/^this machine's clock is (?:3599|3600|3601) s behind that of/u);
    } finally {
      server.close();
    }
  });
});
