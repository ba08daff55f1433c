/**
 * Queries that run on a cluster which speaks Spark Connect. The statement has passed the gate, and DuckDB has told its
 * columns; what is left is to choose, to translate (translate.ts) and to pass rows on. The cluster is told which
 * objects to read, one by one, and nothing else of the lake.
 */
import { underSignals } from "telemetry-service-client/shared/abort";

import { type Attempt, Breaker } from "../../runtime/breaker.js";
import type { Clock } from "../../runtime/clock.js";
import { onAbort } from "../../runtime/aborts.js";
import { abortReason, ServiceError, toServiceError } from "../../runtime/errors.js";
import type { Logger } from "../../runtime/log/log.js";
import type { Metrics } from "../../runtime/metrics.js";
import { type ArrowField, encodeSchemaMessage } from "../../wire/flight/flight-arrow.js";
import { decodeSchemaMessage } from "../../wire/flight/flight-arrow-schema.js";
import { flightDataFrame } from "../../wire/flight/flight-protobuf.js";
import { messagesOfStream } from "../../wire/spark/arrow-stream.js";
import { parquetRelation, rowsPlan, sqlRelation, viewPlan } from "../../wire/spark/spark-connect.js";
import type { AskOptions, QueryStream } from "../backend/backend.js";
import { tooLarge } from "../backend/engine-backend.js";
import type { Executable } from "../backend/inspect.js";
import { MessageQueue } from "../backend/message-queue.js";
import type { QueryOutcome, QuerySources, ResultLimits } from "../backend/run.js";
import type { Tree } from "../gate/syntax-tree.js";
import { ClusterClient, ClusterError, type ClusterSession } from "./cluster-client.js";
import type { ClusterAddress } from "./cluster-uri.js";
import { clusterSources, type ObjectView, type TimeReading } from "./cluster-views.js";
import type { EngineChoice } from "./engine-choice.js";
import { castToField, LocalOnly, samePhysical } from "./spark-types.js";
import { translateDocument, type TranslatedQuery, Translation } from "./translate.js";

/** What {@link ClusterQueries} is made of. */
export interface ClusterQueriesOptions extends ResultLimits {
  readonly address: ClusterAddress;
  /** `SVC_QUERY_CLUSTER_MIN_BYTES`. */
  readonly minBytes: number;
  /** Syntax trees of texts that have passed the gate. @throws ServiceError */
  readonly parse: (texts: readonly string[], ask: AskOptions) => Promise<readonly Tree[]>;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** How long the cluster may take to let itself be connected to, and for the first sign of life. */
  readonly patienceMs?: number;
}

/** A query that may go to the cluster. */
export interface ClusterRequest {
  readonly choice: EngineChoice;
  readonly executable: Executable;
  readonly fields: readonly ArrowField[];
  /** Of the objects that it reads. */
  readonly bytes: number;
  /** What it reads, objects by their URIs. */
  readonly sources: () => QuerySources;
}

/** Where a query runs, and why. */
type Decision =
  | { readonly engine: "local"; readonly reason: string }
  | { readonly engine: "cluster"; readonly reason: string; readonly statement: ClusterStatement };

/** A query as the cluster runs it. */
export interface ClusterStatement {
  readonly sql: string;
  readonly objects: readonly ObjectView[];
  readonly fields: readonly ArrowField[];
}

/** Longest time of what is asked of a cluster before a query is planned for it: Sail starts its workers for it. */
const probeMs = 60_000;
/** Objects without nanoseconds of this kind are read as times of microseconds otherwise. */
const settings = { "spark.sql.legacy.parquet.nanosAsLong": "true", "spark.sql.session.timeZone": "UTC" };

/** Characters of the texts whose trees are kept, in all and in each: a tree takes a hundred times as many bytes. */
const maxKept = { all: 1 << 18, each: 1 << 14 };
/** Longest statement that is translated, in characters: the thread that does it serves all other callers. */
const maxTranslated = 1 << 15;

/** After so many failures in a row the cluster is asked nothing for a while; then one query tries. */
const failuresInARow = 3;
const pauseMs = 30_000;
const failedInARow = "the cluster failed several times in a row";

/** Chooses, translates and runs. */
export class ClusterQueries {
  readonly #o: ClusterQueriesOptions;
  readonly #client: ClusterClient;
  readonly #breaker: Breaker;
  readonly #counts;
  /** Trees of texts, the one that was asked for last at the end. */
  readonly #trees = new Map<string, Tree>();
  #treeTexts = 0;
  #times: TimeReading | null = null;

