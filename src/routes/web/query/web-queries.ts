/**
 * `POST /api/query`: runs a statement as the caller and passes its result on. The web server is a Flight SQL client of
 * the analytics server; the caller's identity token is the bearer token of the calls, so the analytics server decides
 * what the caller may read. Messages of Arrow go through as bytes.
 *
 * A reader sets the pace: the next message is asked for when the client has taken the one before. A client that
 * leaves cancels its query. Nothing waits for ever: a query has a deadline beyond that of the analytics server.
 */
import { randomUUID } from "node:crypto";
import { setMaxListeners } from "node:events";

import { formatRfc3339Ns } from "telemetry-service-client/shared/rfc3339";
import { followSignals } from "telemetry-service-client/shared/abort";
import type { FlightDataFrame } from "telemetry-service-client/flight/flight-messages";
import { statementCommand } from "telemetry-service-client/flight/statement-command";
import { parseTimeNs } from "../../../runtime/text/time-text.js";
import { atMost } from "../../../runtime/at-most.js";
import { forwardedFor, type RequestOrigin } from "../../../auth/audit.js";
import { ServiceError } from "../../../runtime/errors.js";
import type { Logger } from "../../../runtime/log/log.js";
import { createRareWarning, type RareWarning } from "../../../runtime/log/rare-warnings.js";
import type { Metrics } from "../../../runtime/metrics.js";
import { shortenBatch } from "../../../wire/flight/flight-arrow-cut.js";
import { objectsHeader } from "../../../wire/flight/flight-protobuf.js";
import { type MessageHead, readMessageHead } from "../../../wire/flight/flight-arrow-read.js";
import type { OperationInput } from "../../../wire/web/admin-api.js";
import {
  arrowStreamType,
  encapsulated,
  endOfStream,
  framesType,
  jsonFrame,
  messageFrame,
} from "../../../wire/web/query-frames.js";
import type { HttpAnswer } from "../../http/answer.js";
import type { DataSources, OpenSource } from "./data-sources.js";
import { paced } from "./paced.js";
import { failureOf } from "./query-failure.js";

/** Queries of one session that run at once. */
export const maxQueriesOfSession = 4;
/** Queries of everybody that run at once: each holds messages that its reader has not taken. */
export const maxQueriesOfServer = 256;
/** Time between two frames of progress. */
const progressMs = 250;

/** A query that was accepted as a request. */
export interface WebQuery {
  /** Whose queries are counted together. */
  readonly session: string;
  /** Bearer token of the calls. */
  readonly idToken: string;
  readonly origin: RequestOrigin;
  readonly input: OperationInput<"query">["body"];
  /** The `Accept` field. */
  readonly accept: string;
  /** Aborted when the client leaves. */
  readonly signal: AbortSignal;
}

/** Sends an answer whose body comes in parts; see `BodyExchange.stream`. */
export type SendParts = (answer: Omit<HttpAnswer, "body">, parts: AsyncIterable<Uint8Array>) => Promise<boolean>;

/** Options of {@link WebQueries}. */
interface WebQueriesOptions {
  readonly sources: DataSources;
  /** `SVC_WEB_QUERY_MAX_ROWS` */
  readonly maxRows: number;
  /** Longest time of a query: more than the analytics server gives it, whose sentence says more. */
  readonly timeoutMs: number;
  readonly logger: Logger;
  readonly metrics: Metrics;
}

/** What becomes of the parts of an answer. */
interface Format {
  readonly contentType: string;
  message(kind: "schema" | "dictionary" | "batch", frame: FlightDataFrame): readonly Uint8Array[];
  /** Null where the format has no place for it. */
  progress: ((sent: Sent) => Uint8Array) | null;
  done(sent: Sent, cut: boolean): Uint8Array;
  /** Null: the answer is broken off. */
  failed: ((error: ServiceError, requestId: string) => Uint8Array) | null;
}

interface Sent {
  rows: number;
  bytes: number;
  objects: number | null;
  readonly startMs: number;
}

const progressOf = ({ rows, bytes, objects, startMs }: Sent) => ({
  rows,
  bytes,
  objects,
  milliseconds: Math.round(performance.now() - startMs),
});

const frames: Format = {
  contentType: framesType,
  message: (kind, { header, body }) => messageFrame(kind === "schema" ? "S" : "B", header, body),
  progress: (sent) => jsonFrame("P", progressOf(sent)),
  done: (sent, cut) => jsonFrame("D", { ...progressOf(sent), cut }),
  failed: ({ code, publicMessage }, requestId) =>
    jsonFrame("E", { code, message: publicMessage, request_id: requestId }),
};

