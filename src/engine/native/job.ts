/** One job: its statements in order on a connection of its own. */
import type { EngineJob, EngineStep, InstanceOptions, JobEnd, StepResult } from "../protocol.js";
import { type Connection, DuckDbError, type Native, type Result, type Statement } from "./connection.js";
import { describe } from "./describe.js";
import { computeAhead, Instance } from "./instance.js";
import type { Pointer } from "./library.js";
import { startPeakMemory } from "../peak-memory.js";
import { readRows } from "./rows.js";
import { RowFunction } from "./row-function.js";
import {
  LimitError,
  type MessageSink,
  type StreamedCounts,
  streamInPlace,
  streamResult,
  type StreamStep,
} from "./stream.js";
import { bindValues } from "./values.js";

/** What a job sends and receives. */
export interface JobPort extends MessageSink {
  result(result: StepResult): void;
  /** Whether the job has been given up. */
  readonly interrupted: boolean;
  /** Names the connection that an interrupt is for; 0: none. */
  serve(connection: Pointer): void;
}

/** Instances that reach files, for all threads and for one, and one that reaches none. */
const places = ["files", "inPlace", "none"] as const;
type Place = (typeof places)[number];

/** The instances of an engine. */
export class Instances {
  readonly rows: RowFunction;
  readonly #native: Native;
  readonly #open: Record<Place, Instance | null> = { files: null, inPlace: null, none: null };

  constructor(native: Native) {
    this.#native = native;
    this.rows = new RowFunction(native);
  }

  /** @param inPlace for rows that are taken in place. @throws DuckDbError */
  get(options: InstanceOptions, inPlace: boolean): Instance {
    const place = inPlace ? "inPlace" : options.directories.length + options.paths.length > 0 ? "files" : "none";
    const present = this.#open[place];
    if (present?.key === options.key) {
      return present;
    }
    if (place === "none") {
      this.#drop("none");
    } else {
      // The files of one caller at a time.
      this.#dropOthers(options.key);
    }
    const opened = Instance.open(this.#native, options, inPlace ? this.rows : null);
    this.#open[place] = opened;
    return opened;
  }

  /** Closes one that can no longer be used. */
  discard(instance: Instance): void {
    for (const place of places) {
      if (this.#open[place] === instance) {
        this.#drop(place);
      }
    }
  }

  closeAll(): void {
    for (const place of places) {
      this.#drop(place);
    }
  }

  #dropOthers(key: string): void {
    for (const place of ["files", "inPlace"] as const) {
      if (this.#open[place]?.key !== key) {
        this.#drop(place);
      }
    }
  }

  #drop(place: Place): void {
    this.#open[place]?.close();
    this.#open[place] = null;
  }
}

/**
 * Runs a job. Every failure is part of what it returns.
 * @returns how it ended, and what closes its connection: nobody has to wait for that
 */
export function runJob(
  instances: Instances,
  { instance: options, steps }: EngineJob,
  port: JobPort,
): { readonly end: JobEnd; readonly tidyUp: () => void } {
  const peakMemory = startPeakMemory();
  const counts: StreamedCounts = { rows: 0, batches: 0, bytes: 0, truncated: false };
  const troubles: Troubles = { broken: false, outOfMemory: false };
  let failure: unknown = null;
  let tidyUp = (): void => undefined;
  try {
    const instance = instances.get(options, steps.some(isInPlace));
    const connection = instance.connect();
    tidyUp = (): void => {
      connection.close();
      // It may refuse everything that follows.
      if (troubles.broken) {
        instances.discard(instance);
      } else {
        instance.prepareNext();
      }
    };
    try {
      port.serve(connection.handle);
      for (const step of steps) {
        if (port.interrupted) {
          throw new DuckDbError("INTERRUPT Error: Interrupted!");
        }
        if (step.kind === "stream") {
          stream(connection, step, port, counts, instances.rows);
        } else {
          runStep(connection, step, port, troubles);
        }
      }
    } catch (error) {
      failure = error;
    } finally {
      port.serve(0);
    }
  } catch (error) {
    failure = error;
  }
  note(troubles, failure);
  const { truncated, ...sent } = counts;
  const end: JobEnd = {
    ...outcome(failure, port.interrupted),
    ...sent,
    peakMemoryBytes: peakMemory(),
    ...(truncated ? { truncated } : {}),
    ...(troubles.outOfMemory ? { outOfMemory: true } : {}),
  };
  return { end, tidyUp };
}

/** What was wrong with the engine, not with a statement. */
interface Troubles {
  /** DuckDB found a defect of its own. */
  broken: boolean;
  outOfMemory: boolean;
}

function note(troubles: Troubles, failure: unknown): void {
  const message = messageOf(failure);
  if (/^(?:FATAL|INTERNAL) Error/u.test(message)) {
    troubles.broken = true;
  }
  if (message.startsWith("Out of Memory Error")) {
    troubles.outOfMemory = true;
  }
}

function outcome(failure: unknown, interrupted: boolean): Pick<JobEnd, "error" | "kind"> {
  if (failure === null) {
    return { error: null };
  }
  const kind = interrupted ? "cancelled" : failure instanceof LimitError ? "limit" : "duckdb";
  return { error: messageOf(failure), kind };
}

