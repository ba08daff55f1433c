/** An engine process for tests: spawned as the server spawns it, asked job by job. */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import type { Duplex } from "node:stream";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

import { encodeJsonFrame, encodeFrame, encodeNumberFrame, FrameReader } from "../../../src/engine/frames.js";
import { dataSegmentBytes, limitDataSegment } from "../../../src/engine/process-memory.js";
import { readFrames } from "../../../src/engine/frame-stream.js";
import { namesOf } from "../../../src/query/backend/inspect.js";
import { decodeSchemaMessage } from "../../../src/wire/flight/flight-arrow-schema.js";
import {
  type EngineHello,
  type EngineStep,
  frameKinds,
  type InstanceOptions,
  type JobEnd,
  type StepResult,
} from "../../../src/engine/protocol.js";

/** What a job gave. */
export interface JobOutcome {
  readonly results: readonly StepResult[];
  readonly messages: readonly Uint8Array[];
  readonly end: JobEnd;
}

/** A running engine. */
export interface TestEngine {
  readonly child: ChildProcess;
  readonly tempDirectory: string;
  readonly stderr: () => string;
  /** Sends a job with as many credits as anyone could want, or with as many as are given. */
  run(steps: readonly EngineStep[], options?: RunOptions): Promise<JobOutcome>;
  credit(count: number): void;
  interrupt(): void;
  /** Sends bytes as they are. */
  write(bytes: Uint8Array): void;
  /** Closes the stream and waits for the end of the process. */
  stop(): Promise<void>;
}

interface RunOptions {
  readonly instance?: Partial<InstanceOptions>;
  readonly credits?: number;
  readonly onMessage?: (message: Uint8Array) => void;
}

const entry = fileURLToPath(new URL("../../../src/engine/engine-process.js", import.meta.url));

/** @param dataBytes what the process may take beyond what it has when it is up */
export async function startEngine(dataBytes?: number): Promise<TestEngine> {
  const tempDirectory = mkdtempSync(join(tmpdir(), "svc-engine-"));
  const stdio = ["ignore", "ignore", "pipe", "pipe"] as const;
  const child = spawn(process.execPath, [entry], { stdio: [...stdio] });
  let stderr = "";
  child.stderr?.on("data", (chunk: Buffer) => (stderr += chunk.toString()));
  let onFrame: (kind: number, payload: Uint8Array) => void = () => undefined;
  const reader = new FrameReader(2 ** 31, (kind, payload) => {
    onFrame(kind, payload);
  });
  const stream = readFrames(child.stdio[3] as Duplex, reader, () => child.kill());
  stream.on("error", () => undefined);
  const exited = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  const gone = exited.then(() => {
    throw new Error(`the engine ended: ${child.exitCode ?? child.signalCode} ${stderr}`);
  });
  gone.catch(() => undefined);
  const hello = await Promise.race([
    gone,
    new Promise<EngineHello>((resolve) => {
      onFrame = (_, payload) => resolve(json(payload) as EngineHello);
    }),
  ]);
  if (dataBytes !== undefined) {
    limitDataSegment(hello.pid, dataSegmentBytes(hello.pid) + dataBytes);
  }
  return {
    child,
    tempDirectory,
    stderr: () => stderr,
    credit: (count) => stream.write(encodeNumberFrame(frameKinds.credit, count)),
    write: (bytes) => stream.write(bytes),
    interrupt: () => stream.write(encodeFrame(frameKinds.interrupt, new Uint8Array(0))),
    run: (steps, { instance, credits = 1_000_000, onMessage } = {}) => {
      const results: StepResult[] = [];
      const messages: Uint8Array[] = [];
      const ended = new Promise<JobOutcome>((resolve) => {
        onFrame = (kind, payload) => {
          if (kind === frameKinds.result) {
            results.push(json(payload) as StepResult);
          } else if (kind === frameKinds.data && onMessage !== undefined) {
            onMessage(payload);
          } else if (kind === frameKinds.data) {
            messages.push(payload);
          } else if (kind === frameKinds.end) {
            resolve({ results, messages, end: json(payload) as JobEnd });
          }
        };
      });
      stream.write(
        encodeJsonFrame(frameKinds.job, {
          instance: {
            key: "test",
            directories: [],
            paths: [],
            memoryBytes: 500_000_000,
            tempDirectory: join(tempDirectory, "spill"),
            tempBytes: 100_000_000,
            threads: 2,
            setup: [],
            ...instance,
          },
          steps,
        }),
      );
      if (credits > 0) {
        stream.write(encodeNumberFrame(frameKinds.credit, credits));
      }
      return Promise.race([gone, ended]);
    },
    stop: async () => {
      stream.destroy();
      await exited;
      rmSync(tempDirectory, { recursive: true, force: true });
    },
  };
}

/** Ways in which the rows of a result leave an engine, for `describe.each` and `it.each`. */
export const rowPaths = [
  ["fetched", false],
  ["taken in place", true],
] as const;

/** A `stream` step, with the names that an inspection would give to its columns. */
export async function streamStep(
  engine: TestEngine,
  sql: string,
  inPlace: boolean,
  messageBytes = 1 << 20,
): Promise<EngineStep & { readonly kind: "stream" }> {
  const step = { kind: "stream", sql, messageBytes } as const;
  if (!inPlace) {
    return step;
  }
  const { results } = await engine.run([{ kind: "describe", sql }]);
  const { schema } = results[0] ?? {};
  const names =
    schema === undefined
      ? ["fine", "odd"].map((name) => ({ name, children: [] }))
      : namesOf(decodeSchemaMessage(Buffer.from(schema, "base64")));
  return { ...step, inPlace, names };
}

function json(payload: Uint8Array): unknown {
  return JSON.parse(Buffer.from(payload).toString());
}