/** A stream that lacks its end was broken off; nothing in it could say why. */
const arrowStream: Format = {
  contentType: arrowStreamType,
  message: (_kind, { header, body }) => encapsulated(header, body),
  progress: null,
  done: () => endOfStream,
  failed: null,
};

/** See the head of this file. */
export class WebQueries {
  readonly #o: WebQueriesOptions;
  readonly #warn: RareWarning;
  readonly #ofSession = new Map<string, number>();
  readonly #stopping = new AbortController();
  readonly #count: (outcome: string) => void;
  #running = 0;
  #sentBytes = 0;
  #onIdle: (() => void) | null = null;

  constructor(o: WebQueriesOptions) {
    this.#o = o;
    this.#warn = createRareWarning(o.logger);
    // Every query listens to it.
    setMaxListeners(0, this.#stopping.signal);
    const outcomes = o.metrics.counter("web_queries_total", "Queries of the web application by outcome", ["outcome"]);
    this.#count = (outcome) => {
      outcomes.inc({ outcome });
    };
    const running = o.metrics.gauge("web_queries_running", "Queries of the web application that run");
    o.metrics.onCollect(() => {
      running.set(this.#running);
    });
  }

  /**
   * Runs a query and sends its result.
   * @returns whether all of the answer was sent
   * @throws ServiceError while nothing was sent yet: TOO_MANY_REQUESTS, OVERLOADED, NOT_FOUND, BAD_REQUEST; and where the format
   *   has no place for an error, whatever the query fails with
   */
  async run(query: WebQuery, send: SendParts): Promise<boolean> {
    const { session } = query;
    const range = rangeHeaders(query.input);
    const others = this.#ofSession.get(session) ?? 0;
    if (others >= maxQueriesOfSession) {
      throw new ServiceError(
        "TOO_MANY_REQUESTS",
        `${maxQueriesOfSession} of your queries are running, and no more run at once; wait for one or cancel it`,
        { retryAfterSeconds: 1 },
      );
    }
    if (this.#running >= maxQueriesOfServer) {
      throw new ServiceError("OVERLOADED", undefined, { retryAfterSeconds: 1 });
    }
    this.#ofSession.set(session, others + 1);
    this.#running++;
    const { controller, release } = followSignals([query.signal, this.#stopping.signal]);
    const { timeoutMs } = this.#o;
    const timer = setTimeout(() => {
      const message = `The query took longer than the ${timeoutMs / 1000} seconds that it may take.`;
      controller.abort(new ServiceError("DEADLINE_EXCEEDED", message));
    }, timeoutMs);
    const requestId = randomUUID();
    const format = query.accept.includes(arrowStreamType) ? arrowStream : frames;
    const headers = [
      ["Content-Type", format.contentType],
      // nginx would keep progress and the first rows until it has some kilobytes.
      ["X-Accel-Buffering", "no"],
      ["X-Request-Id", requestId],
    ] as const;
    let source: OpenSource | null = null;
    try {
      source = await this.#o.sources.open(query.input.data_source);
      const parts = this.#parts(query, source, range, format, requestId, controller.signal);
      return await send({ status: 200, headers }, parts);
    } finally {
      clearTimeout(timer);
      // Also when nothing was read of the parts.
      controller.abort(new ServiceError("CANCELLED"));
      source?.release();
      release();
      this.#running--;
      const left = (this.#ofSession.get(session) ?? 1) - 1;
      if (left === 0) {
        this.#ofSession.delete(session);
      } else {
        this.#ofSession.set(session, left);
      }
      if (this.#running === 0) {
        this.#onIdle?.();
      }
    }
  }

  /** Bytes of all results so far. */
  get sentBytes(): number {
    return this.#sentBytes;
  }

  /** Lets what runs go on for a while, then ends it with a sentence. */
  async drain(ms: number): Promise<void> {
    if (this.#running > 0) {
      const idle = new Promise<void>((resolve) => {
        this.#onIdle = resolve;
      });
      await atMost(idle, ms);
    }
    this.#stopping.abort(new ServiceError("UNAVAILABLE", "the server is stopping; try again"));
  }

  async *#parts(
    query: WebQuery,
    source: OpenSource,
    range: Readonly<Record<string, string>>,
    format: Format,
    requestId: string,
    signal: AbortSignal,
  ): AsyncGenerator<Uint8Array> {
    const sent: Sent = { rows: 0, bytes: 0, objects: null, startMs: performance.now() };
    const maxRows = Math.min(query.input.limit ?? this.#o.maxRows, this.#o.maxRows);
    let outcome = "CANCELLED";
    // Ends the calls, whatever the query ends with; `signal` tells why.
    const { controller, release } = followSignals([signal]);
    try {
      let cut = false;
      let schema: Uint8Array = new Uint8Array(0);
      const interval = format.progress === null ? null : progressMs;
      const result = resultOf(query, source, range, controller.signal, (objects) => {
        sent.objects = objects;
      });
      for await (const frame of paced(result, interval, controller)) {
        if (frame === null) {
          yield* format.progress === null ? [] : [format.progress(sent)];
          continue;
        }
        const { kind, rows } = headOf(frame, source);
        const left = maxRows - sent.rows;
        cut = rows > left;
        if (cut && left === 0) {
          break;
        }
        schema = kind === "schema" ? frame.header : schema;
        const kept = cut ? firstRows(schema, frame, left, source) : frame;
        sent.rows += kept === frame ? rows : left;
        const bytes = kept.header.length + kept.body.length;
        sent.bytes += bytes;
        this.#sentBytes += bytes;
        yield* format.message(kind, kept);
        if (cut) {
          break;
        }
      }
      outcome = "OK";
      yield format.done(sent, cut);
    } catch (thrown) {
      const failure = failureOf(thrown, source.name, signal);
      outcome = failure.code;
      this.#log(failure, source.name, requestId);
      if (format.failed === null) {
        throw failure;
      }
      yield format.failed(failure, requestId);
    } finally {
      release();
      this.#count(outcome);
    }
  }

  /** What the caller can do nothing about. */
  #log(failure: ServiceError, source: string, requestId: string): void {
    const [fields, message] = [{ err: failure, requestId, source }, "a query of the web application failed"];
    if (failure.code === "INTERNAL") {
      this.#o.logger.warn(fields, message);
    } else if (failure.code === "UNAVAILABLE" || failure.code === "NOT_CONFIGURED") {
      this.#warn(source, fields, message);
    }
  }
}

/** Frames of the result of a statement. */
async function* resultOf(
  query: WebQuery,
  { calls }: OpenSource,
  range: Readonly<Record<string, string>>,
  signal: AbortSignal,
  onObjects: (objects: number) => void,
): AsyncGenerator<FlightDataFrame> {
  const { idToken, origin } = query;
  const headers = { ...range, authorization: `Bearer ${idToken}`, "x-forwarded-for": forwardedFor(origin) };
  const context = { signal, headers };
  const { sql, parameters } = query.input;
  const command = await statementCommand(calls, sql, parameters, context);
  yield* calls.get(await calls.info(command, context), signal, (headers) => {
    const [objects] = headers.get(objectsHeader);
    // Other servers of Flight SQL have no such header.
    if (typeof objects === "string" && /^\d{1,15}$/.test(objects)) {
      onObjects(Number(objects));
    }
  });
}

/** @throws ServiceError INTERNAL for what is no message. */
function headOf({ header }: FlightDataFrame, source: OpenSource): MessageHead {
  return reading(source, () => readMessageHead(header));
}

/** The first rows of a batch; all of one that cannot be shortened. @throws ServiceError INTERNAL for what is none. */
function firstRows(schema: Uint8Array, frame: FlightDataFrame, rows: number, source: OpenSource): FlightDataFrame {
  const header = reading(source, () => shortenBatch(schema, frame.header, frame.body, rows));
  return header === null ? frame : { header, body: frame.body };
}

function reading<T>({ name }: OpenSource, read: () => T): T {
  try {
    return read();
  } catch (cause) {
    throw new ServiceError("INTERNAL", undefined, {
      cause,
      shown: `the data source ${name} sent what is no Arrow message`,
    });
  }
}

/** @throws ServiceError BAD_REQUEST */
function rangeHeaders({ begin, end }: WebQuery["input"]): Readonly<Record<string, string>> {
  const beginNs = begin === undefined ? null : parseTimeNs("begin", begin);
  const endNs = end === undefined ? null : parseTimeNs("end", end);
  if (beginNs !== null && endNs !== null && beginNs > endNs) {
    throw new ServiceError("BAD_REQUEST", "begin is after end");
  }
  return {
    ...(beginNs === null ? {} : { "query-range-begin": formatRfc3339Ns(beginNs) }),
    ...(endNs === null ? {} : { "query-range-end": formatRfc3339Ns(endNs) }),
  };
}
