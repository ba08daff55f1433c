/**
 * Runs before every test file: taps what tests read of HTTP responses, what child processes write, and
 * every metric, of any maker, so that no test has to think of it (cleartext-watch.ts).
 */
import childProcess, { type ChildProcess } from "node:child_process";
import { createHash } from "node:crypto";
import { syncBuiltinESMExports } from "node:module";
import path from "node:path";
import type { Readable } from "node:stream";

import { Registry } from "prom-client";
import { afterAll } from "vitest";

import { recordMinted, recordOutput } from "./cleartext-tap.js";

/** Test files that share a process share its taps. */
const shared = globalThis as { tappedRegistries?: Set<Registry> };
/** Digests of the large bodies that were seen: objects come many times, and are searched once. */
const seenBodies = new Set<string>();
const largeBody = 1 << 16;
if (shared.tappedRegistries === undefined) {
  shared.tappedRegistries = new Set();
  tapResponses();
  tapChildren();
  tapMetrics(shared.tappedRegistries);
}
const registries = shared.tappedRegistries;
afterAll(async () => {
  for (const registry of registries) {
    // What a stopped server can no longer collect is not exposed either.
    recordOutput("metrics", await registry.metrics().catch(() => ""));
  }
  registries.clear();
});

/** The only place where a key may be is left out: the field `key` of the answer to a mint. */
function recordResponse(response: Response, text: string): void {
  recordOutput("response", JSON.stringify([...response.headers]));
  if (text.length > largeBody) {
    const digest = createHash("sha256").update(text).digest("hex");
    if (seenBodies.has(digest)) {
      return;
    }
    seenBodies.add(digest);
  }
  const isMint = response.status === 201 && /\/api\/\w+-api-keys$/u.test(response.url);
  const key = isMint ? /"key":"(svk_[0-9A-Za-z]+)"/u.exec(text)?.[1] : undefined;
  if (key === undefined) {
    recordOutput("response", text);
    return;
  }
  recordMinted(key);
  recordOutput("response", text.replace(`"key":"${key}"`, ""));
}

function tapResponses(): void {
  const { text, arrayBuffer } = Response.prototype;
  Object.assign(Response.prototype, {
    async text(this: Response) {
      const body = await text.call(this);
      recordResponse(this, body);
      return body;
    },
    async json(this: Response) {
      return JSON.parse(await this.text()) as unknown;
    },
    async arrayBuffer(this: Response) {
      const body = await arrayBuffer.call(this);
      recordResponse(this, Buffer.from(body).toString("latin1"));
      return body;
    },
  });
}

function tapChildren(): void {
  const { spawn } = childProcess;
  const tapped = (...args: Parameters<typeof spawn>): ChildProcess => {
    const child = spawn(...args);
    // The command line prints the key that it mints, on stdout.
    const isCommandLine = args[1].some((argument) => path.basename(argument) === "telemetry.js");
    if (!isCommandLine) {
      tapStream(child.stdout);
    }
    tapStream(child.stderr);
    return child;
  };
  childProcess.spawn = tapped as typeof spawn;
  syncBuiltinESMExports();
}

/** Sees the bytes as they come in; a listener would set the stream flowing before the test listens. */
function tapStream(stream: Readable | null): void {
  if (stream === null) {
    return;
  }
  let rest = "";
  const push = stream.push.bind(stream);
  stream.push = (chunk: Uint8Array | null, encoding?: BufferEncoding) => {
    // A key can come in two pieces; lines are kept whole.
    const text = rest + (chunk === null ? "" : Buffer.from(chunk).toString("latin1"));
    const end = chunk === null ? text.length : text.lastIndexOf("\n") + 1;
    recordOutput("output", text.slice(0, end));
    rest = text.slice(end);
    return push(chunk, encoding);
  };
}

function tapMetrics(seen: Set<Registry>): void {
  const { prototype } = Registry;
  const register = Object.getOwnPropertyDescriptor(prototype, "registerMetric")?.value as (
    this: Registry,
    metric: Parameters<Registry["registerMetric"]>[0],
  ) => void;
  prototype.registerMetric = function (metric) {
    seen.add(this);
    register.call(this, metric);
  };
}
