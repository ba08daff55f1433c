/** Asks, reads the frames of the answer and hands each batch to the page as soon as it is there. */
import { RecordBatchReader, type Vector } from "apache-arrow";

import type { ColumnData } from "./column-data.js";
import { columnDataOf, fieldOf, memoryOf } from "./convert.js";
import { FrameReader } from "./frames.js";
import type { FromWorker, QueryFailure, ToWorker } from "./messages.js";
import { ByteQueue } from "./byte-queue.js";

const running = new Map<number, AbortController>();
const text = new TextDecoder();

self.addEventListener("message", ({ data }: MessageEvent<ToWorker>) => {
  if (data.kind === "cancel") {
    running.get(data.id)?.abort();
    return;
  }
  const abort = new AbortController();
  running.set(data.id, abort);
  void run(data.id, data.url, data.body, abort.signal).finally(() => running.delete(data.id));
});

function post(message: FromWorker, memory: readonly ArrayBuffer[] = []): void {
  self.postMessage(message, { transfer: [...memory] });
}

async function run(id: number, url: string, body: string, signal: AbortSignal): Promise<void> {
  let response: Response;
  try {
    response = await fetch(url, {
      method: "POST",
      headers: { "content-type": "application/json", accept: "application/vnd.telemetry.frames, application/json" },
      body,
      signal,
    });
  } catch {
    fail(id, { status: 0, code: "OFFLINE", message: "The server cannot be reached." }, signal);
    return;
  }
  if (!response.ok || response.body === null) {
    fail(id, await failureOf(response), signal);
    return;
  }
  const messages = new ByteQueue();
  const decoded = decode(id, messages);
  try {
    const ended = await readFrames(id, response.body, messages);
    messages.close();
    await decoded;
    if (ended !== null) {
      post(ended);
    } else {
      fail(id, { status: 200, code: "BROKEN", message: "The answer ended before it was complete." }, signal);
    }
  } catch (error) {
    messages.close();
    await Promise.allSettled([decoded]); // what came until then is shown
    const reason = error instanceof Error && !signal.aborted ? `: ${error.message}` : "";
    fail(id, { status: 200, code: "BROKEN", message: `The answer broke off${reason}.` }, signal);
  }
}

/** @returns the message that ends the query; null when the stream ended without one. */
async function readFrames(
  id: number,
  body: ReadableStream<Uint8Array>,
  messages: ByteQueue,
): Promise<FromWorker | null> {
  const frames = new FrameReader();
  const reader = body.getReader();
  let ended: FromWorker | null = null;
  // To its very end, also behind the last frame: so the connection is used again.
  for (;;) {
    const { value, done } = await reader.read();
    if (done) {
      return ended;
    }
    for (const { kind, payload } of frames.push(value)) {
      if (kind === "S" || kind === "B") {
        messages.push(payload);
        continue;
      }
      const said = JSON.parse(text.decode(payload)) as Readonly<Record<string, unknown>>;
      if (kind === "P") {
        const fraction = typeof said["fraction"] === "number" ? said["fraction"] : null;
        post({ kind: "progress", id, progress: { rows: count(said, "rows"), bytes: count(said, "bytes"), fraction } });
      } else if (kind === "D") {
        const cut = said["cut"] === true || said["truncated"] === true;
        const milliseconds = count(said, "milliseconds");
        const summary = { rows: count(said, "rows"), bytes: count(said, "bytes"), milliseconds, cut };
        ended = { kind: "done", id, summary };
      } else {
        ended = { kind: "failed", id, failure: failureFrom(said, 200) };
      }
    }
  }
}

async function decode(id: number, messages: ByteQueue): Promise<void> {
  const dictionaries = new Map<Vector, readonly ColumnData[]>();
  const batches = await RecordBatchReader.from(messages);
  await batches.open();
  if (batches.schema === undefined) {
    return; // it failed before there was one
  }
  post({ kind: "schema", id, fields: batches.schema.fields.map(fieldOf) });
  for await (const batch of batches) {
    if (batch.numRows === 0) {
      continue; // of a result without rows the reader makes a batch whose lists lack their parts
    }
    const columns = batch.data.children.map((child) => columnDataOf(child, dictionaries));
    post({ kind: "batch", id, rows: batch.numRows, columns }, memoryOf(columns));
  }
}

function fail(
  id: number,
  failure: Omit<QueryFailure, "requestId" | "retryAfterSeconds"> & Partial<QueryFailure>,
  signal: AbortSignal,
): void {
  const cancelled = { status: failure.status, code: "CANCELLED", message: "Cancelled." };
  post({
    kind: "failed",
    id,
    failure: { requestId: null, retryAfterSeconds: null, ...(signal.aborted ? cancelled : failure) },
  });
}

async function failureOf(response: Response): Promise<QueryFailure> {
  const retryAfter = Number(response.headers.get("retry-after") ?? Number.NaN);
  const retryAfterSeconds = Number.isFinite(retryAfter) ? retryAfter : null;
  const requestId = response.headers.get("x-request-id");
  try {
    const said = (await response.json()) as Readonly<Record<string, unknown>>;
    const failure = failureFrom(said, response.status);
    return { ...failure, requestId: failure.requestId ?? requestId, retryAfterSeconds };
  } catch {
    const message = `The server answered ${response.status} ${response.statusText}`.trim();
    return { status: response.status, code: "UNKNOWN", message: `${message}.`, requestId, retryAfterSeconds };
  }
}

function failureFrom(said: Readonly<Record<string, unknown>>, status: number): QueryFailure {
  const { code, message, request_id: requestId } = said;
  return {
    status,
    code: typeof code === "string" ? code : "UNKNOWN",
    message: typeof message === "string" ? message : "The query failed.",
    requestId: typeof requestId === "string" ? requestId : null,
    retryAfterSeconds: null,
  };
}

function count(said: Readonly<Record<string, unknown>>, name: string): number {
  const value = said[name];
  return typeof value === "number" ? value : 0;
}