  constructor(o: ClusterQueriesOptions) {
    this.#o = o;
    this.#client = new ClusterClient(o.address, o.patienceMs);
    this.#breaker = new Breaker({
      failures: failuresInARow,
      pauseMs,
      monotonicMs: () => o.clock.monotonicMs(),
      onChange: (open) => {
        if (open) {
          o.logger.warn("the cluster failed several queries in a row: it is asked nothing for a while");
        } else {
          o.logger.info("the cluster answers again");
        }
      },
    });
    this.#counts = {
      queries: o.metrics.counter("query_cluster_queries_total", "Queries that were sent to the cluster", ["outcome"]),
      local: o.metrics.counter("query_cluster_local_total", "Queries that stayed, though a cluster is configured", [
        "why",
      ]),
      fallbacks: o.metrics.counter(
        "query_cluster_fallbacks_total",
        "Queries that the cluster failed and this machine ran",
      ),
    };
    const open = o.metrics.gauge("query_cluster_breaker_open", "1 while queries are kept away from the cluster");
    o.metrics.onCollect(() => {
      open.set(this.#breaker.open ? 1 : 0);
    });
  }

  stop(): void {
    this.#client.close();
  }

  /**
   * Where a query runs.
   * @throws ServiceError BAD_REQUEST when it has to run on the cluster and cannot; UNAVAILABLE when the cluster is down
   */
  async decide(request: ClusterRequest, ask: AskOptions): Promise<Decision> {
    const { choice, bytes } = request;
    const { minBytes } = this.#o;
    const stay = (why: string, reason: string): Decision => {
      this.#counts.local.inc({ why });
      return { engine: "local", reason };
    };
    if (choice === "local") {
      return stay("asked", "engine=local");
    }
    if (choice === "auto" && bytes < minBytes) {
      return stay("small", `${bytes} bytes to read, less than SVC_QUERY_CLUSTER_MIN_BYTES`);
    }
    const attempt = this.#breaker.enter();
    if (attempt === null) {
      if (choice === "cluster") {
        throw unavailable();
      }
      return stay("breaker", failedInARow);
    }
    try {
      const statement = await this.#translate(request, ask);
      attempt.left();
      const reason = choice === "cluster" ? "engine=cluster" : `${bytes} bytes to read`;
      return { engine: "cluster", reason, statement };
    } catch (error) {
      if (error instanceof ClusterError) {
        this.#failed(error, attempt);
        if (ask.signal.aborted) {
          throw abortReason(ask.signal);
        }
        if (choice === "cluster") {
          throw unavailable(error);
        }
        return stay("failed", "the cluster cannot be reached");
      }
      attempt.left();
      if (!(error instanceof LocalOnly)) {
        throw error;
      }
      if (choice === "cluster") {
        throw new ServiceError(
          "BAD_REQUEST",
          `The cluster cannot run this statement: ${error.message} is local only.`,
          {
            cause: error,
          },
        );
      }
      return stay("local-only", `local only: ${error.message}`);
    }
  }

  /**
   * Runs a statement that was decided on.
   * @param fallback runs it on this machine when the cluster fails before anything was sent; null: it fails
   * @param onFallback told before it does
   */
  run(
    statement: ClusterStatement,
    ask: AskOptions,
    fallback: (() => Promise<QueryStream>) | null,
    onFallback: (reason: string) => void,
  ): QueryStream {
    const messages = new MessageQueue(ask.signal);
    return messages.stream(this.#run(statement, messages, fallback, onFallback));
  }

  async #translate({ executable, fields, sources }: ClusterRequest, ask: AskOptions): Promise<ClusterStatement> {
    if (executable.explain === "analyze") {
      throw new LocalOnly("EXPLAIN ANALYZE");
    }
    if ((executable.macros ?? []).length > 0) {
      throw new LocalOnly("a function of histograms");
    }
    if (executable.sql.length > maxTranslated) {
      throw new LocalOnly(`a text of more than ${maxTranslated} characters`);
    }
    const times = await this.#timeReading(ask.signal);
    const nowNs = (this.#o.clock.nowUnixNano() / 1000n) * 1000n;
    const { objects, tables, views } = clusterSources(sources(), times);
    const [main, ...definitions] = await this.#parsed([executable.sql, ...views.map(({ sql }) => sql)], ask);
    if (main === undefined) {
      throw new ServiceError("INTERNAL");
    }
    const below = new Translation(tables, nowNs);
    const named = new Map(
      views.map(({ name }, i): [string, TranslatedQuery] => [name, translateDocument(definitions[i] ?? {}, below)]),
    );
    const { sql, columns } = translateDocument(main, new Translation(named, nowNs, below));
    if (executable.explain === "none" && columns.length !== fields.length) {
      throw new LocalOnly("a result of other columns");
    }
    const casts = columns.map(({ spark, type }, i) => {
      const field = fields[i];
      return executable.explain !== "none" || field === undefined
        ? spark
        : `${castToField(`r.${spark}`, type, field)} AS r${i}`;
    });
    return { sql: `SELECT ${casts.join(", ")} FROM (${sql}) AS r`, objects, fields };
  }

  /** Statements come again, and views in few shapes. */
  async #parsed(texts: readonly string[], ask: AskOptions): Promise<readonly Tree[]> {
    const found = new Map(texts.map((text) => [text, this.#takeTree(text)]));
    const missing = [...found.keys()].filter((text) => found.get(text) === undefined);
    const parsed = missing.length === 0 ? [] : await this.#o.parse(missing, ask);
    for (const [i, tree] of parsed.entries()) {
      found.set(missing[i] ?? "", tree);
    }
    for (const [text, tree] of found) {
      if (tree !== undefined && text.length <= maxKept.each) {
        this.#keepTree(text, tree);
      }
    }
    return texts.map((text) => {
      const tree = found.get(text);
      if (tree === undefined) {
        throw new ServiceError("INTERNAL");
      }
      return tree;
    });
  }

  #takeTree(text: string): Tree | undefined {
    const tree = this.#trees.get(text);
    if (this.#trees.delete(text)) {
      this.#treeTexts -= text.length;
    }
    return tree;
  }

  #keepTree(text: string, tree: Tree): void {
    this.#takeTree(text);
    this.#trees.set(text, tree);
    this.#treeTexts += text.length;
    for (const oldest of this.#trees.keys()) {
      if (this.#treeTexts <= maxKept.all) {
        break;
      }
      this.#takeTree(oldest);
    }
  }

  /** Asked once: Spark reads nanoseconds as numbers, Sail as times. */
  async #timeReading(signal: AbortSignal): Promise<TimeReading> {
    if (this.#times !== null) {
      return this.#times;
    }
    const session = this.#client.open();
    try {
      const answers = async (sql: string): Promise<boolean> => {
        try {
          await underSignals([signal, AbortSignal.timeout(probeMs)], async (either) => {
            for await (const _ of session.execute(rowsPlan(sqlRelation(sql)), either)) {
              // The answer does not matter, but that there is one.
            }
          });
          return true;
        } catch (error) {
          if (!(error instanceof ClusterError)) {
            throw signal.aborted ? abortReason(signal) : new ClusterError("no answer", false, { cause: error });
          }
          if (!error.refused) {
            throw error;
          }
          return false;
        }
      };
      if (await answers("SELECT date_part('nanosecond', TIMESTAMP_NTZ '2000-01-01 00:00:01') AS n")) {
        this.#times = "timestamp";
      } else if (await answers("SELECT 1 AS n")) {
        this.#times = "number";
      } else {
        // A worker was lost, say: nothing was learned of the cluster.
        throw new ClusterError("it refuses every statement", false);
      }
    } finally {
      void session.release();
    }
    return this.#times;
  }

  /** Never rejects. */
  async #run(
    statement: ClusterStatement,
    messages: MessageQueue,
    fallback: (() => Promise<QueryStream>) | null,
    onFallback: (reason: string) => void,
  ): Promise<QueryOutcome> {
    const sent = { rows: 0 };
    const summary = (): QueryOutcome["summary"] => ({
      rows: sent.rows,
      batches: messages.batches,
      bytes: messages.bytes,
      peakMemoryBytes: null,
    });
    const failed = async (failure: ServiceError, why: string): Promise<QueryOutcome> => {
      if (fallback === null || messages.batches > 0) {
        return { summary: summary(), failure };
      }
      this.#counts.fallbacks.inc();
      onFallback(why);
      return passOn(fallback, messages, failure);
    };
    const attempt = this.#breaker.enter();
    if (attempt === null) {
      return failed(unavailable(), failedInARow);
    }
    const session = this.#client.open();
    try {
      await this.#execute(session, statement, messages, sent, attempt);
      attempt.succeeded();
      this.#counts.queries.inc({ outcome: "ok" });
      return { summary: summary(), failure: null };
    } catch (error) {
      const { signal } = messages;
      if (error instanceof ClusterError) {
        this.#failed(error, attempt);
      } else {
        attempt.left();
      }
      if (signal.aborted) {
        this.#counts.queries.inc({ outcome: "cancelled" });
        return { summary: summary(), failure: toServiceError(abortReason(signal)) };
      }
      if (!(error instanceof ClusterError)) {
        this.#counts.queries.inc({ outcome: "failed" });
        return { summary: summary(), failure: toServiceError(error) };
      }
      this.#counts.queries.inc({ outcome: error.refused ? "refused" : "failed" });
      const failure = error.refused
        ? new ServiceError("INTERNAL", undefined, {
            cause: error,
            shown: "the cluster could not run the statement; it may run with engine=local",
          })
        : unavailable(error);
      return await failed(failure, error.refused ? "the cluster could not run the statement" : "the cluster failed");
    } finally {
      void session.release();
    }
  }

  /** A cluster that refuses a statement is up. */
  #failed(error: ClusterError, attempt: Attempt): void {
    this.#o.logger.warn({ err: error }, "the cluster failed a query");
    if (error.refused) {
      attempt.succeeded();
    } else {
      attempt.failed();
    }
  }

  async #execute(
    session: ClusterSession,
    { sql, objects, fields }: ClusterStatement,
    messages: MessageQueue,
    sent: { rows: number },
    attempt: Pick<Attempt, "answered">,
  ): Promise<void> {
    const { signal } = messages;
    const { maxResultRows, maxResultBytes } = this.#o;
    if (this.#times === "number") {
      await session.configure(settings, signal);
    }
    for (const { name, paths } of objects) {
      for await (const _ of session.execute(viewPlan(name, parquetRelation(paths)), signal)) {
        // A command brings no rows.
      }
    }
    for await (const { arrow, rows, parts } of session.execute(rowsPlan(sqlRelation(sql)), signal)) {
      attempt.answered();
      if (arrow.length === 0) {
        continue;
      }
      if (parts > 1) {
        throw new ClusterError("a batch in parts", true);
      }
      let received = 0;
      for (const { kind, header, body, rows: ofBatch } of messagesOfStream(arrow)) {
        if (kind === "schema") {
          checkSchema(fields, header);
          if (messages.batches === 0 && sent.rows === 0) {
            begin(messages, fields);
          }
          continue;
        }
        if (kind === "dictionary") {
          throw new ClusterError("a dictionary that was not expected", true);
        }
        received += ofBatch;
        if (ofBatch === 0) {
          continue;
        }
        if (maxResultRows > 0 && sent.rows + ofBatch > maxResultRows) {
          throw tooLarge(`${maxResultRows} rows`, "SVC_QUERY_MAX_RESULT_ROWS");
        }
        if (maxResultBytes > 0 && messages.bytes + body.length > maxResultBytes) {
          throw tooLarge(`${maxResultBytes} bytes`, "SVC_QUERY_MAX_RESULT_BYTES");
        }
        const frame = flightDataFrame(header, body.length);
        frame.body.set(body);
        sent.rows += ofBatch;
        await pushed(messages, frame.message);
      }
      if (received !== rows) {
        throw new ClusterError("a batch has other rows than it says", false);
      }
    }
    if (sent.rows === 0) {
      begin(messages, fields);
    }
  }
}

