/** OpenTelemetry's SDKs in Python, Go, Java and Rust, and its Collector, over OTLP/gRPC and OTLP/HTTP. */
import { execFile } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { copyFile, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { parse } from "yaml";

import { freePort } from "../../helpers/free-port.js";
import { pythonPrograms } from "../../helpers/python.js";
import { lastingDirectory } from "../../helpers/run-directory.js";
import { startTestIngestion, type TestIngestion } from "../../helpers/servers/ingest-server.js";
import { until } from "../../helpers/until.js";

const run = promisify(execFile);
const fetched = path.join(lastingDirectory(), "telemetry-service-conformance-senders");
// Compiled, this file is dist/test/routes/otlp/senders.conformance.test.js.
const source = (file: string): string =>
  fileURLToPath(new URL(`../../../../test/helpers/otlp/senders/${file}`, import.meta.url));

/** A program and its arguments. */
type Command = readonly [string, ...string[]];

async function python(): Promise<Command | null> {
  const found = await pythonPrograms(["opentelemetry-exporter-otlp"]);
  return "missing" in found ? null : [path.join(found.bin, "python"), source("sender.py")];
}

async function go(): Promise<Command> {
  const directory = path.join(fetched, "go");
  await mkdir(directory, { recursive: true });
  await copyFile(source("sender.go"), path.join(directory, "main.go"));
  if (!existsSync(path.join(directory, "go.mod"))) {
    await run("go", ["mod", "init", "sender"], { cwd: directory });
  }
  await run("go", ["mod", "tidy"], { cwd: directory });
  await run("go", ["build", "-o", "sender", "."], { cwd: directory });
  return [path.join(directory, "sender")];
}

async function java(): Promise<Command> {
  const directory = path.join(fetched, "java");
  const copy = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies";
  if (!existsSync(directory)) {
    await run("mvn", ["--quiet", "--batch-mode", "-f", source("pom.xml"), copy, `-DoutputDirectory=${directory}`]);
  }
  return ["java", "-cp", path.join(directory, "*"), source("Sender.java")];
}

async function rust(): Promise<Command> {
  const directory = path.join(fetched, "rust");
  await mkdir(directory, { recursive: true });
  for (const file of ["Cargo.toml", "sender.rs"]) {
    await copyFile(source(file), path.join(directory, file));
  }
  await run("cargo", ["build", "--quiet"], { cwd: directory });
  return [path.join(directory, "target", "debug", "sender")];
}

/** The Collector's own distribution for builders: a receiver and two exporters of OTLP. */
async function collector(): Promise<Command> {
  const directory = path.join(fetched, "collector");
  const program = path.join(directory, "otelcol");
  if (!existsSync(program)) {
    await mkdir(directory, { recursive: true });
    const version = "v0.155.0";
    const module = "go.opentelemetry.io/collector";
    const lines = [
      `dist: { name: otelcol, output_path: ${directory} }`,
      `receivers: [{ gomod: "${module}/receiver/otlpreceiver ${version}" }]`,
      `exporters: [{ gomod: "${module}/exporter/otlpexporter ${version}" }, { gomod: "${module}/exporter/otlphttpexporter ${version}" }]`,
    ];
    await writeFile(path.join(directory, "builder.yaml"), `${lines.join("\n")}\n`);
    const builder = `${module}/cmd/builder@${version}`;
    await run("go", ["run", builder, "--config", path.join(directory, "builder.yaml")], { cwd: directory });
  }
  return [program];
}

/** A sender, or null when what it takes is not at hand, which it says. */
async function atHand(name: string, find: () => Promise<Command | null>): Promise<Command | null> {
  try {
    return await find();
  } catch (error) {
    process.stdout.write(`SKIPPED: ${name} is not at hand: ${String(error).split("\n")[0] ?? ""}\n`);
    return null;
  }
}

let t: TestIngestion;

beforeAll(async () => {
  t = await startTestIngestion({ environment: { SVC_OTLP_GRPC_LISTEN: "127.0.0.1:0" } });
});

afterAll(() => t.stop());

const protocols = ["grpc", "http/protobuf"] as const;
/** Of what only some send. */
const more: Readonly<Record<string, readonly string[]>> = { Rust: ["http/json"] };

/** What a sender has sent, when all of it is there. */
async function rowsOf(service: string): Promise<readonly unknown[]> {
  const rows = async (): Promise<unknown[]> => {
    const found: unknown[] = [];
    for (const [table, column] of [
      ["log_entries", "msg"],
      ["measures", "name"],
      ["spans", "name"],
    ] as const) {
      const own = `where service_name = '${service}' and target = 'sender'`;
      found.push(...(await t.rows(table, `select ${column} as what from t ${own}`)));
    }
    return found;
  };
  await until(async () => (await rows()).length >= 3);
  return rows();
}

const sent = [{ what: "a record" }, { what: "things" }, { what: "a span" }];

async function send(command: Command, env: Readonly<Record<string, string>>): Promise<void> {
  const [program, ...args] = command;
  await run(program, args, { env: { PATH: process.env["PATH"], HOME: process.env["HOME"], ...env }, timeout: 60_000 });
}

const senders = {
  Python: await atHand("Python", python),
  Go: await atHand("Go", go),
  Java: await atHand("Java", java),
  Rust: await atHand("Rust", rust),
};

describe.each(Object.entries(senders))("the SDK in %s", (language, command) => {
  it
    .skipIf(command === null)
    .each(
      [...protocols, ...(more[language] ?? [])].flatMap((protocol) =>
        ["none", "gzip"].map((compression) => [protocol, compression] as const),
      ),
    )("over %s, compression %s", async (protocol, compression) => {
    const service = `${language}-${protocol}-${compression}`;
    await send(command ?? ["false"], {
      OTEL_SERVICE_NAME: service,
      OTEL_EXPORTER_OTLP_ENDPOINT: (protocol === "grpc" ? t.grpcUrl : t.url) ?? "",
      OTEL_EXPORTER_OTLP_PROTOCOL: protocol,
      // Python's exporter over gRPC knows no "none".
      ...(compression === "none" ? {} : { OTEL_EXPORTER_OTLP_COMPRESSION: compression }),
      OTEL_EXPORTER_OTLP_HEADERS: `authorization=Bearer%20${t.key}`,
    });
    expect(await rowsOf(service)).toEqual(sent);
  });
});

const otelcol = await atHand("the Collector", collector);

/** The exporters that docs/sending.md configures, as YAML. */
const documented = [...readFileSync("docs/sending.md", "utf8").matchAll(/^```yaml\n([\s\S]*?)^```$/gmu)].map(
  ([, text = ""]) => [Object.keys((parse(text) as { readonly exporters: object }).exporters)[0] ?? "", text] as const,
);

describe.skipIf(otelcol === null || senders.Python === null)("the Collector", () => {
  it("has an exporter of each protocol in docs/sending.md", () => {
    expect(documented.map(([exporter]) => exporter)).toEqual(["otlp_http", "otlp_grpc"]);
  });

  it.each(documented)("passes on what it gets, by its exporter %s", async (exporter, text) => {
    const directory = await mkdtemp(path.join(tmpdir(), "collector-"));
    const port = await freePort();
    const filled = text
      .replace("http://127.0.0.1:4318", t.url)
      .replace("127.0.0.1:4317", new URL(t.grpcUrl ?? "").host)
      .replace("svk_...", t.key);
    const config = {
      receivers: { otlp: { protocols: { grpc: { endpoint: `127.0.0.1:${port}` } } } },
      ...(parse(filled) as object),
      service: {
        telemetry: { metrics: { level: "none" } },
        pipelines: Object.fromEntries(
          ["logs", "metrics", "traces"].map((signal) => [signal, { receivers: ["otlp"], exporters: [exporter] }]),
        ),
      },
    };
    const file = path.join(directory, "config.yaml");
    await writeFile(file, JSON.stringify(config));
    const child = execFile(otelcol?.[0] ?? "", ["--config", file]);
    let said = "";
    child.stderr?.on("data", (text: string) => {
      said += text;
    });
    try {
      await until(() => said.includes("Everything is ready"));
      expect(said).not.toContain("deprecated");
      const service = `collector-${exporter}`;
      await send(senders.Python ?? ["false"], {
        OTEL_SERVICE_NAME: service,
        OTEL_EXPORTER_OTLP_ENDPOINT: `http://127.0.0.1:${port}`,
        OTEL_EXPORTER_OTLP_PROTOCOL: "grpc",
      });
      expect(await rowsOf(service)).toEqual(sent);
    } finally {
      const ended = once(child, "exit");
      child.kill();
      await ended;
      await rm(directory, { recursive: true });
    }
  });
});
