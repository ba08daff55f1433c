/** The {@link QueryBackend} of this machine: DuckDB in engine processes. */
import type { EngineLoss, JobOutcome } from "../../engine/engine-client.js";
import type { JobEnd, StepResult } from "../../engine/protocol.js";
import type { EngineLease, EngineSource } from "../../engine/supervisor.js";
import { underSignals } from "telemetry-service-client/shared/abort";
import { abortReason, ServiceError, toServiceError } from "../../runtime/errors.js";
import { encodeRows } from "../arrow/arrow-values.js";
import type { AskOptions, MatchContext, MatchResult, QueryBackend, QueryStream } from "./backend.js";
import { inspectInstance, lakeInstance, type RunSteps, serializeStep, textResult } from "./engine-instances.js";
import { analyzedPlan, drawnPlan } from "./explain.js";
import { withoutFiles } from "./files-first.js";
import { type GatedTrees, type GateThread, gateTrees, type GateWork, isLarge } from "./gate-trees.js";
import {
  type Executable,
  explainFields,
  inspect,
  inspectSets,
  type InspectOptions,
  type Inspection,
  type Inspector,
} from "./inspect.js";
import { matchRules, type MatchStatements } from "./match-rules.js";
import { MessageQueue } from "./message-queue.js";
import type { BoundParameter } from "../gate/parameters.js";
import { parseTree, type Tree } from "../gate/syntax-tree.js";
import { type QueryOutcome, type QuerySources, type ResultLimits, stepsOf } from "./run.js";
import { memoryExceeded, queryError, type Scrubber } from "./scrub.js";

/** What {@link EngineBackend} is made of. */
export interface EngineBackendOptions extends ResultLimits {
  readonly engines: EngineSource;
  readonly scrub: Scrubber;
  /** Gates large trees. Default: the thread that inspects. */
  readonly gateThread?: GateThread;
  /** Longest time of an inspection, or of matching the deny list, in milliseconds. Default 20,000. */
  readonly planningMs?: number;
}

const nothingSent = { rows: 0, batches: 0, bytes: 0, peakMemoryBytes: null };

/**
 * Asks engines. What ended with its engine, or for want of memory in one that has served others, is run once more in a
 * fresh one when nobody has seen a row of it.
 */
export class EngineBackend implements QueryBackend {
  readonly #o: EngineBackendOptions;
  readonly #statements: MatchStatements = new Map();

  constructor(o: EngineBackendOptions) {
    this.#o = o;
  }

  inspect(sql: string, ask: AskOptions, o: InspectOptions = {}): Promise<Inspection> {
    return this.#plan(ask, (inspector) => inspect(inspector, sql, o));
  }

  inspectSets(
    sql: string,
    sets: readonly (readonly BoundParameter[])[],
    ask: AskOptions,
    admin: boolean,
  ): Promise<readonly Inspection[]> {
    return this.#plan(ask, (inspector) => inspectSets(inspector, sql, sets, admin));
  }

  match(expressions: readonly string[], context: MatchContext, signal: AbortSignal): Promise<readonly MatchResult[]> {
    const { scrub } = this.#o;
    return this.#plan({ signal }, ({ run }) => matchRules(run, this.#statements, expressions, context, scrub));
  }

