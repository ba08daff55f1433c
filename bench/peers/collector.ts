/** An OpenTelemetry Collector that drops what it gets: the `nop` exporter behind the `otlp` receiver, nothing between. */
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { accessSync, constants, writeFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import { freePort } from "../../test/helpers/free-port.js";
import { listens } from "../load/sail.js";
import { bareEnvironment } from "../run/machine.js";
import { Usage } from "../run/options.js";

/** A receiver of OTLP that is measured beside the server. */
export interface Peer {
  readonly name: string;
  readonly pid: number;
  /** Without `/v1/logs`. */
  readonly url: string;
  readonly grpcUrl: string;
  stop(): Promise<void>;
}

const patienceMs = 30_000;
const keptCharacters = 4000;

/** The configuration, which is YAML as every JSON is. */
function collectorConfig(httpPort: number, grpcPort: number): string {
  const pipeline = { receivers: ["otlp"], exporters: ["nop"] };
  return JSON.stringify({
    receivers: {
      otlp: {
        protocols: {
          http: { endpoint: `127.0.0.1:${httpPort}` },
          grpc: { endpoint: `127.0.0.1:${grpcPort}` },
        },
      },
    },
    exporters: { nop: {} },
    service: {
      telemetry: { metrics: { level: "none" }, logs: { level: "warn" } },
      pipelines: { logs: pipeline, metrics: pipeline, traces: pipeline },
    },
  });
}

function isProgram(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return statSync(file).isFile();
  } catch {
    return false;
  }
}

/**
 * Starts one and waits until it listens.
 * @param directory for its configuration
 * @throws {Usage} when the file is no program. @throws Error with its last words when it ends
 */
export async function startCollector(program: string, directory: string): Promise<Peer> {
  if (!isProgram(program)) {
    throw new Usage(`--collector: ${program} is no program that can be run`, false);
  }
  const components = execFileSync(program, ["components"], { encoding: "utf8" });
  const version = /\bexporter\/nopexporter (v\S+)/u.exec(components)?.[1];
  if (version === undefined) {
    throw new Usage(`--collector: ${program} has no nop exporter, the one that costs least`, false);
  }
  const [httpPort, grpcPort] = [await freePort(), await freePort()];
  const file = join(directory, "collector.yaml");
  writeFileSync(file, collectorConfig(httpPort, grpcPort));
  const child = spawn(program, ["--config", file], { env: bareEnvironment(), stdio: ["ignore", "pipe", "pipe"] });
  const ended = once(child, "exit");
  let output = "";
  const read = (chunk: Buffer): void => {
    output = (output + chunk.toString()).slice(-keptCharacters);
  };
  child.stdout.on("data", read);
  child.stderr.on("data", read);
  const stop = async (): Promise<void> => {
    if (child.exitCode === null && child.signalCode === null) {
      child.kill("SIGTERM");
      await ended;
    }
  };
  const startedMs = performance.now();
  while (!((await listens(httpPort)) && (await listens(grpcPort)))) {
    if (child.exitCode !== null || child.signalCode !== null) {
      throw new Error(`the Collector ended with ${child.exitCode ?? child.signalCode}:\n${output}`);
    }
    if (performance.now() - startedMs > patienceMs) {
      await stop();
      throw new Error(`the Collector does not listen:\n${output}`);
    }
    await sleep(50);
  }
  const address = (port: number): string => `http://127.0.0.1:${port}`;
  const name = `Collector ${version}`;
  return { name, pid: child.pid ?? -1, url: address(httpPort), grpcUrl: address(grpcPort), stop };
}
