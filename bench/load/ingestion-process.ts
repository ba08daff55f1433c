/**
 * The ingestion server as benches run it: a process of its own over a fresh database, and the load generator beside it.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath, pathToFileURL } from "node:url";

import { mintIngestionKey } from "../../src/auth/keys/keys.js";
import { migrate } from "../../src/db/migrations.js";
import { connect } from "../../src/db/sql.js";
import { grpcRoutes } from "../../src/routes/otlp/grpc/listener.js";
import type { Logger } from "../../src/runtime/log/log.js";
import type { LoadReport } from "./load-generator.js";
import type { LoadEncoding, LoadFormat, LoadSignal } from "./otlp-payloads.js";
import { givenSettings } from "../run/machine.js";
import { type Program, startProgram } from "../run/program.js";

const compiled = (path: string): string => fileURLToPath(new URL(path, import.meta.url));

/** A running ingestion server. */
export interface IngestionProcess extends Program {
  readonly url: string;
  readonly grpcUrl: string;
}

/** How requests travel. */
export type LoadProtocol = "http" | "grpc";

/** The address that takes a signal. */
export function loadUrl(
  server: Pick<IngestionProcess, "url" | "grpcUrl">,
  signal: LoadSignal,
  protocol: LoadProtocol,
): string {
  if (protocol === "http") {
    return `${server.url}/ingestion/otlp/v1/${signal}`;
  }
  const index = ["logs", "metrics", "traces"].indexOf(signal);
  return `${server.grpcUrl}${grpcRoutes[index]?.[0] ?? ""}`;
}

/** Migrates the database and mints two keys, of different audiences. */
export async function prepareDatabase(
  connectionString: string,
  logger: Logger,
): Promise<{
  readonly authorization: string;
  readonly bystanderAuthorization: string;
  readonly postmasterPid: number;
}> {
  const sql = connect({ connectionString, maxConnections: 1, applicationName: "bench", logger });
  await migrate(sql, logger);
  const mint = async (audience: string): Promise<string> =>
    `Bearer ${(await mintIngestionKey(sql, { name: "bench", audience, createdBy: "bench" })).key}`;
  const authorization = await mint("public");
  const bystanderAuthorization = await mint("bystander");
  const [file] = await sql`select pg_read_file('postmaster.pid') as text`;
  const postmasterPid = Number(file?.["text"].split("\n")[0]);
  await sql.end();
  return { authorization, bystanderAuthorization, postmasterPid };
}

/** Starts one with {@link givenSettings}, and waits until it is ready. */
export async function startServer(o: {
  readonly connectionString: string;
  readonly dataDirectory: string;
  /** `SVC_HTTP_DRIVER` */
  readonly driver: string;
}): Promise<IngestionProcess> {
  const program = await startProgram("telemetry-ingestion-srv", {
    environment: {
      ...givenSettings(),
      SVC_SQL_CONNECTION_STRING: o.connectionString,
      SVC_DATA_DIR: o.dataDirectory,
      SVC_OBJECT_STORE_URI: pathToFileURL(join(o.dataDirectory, "lake")).href,
      SVC_INGESTION_LISTEN: "127.0.0.1:0",
      SVC_OTLP_HTTP_LISTEN: "",
      SVC_OTLP_GRPC_LISTEN: "127.0.0.1:0",
      SVC_LOG_LEVEL: "info",
      SVC_HTTP_DRIVER: o.driver,
    },
    until: /OTLP\/HTTP on (http:\/\/127\.0\.0\.1:[1-9]\d*)[^]*OTLP\/gRPC on (http:\/\/127\.0\.0\.1:[1-9]\d*)/u,
    nodeArguments: ["--enable-source-maps"],
  });
  const [, url = "", grpcUrl = ""] = program.said;
  for (let attempt = 0; ; attempt++) {
    const ready = await fetch(`${url}/ready`).then(
      (response) => response.ok,
      () => false,
    );
    if (ready) {
      return { ...program, url, grpcUrl };
    }
    if (attempt === 100) {
      throw new Error(`the server is not ready:\n${program.output()}`);
    }
    await sleep(100);
  }
}

/** What the load generator sends. */
export interface LoadOptions {
  readonly signal: LoadSignal;
  /** Records of a request; several numbers take turns. */
  readonly records: number | string;
  readonly seconds: number;
  readonly connections: number;
  readonly rate?: number;
  /** Default: http. */
  readonly protocol?: LoadProtocol;
  /** Of bodies over HTTP. Default: identity. */
  readonly encoding?: LoadEncoding;
  /** Of bodies over HTTP. Default: protobuf. */
  readonly format?: LoadFormat;
  /** At a rate: what waits for a connection in the end is not sent. */
  readonly drop?: boolean;
}

/** Runs the load generator to its end. */
export async function generateLoad(url: string, authorization: string, load: LoadOptions): Promise<LoadReport> {
  const args = [
    compiled("./load-generator.js"),
    `--url=${url}`,
    `--authorization=${authorization}`,
    `--signal=${load.signal}`,
    `--records=${load.records}`,
    `--seconds=${load.seconds}`,
    `--connections=${load.connections}`,
    `--protocol=${load.protocol ?? "http"}`,
    `--encoding=${load.encoding ?? "identity"}`,
    `--format=${load.format ?? "protobuf"}`,
    ...(load.drop === true ? ["--drop"] : []),
    ...(load.rate === undefined ? [] : [`--rate=${load.rate}`]),
  ];
  const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  let output = "";
  child.stdout.on("data", (chunk: Buffer) => (output += chunk.toString()));
  const [code] = (await once(child, "close")) as [number];
  if (code !== 0) {
    throw new Error(`the load generator exited with ${code}`);
  }
  return JSON.parse(output) as LoadReport;
}

/** A receiver that refuses what is counted is not measured. @param name of the run or of the receiver */
export function assertAccepted(name: string, { acknowledgedRecords, records, statuses }: LoadReport): void {
  if (acknowledgedRecords !== records || records === 0) {
    throw new Error(`${name}: not every record was accepted; answers: ${JSON.stringify(statuses)}`);
  }
}

/** Keeps a long run from filling the disk: ten minutes at full load are tens of gigabytes. */
export function removeOldObjects(lake: string, olderThanMs: number): void {
  for (const entry of readdirSync(lake, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name);
    if (entry.name.endsWith(".parquet") && Date.now() - statSync(path).mtimeMs > olderThanMs) {
      rmSync(path);
    }
  }
}