  /** Syntax trees of texts that have passed the gate, or are ours. @throws ServiceError */
  parse(texts: readonly string[], ask: AskOptions): Promise<readonly Tree[]> {
    return this.#plan(ask, async ({ run }) =>
      (await run(texts.map((text) => serializeStep(text)))).map((result) => parseTree(textResult(result))),
    );
  }

  run(query: Executable, sources: QuerySources, { signal, onLoss, note }: AskOptions): QueryStream {
    const messages = new MessageQueue(signal);
    return messages.stream(this.#execute(query, sources, messages, { onLoss, note }));
  }

  /** Runs something that takes an engine for a few short jobs. @throws ServiceError */
  async #plan<T>(ask: AskOptions, body: (inspector: Inspector) => Promise<T>): Promise<T> {
    const { engines, scrub, planningMs = 20_000 } = this.#o;
    const losses = new Losses(ask.onLoss);
    const attempt = async (fresh: boolean): Promise<T> => {
      let lease = await engines.lease(inspectInstance, ask.signal, fresh);
      const deadline = new AbortController();
      const timer = setTimeout(() => {
        const message = `Planning took longer than ${planningMs / 1000} seconds; make the query simpler.`;
        deadline.abort(new ServiceError("DEADLINE_EXCEEDED", message));
      }, planningMs);
      try {
        return await underSignals([ask.signal, deadline.signal], (signal) => {
          const run: RunSteps = async (steps) => {
            const used = lease.served > 0;
            let outcome = await lease.run(inspectInstance, steps, { signal });
            if (used && metMemory(outcome) && !signal.aborted) {
              lease.release();
              lease = await engines.lease(inspectInstance, signal, true);
              outcome = await lease.run(inspectInstance, steps, { signal });
            }
            if (outcome.kind === "lost") {
              losses.add(outcome.by, used && !fresh);
            }
            if (signal.aborted) {
              throw abortReason(signal);
            }
            return resultsOf(outcome);
          };
          return body({ run, gate: (work) => this.#gate(work, signal) });
        });
      } finally {
        clearTimeout(timer);
        lease.release();
      }
    };
    try {
      return await againWhenLost(attempt);
    } catch (error) {
      throw error instanceof LostEngine ? lossError(error.by) : queryError(error, scrub);
    }
  }

  async #gate(work: GateWork, signal: AbortSignal): Promise<readonly GatedTrees[]> {
    const { gateThread } = this.#o;
    if (gateThread === undefined || !isLarge(work)) {
      return gateTrees(work);
    }
    try {
      return await gateThread(work, signal);
    } catch (error) {
      throw signal.aborted ? abortReason(signal) : error;
    }
  }

  /** Runs a query into `messages`. Never rejects. */
  async #execute(
    query: Executable,
    sources: QuerySources,
    messages: MessageQueue,
    { onLoss, note }: { readonly onLoss: AskOptions["onLoss"]; readonly note: string | undefined },
  ): Promise<QueryOutcome> {
    const instance = lakeInstance(sources.directories);
    const { steps, hasFilesFirst } = stepsOf(query, sources, this.#o);
    const { signal } = messages;
    const losses = new Losses(onLoss);
    const run = (lease: EngineLease): Promise<JobOutcome> => {
      messages.begin();
      return lease.run(instance, steps, {
        signal,
        onData: (message, done) => {
          messages.push(message, done);
        },
      });
    };
    try {
      for (let fresh = false; ; fresh = true) {
        const lease = await this.#o.engines.lease(instance, signal, fresh);
        const used = lease.served > 0;
        const outcome = await run(lease).finally(() => {
          lease.release();
        });
        const again = messages.batches === 0 && !signal.aborted;
        if (outcome.kind === "ended") {
          if (again && used && metMemory(outcome)) {
            continue;
          }
          const { error } = outcome.end;
          const end = { ...outcome.end, error: error !== null && hasFilesFirst ? withoutFiles(error) : error };
          return this.#ended(query, outcome.results, end, messages, note);
        }
        losses.add(outcome.by, used);
        if (signal.aborted) {
          throw abortReason(signal);
        }
        if (!again || losses.count > 1) {
          throw lossError(outcome.by);
        }
      }
    } catch (error) {
      const failure = toServiceError(error);
      const { batches, bytes } = messages;
      return { summary: { ...nothingSent, batches, bytes }, failure };
    }
  }

  #ended(
    query: Executable,
    results: readonly StepResult[],
    end: JobEnd,
    messages: MessageQueue,
    note: string | undefined,
  ): QueryOutcome {
    const { rows, batches, bytes, peakMemoryBytes } = end;
    const summary = { rows, batches, bytes, peakMemoryBytes };
    const failure = this.#failureOf(end);
    if (failure !== null || query.explain === "none") {
      const told = failure !== null && messages.signal.aborted ? abortReason(messages.signal) : failure;
      return { summary, failure: told };
    }
    const { scrub } = this.#o;
    const plan = (results.at(-1)?.rows ?? []).map(([key, value]) => [
      String(key),
      (query.explain === "analyze" ? analyzedPlan : drawnPlan)(String(value), scrub),
    ]);
    if (note !== undefined) {
      plan.push(["engine", note]);
    }
    for (const message of encodeRows(explainFields, plan)) {
      messages.push(message);
    }
    return { summary: { ...summary, rows: plan.length }, failure: null };
  }

  #failureOf({ error, kind, truncated }: JobEnd): ServiceError | null {
    const { maxResultRows, maxResultBytes, scrub } = this.#o;
    if (truncated === true) {
      return tooLarge(`${maxResultRows} rows`, "SVC_QUERY_MAX_RESULT_ROWS");
    }
    if (error === null) {
      return null;
    }
    if (kind === "limit") {
      return tooLarge(`${maxResultBytes} bytes`, "SVC_QUERY_MAX_RESULT_BYTES");
    }
    if (kind === "cancelled") {
      return new ServiceError("CANCELLED");
    }
    if (kind === "job") {
      return jobTooLarge(error);
    }
    return queryError(new Error(error), scrub);
  }
}