function begin(messages: MessageQueue, fields: readonly ArrowField[]): void {
  messages.begin();
  messages.push(flightDataFrame(encodeSchemaMessage(fields), 0).message);
}

function checkSchema(fields: readonly ArrowField[], header: Uint8Array): void {
  let got: readonly ArrowField[];
  try {
    got = decodeSchemaMessage(header);
  } catch (error) {
    throw new ClusterError("columns of a type that is not known here", true, { cause: error });
  }
  const same =
    got.length === fields.length && fields.every((field, i) => got[i] !== undefined && samePhysical(field, got[i]));
  if (!same) {
    throw new ClusterError("columns of other types than were asked for", true);
  }
}

/** Resolves when the reader is done with the message, or has left. */
function pushed(messages: MessageQueue, message: Uint8Array): Promise<void> {
  const { signal } = messages;
  return new Promise((resolve, reject) => {
    const leave = onAbort(signal, reject);
    if (!signal.aborted) {
      messages.push(message, () => {
        leave();
        resolve();
      });
    }
  });
}

/** Runs a query on this machine instead. @param failure why */
async function passOn(
  fallback: () => Promise<QueryStream>,
  messages: MessageQueue,
  failure: ServiceError,
): Promise<QueryOutcome> {
  let stream: QueryStream | null = null;
  try {
    stream = await fallback();
    messages.begin();
    let schema = true;
    for await (const message of stream) {
      if (schema) {
        messages.push(message);
        schema = false;
      } else {
        await pushed(messages, message);
      }
    }
    return await stream.ended;
  } catch (error) {
    const ended = stream === null ? null : await stream.ended;
    const local = ended?.failure ?? toServiceError(error);
    const summary = ended?.summary ?? { rows: 0, batches: 0, bytes: 0, peakMemoryBytes: null };
    // What is too much for this machine says less than what became of the cluster.
    return { summary, failure: local.code === "PAYLOAD_TOO_LARGE" && messages.batches === 0 ? failure : local };
  }
}

function unavailable(cause?: unknown): ServiceError {
  return new ServiceError("UNAVAILABLE", "the cluster that the query needs failed, or cannot be reached", { cause });
}