function messageOf(failure: unknown): string {
  if (failure === null) {
    return "";
  }
  if (failure instanceof DuckDbError || failure instanceof LimitError) {
    return failure.message;
  }
  if (failure instanceof RangeError && /allocation failed/u.test(failure.message)) {
    return "Out of Memory Error: no room for a message";
  }
  return `INTERNAL Error: ${failure instanceof Error ? failure.message : "unknown"}`;
}

function isInPlace(step: EngineStep): boolean {
  return step.kind === "stream" && step.inPlace === true;
}

function runStep(
  connection: Connection,
  step: Exclude<EngineStep, StreamStep>,
  port: JobPort,
  troubles: Troubles,
): void {
  switch (step.kind) {
    case "execute":
      port.result({ changed: execute(connection, step, port) });
      return;
    case "describe":
      port.result(describe(connection, step.sql));
      return;
    case "rows":
      port.result(rows(connection, step, port, troubles));
  }
}

function execute(connection: Connection, step: Extract<EngineStep, { kind: "execute" }>, port: JobPort): number {
  const run = (sql: string): number =>
    step.values === undefined
      ? connection.run(sql)
      : withResult(connection, { ...step, sql }, port, "all", (result) => result.changed());
  try {
    return run(step.sql);
  } catch (error) {
    return run(otherText(step, error));
  }
}

function stream(
  connection: Connection,
  step: StreamStep,
  port: JobPort,
  counts: StreamedCounts,
  rows: RowFunction,
): void {
  let begun = false;
  const sink: MessageSink = {
    slots: port.slots,
    send: (frame) => {
      begun = true;
      port.send(frame);
    },
  };
  const run = (sql: string): void => {
    const start = (text: string, use: (result: Result) => void): void => {
      withResult(connection, { ...step, sql: text }, port, "stream", use);
    };
    if (isInPlace(step)) {
      streamInPlace(
        connection,
        rows,
        (use) => {
          start(RowFunction.of(sql), use);
        },
        step,
        sink,
        counts,
      );
    } else {
      start(sql, (result) => {
        streamResult(connection, result, step, sink, counts);
      });
    }
  };
  try {
    run(step.sql);
  } catch (error) {
    // Functions may fail so in the middle of a result.
    if (begun) {
      throw error;
    }
    run(otherText(step, error));
  }
}

/** What is tried when a text does not fit to what it reads. @throws the error when that is not what it says */
function otherText({ orElse }: { readonly orElse?: string }, error: unknown): string {
  if (orElse === undefined || !messageOf(error).startsWith("Binder Error")) {
    throw error;
  }
  return orElse;
}

/** What DuckDB says of a defect of its own ends with where in its code that was. */
function withoutTrace(message: string): string {
  return message.split("\n\nStack Trace:", 1).join();
}

function rows(
  connection: Connection,
  step: Extract<EngineStep, { kind: "rows" }>,
  port: JobPort,
  troubles: Troubles,
): StepResult {
  try {
    return {
      rows: withResult(connection, step, port, "stream", (result) => readRows(connection, result, step.maxBytes)),
    };
  } catch (error) {
    if (step.optional !== true || !(error instanceof DuckDbError)) {
      throw error;
    }
    note(troubles, error);
    return { error: withoutTrace(error.message) };
  }
}

/** Prepares, binds and starts a statement, and closes it after `use`. */
function withResult<T>(
  connection: Connection,
  step: Extract<EngineStep, { kind: "execute" | "rows" | "stream" }>,
  port: JobPort,
  mode: "stream" | "all",
  use: (result: Result) => T,
): T {
  const statement = connection.prepare(step.sql);
  try {
    bindValues(connection, statement, step.values ?? []);
    if (step.kind === "stream" && step.ahead !== undefined) {
      computeAhead(connection, step.ahead);
    }
    const result = statement.execute(mode);
    try {
      return use(result);
    } finally {
      result.close();
    }
  } catch (error) {
    // One thread interrupts no other.
    if (isInterrupt(error) && !port.interrupted && !isInPlace(step)) {
      throw reasonOf(connection, statement, port) ?? error;
    }
    throw error;
  } finally {
    statement.close();
  }
}

function isInterrupt(error: unknown): boolean {
  return error instanceof DuckDbError && error.message.startsWith("INTERRUPT Error");
}

/** Often enough: one in twenty is lost. */
const reasonTries = 3;

/**
 * DuckDB interrupts its other threads when one fails, and now and then tells of the interrupt instead of the failure.
 * So the statement is computed once more, for the reason alone. @returns null when nothing tells it
 */
function reasonOf({ native }: Connection, statement: Statement, port: JobPort): DuckDbError | null {
  for (let tries = 0; tries < reasonTries && !port.interrupted; tries++) {
    try {
      const result = statement.execute("stream");
      try {
        for (let chunk = result.fetch(); chunk !== 0; chunk = result.fetch()) {
          native.duckdb.destroy_data_chunk(native.memory.box(chunk));
        }
      } finally {
        result.close();
      }
    } catch (error) {
      if (error instanceof DuckDbError && !isInterrupt(error)) {
        return error;
      }
    }
  }
  return port.interrupted ? null : new DuckDbError("INTERNAL Error: the statement failed, and DuckDB did not say why");
}