/** An engine that ended in the middle of a job. */
class LostEngine extends Error {
  readonly by: EngineLoss;

  constructor(by: EngineLoss) {
    super(`an engine process ended: ${by}`);
    this.by = by;
  }
}

/** @param body told whether it needs an engine that has served nobody */
async function againWhenLost<T>(body: (fresh: boolean) => Promise<T>): Promise<T> {
  try {
    return await body(false);
  } catch (error) {
    if (!(error instanceof LostEngine)) {
      throw error;
    }
    return body(true);
  }
}

/**
 * An engine that has served others may have lost its memory to them: what failed for want of it is no verdict there.
 */
function metMemory(outcome: JobOutcome): boolean {
  return outcome.kind === "ended" && outcome.end.outOfMemory === true;
}

/** Counts the engines that one statement has ended, and tells whoever holds it against the statement. */
class Losses {
  readonly #tell: (() => void) | undefined;
  #count = 0;
  /** Losses that may be the fault of earlier jobs. */
  #doubtful = 0;

  constructor(tell: (() => void) | undefined) {
    this.#tell = tell;
  }

  get count(): number {
    return this.#count;
  }

  /** @param used the engine had served somebody before */
  add(by: EngineLoss, used: boolean): void {
    this.#count++;
    this.#doubtful++;
    if (used && by === "memory") {
      return;
    }
    // A fresh engine has ended, too, or of something else: none of them was another's fault.
    for (; this.#doubtful > 0; this.#doubtful--) {
      this.#tell?.();
    }
  }
}

/** What the steps of a job gave. @throws LostEngine; Error with DuckDB's words */
export function resultsOf(outcome: JobOutcome): readonly StepResult[] {
  if (outcome.kind === "lost") {
    throw new LostEngine(outcome.by);
  }
  const { error, kind } = outcome.end;
  if (error !== null) {
    throw kind === "job" ? jobTooLarge(error) : kind === "limit" ? treeTooLarge(error) : new Error(error);
  }
  return outcome.results;
}

/** More than travels to an engine at once. */
function jobTooLarge(cause: string): ServiceError {
  return new ServiceError(
    "PAYLOAD_TOO_LARGE",
    "The query, the names of the files that it reads and its rows of the catalogue are too many for one job; narrow it by time or by process_id, or name fewer views.",
    { cause },
  );
}

/** Of what planning asks for, only the tree of a text is as large as the caller makes it. */
function treeTooLarge(cause: string): ServiceError {
  return new ServiceError("BAD_REQUEST", "The query is too large.", { cause });
}

function lossError(by: EngineLoss): ServiceError {
  const cause = new LostEngine(by);
  switch (by) {
    case "memory":
      return memoryExceeded(cause);
    case "crash":
      return new ServiceError("INTERNAL", undefined, { cause });
    case "killed":
    case "stuck":
      return new ServiceError("UNAVAILABLE", "the query was ended with its engine", { cause });
  }
}

/** A result beyond what may be sent. @param most what that is */
export function tooLarge(most: string, option: string): ServiceError {
  return new ServiceError(
    "PAYLOAD_TOO_LARGE",
    `The result has more than ${most}, the most that this server sends for a query (${option}); narrow the query, aggregate, or add a LIMIT.`,
  );
}
