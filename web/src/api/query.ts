/**
 * Queries: one worker reads all answers, at most four run at once, as the server allows. A result grows while it comes
 * in, and can be read all the time.
 */
import { Column } from "../arrow/column.js";
import type { FromWorker, QueryProgress, QuerySummary, ToWorker } from "../arrow/messages.js";
import { ApiError } from "./error.js";
import { apiUrl } from "./http.js";
import { renewSession } from "./session.js";

/** What is asked. */
export interface QueryRequest {
  readonly sql: string;
  /** A value for each `?`. */
  readonly parameters?: readonly (string | number | boolean | null)[] | undefined;
  /** The range that the views are narrowed to, in milliseconds since the epoch. */
  readonly beginMs?: number | undefined;
  readonly endMs?: number | undefined;
  /** Most rows. */
  readonly limit?: number | undefined;
  /** A name of `api/data-sources`; undefined: the default one. */
  readonly dataSource?: string | undefined;
}

/** Rows as far as they are there. */
export interface QueryResult {
  readonly columns: readonly Column[];
  readonly rows: number;
}

/** What happens to a query; each is told after the result has it. */
interface QueryEvents {
  /** There are columns, or more rows. */
  readonly onRows?: (result: QueryResult) => void;
  readonly onProgress?: (progress: QueryProgress) => void;
}

/** A complete result. */
interface FinishedQuery extends QueryResult {
  readonly summary: QuerySummary;
}

const maxRunning = 4;
let runningCount = 0;
const waiting: (() => void)[] = [];
let nextId = 1;
const listeners = new Map<number, (message: FromWorker) => void>();
let worker: Worker | null = null;

/** Loads what reads results, so that the first query does not wait for it. */
export function warmUp(): void {
  startedWorker();
}

function post(message: ToWorker): void {
  startedWorker().postMessage(message);
}

function startedWorker(): Worker {
  if (worker === null) {
    worker = new Worker(new URL("../arrow/worker.ts", import.meta.url), { type: "module", name: "results" });
    worker.addEventListener("message", ({ data }: MessageEvent<FromWorker>) => listeners.get(data.id)?.(data));
    worker.addEventListener("error", () => {
      // It could not be loaded, most likely because the service was updated under an open page.
      for (const [id, listener] of listeners) {
        const message = "The part that reads results has failed. Load the page again.";
        const failure = { status: 0, code: "WORKER", message, requestId: null, retryAfterSeconds: null };
        listener({ kind: "failed", id, failure });
      }
      worker = null;
    });
  }
  return worker;
}

/**
 * Runs a query to its end.
 * @throws ApiError with the rows until then in what `onRows` was given; DOMException AbortError when the signal fires,
 *   which cancels the query on the server.
 */
export async function runQuery(
  request: QueryRequest,
  events: QueryEvents,
  signal: AbortSignal,
): Promise<FinishedQuery> {
  await place(signal);
  try {
    for (let attempt = 1; ; attempt++) {
      try {
        return await runOnce(request, events, signal);
      } catch (error) {
        await mend(error, attempt, signal);
      }
    }
  } finally {
    runningCount--;
    waiting.shift()?.();
  }
}

/** Makes another attempt worth it, or throws the error: a session is renewed, other tabs and people get time for theirs. */
async function mend(error: unknown, attempt: number, signal: AbortSignal): Promise<void> {
  if (!(error instanceof ApiError)) {
    throw error;
  }
  if (error.code === "UNAUTHENTICATED" && attempt === 1) {
    await renewSession(signal);
  } else if (error.code === "TOO_MANY_REQUESTS" && attempt < 30) {
    await pause(250 * Math.min(attempt, 4), signal);
  } else if (error.code === "OVERLOADED" && attempt < 5) {
    // Not all of those that were refused at once come back at once.
    await pause(1000 * (error.retryAfterSeconds ?? 1) * (1 + Math.random()), signal);
  } else {
    throw error;
  }
}

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  await new Promise((resolve) => {
    setTimeout(resolve, ms);
    signal.addEventListener("abort", resolve, { once: true });
  });
  signal.throwIfAborted();
}

/** Waits until fewer than four run. */
async function place(signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  if (runningCount >= maxRunning) {
    await new Promise<void>((resolve, reject) => {
      const leave = (): void => {
        waiting.splice(waiting.indexOf(go), 1);
        reject(new DOMException("", "AbortError"));
      };
      const go = (): void => {
        signal.removeEventListener("abort", leave);
        resolve();
      };
      waiting.push(go);
      signal.addEventListener("abort", leave, { once: true });
    });
  }
  runningCount++;
}

function runOnce(request: QueryRequest, events: QueryEvents, signal: AbortSignal): Promise<FinishedQuery> {
  const id = nextId++;
  let columns: readonly Column[] = [];
  let rows = 0;
  return new Promise<FinishedQuery>((resolve, reject) => {
    const cancel = (): void => {
      post({ kind: "cancel", id });
      end();
      reject(new DOMException("", "AbortError"));
    };
    const end = (): void => {
      listeners.delete(id);
      signal.removeEventListener("abort", cancel);
    };
    listeners.set(id, (message) => {
      switch (message.kind) {
        case "schema":
          columns = message.fields.map(({ name, type }) => new Column(name, type));
          events.onRows?.({ columns, rows });
          break;
        case "batch":
          message.columns.forEach((data, at) => columns[at]?.append(data));
          rows += message.rows;
          events.onRows?.({ columns, rows });
          break;
        case "progress":
          events.onProgress?.(message.progress);
          break;
        case "done":
          end();
          resolve({ columns, rows, summary: message.summary });
          break;
        case "failed":
          end();
          reject(new ApiError(message.failure));
          break;
      }
    });
    signal.addEventListener("abort", cancel, { once: true });
    post({ kind: "start", id, url: apiUrl("api/query"), body: bodyOf(request) });
  });
}

/** The request as the server takes it; what is not given is left out. */
export function bodyOf({ sql, parameters, beginMs, endMs, limit, dataSource }: QueryRequest): string {
  return JSON.stringify({
    sql,
    parameters,
    begin: beginMs === undefined ? undefined : new Date(beginMs).toISOString(),
    end: endMs === undefined ? undefined : new Date(endMs).toISOString(),
    limit,
    data_source: dataSource,
  });
}
