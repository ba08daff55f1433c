/** One engine process as the server sees it: started, given jobs, interrupted, killed. */
import { type ChildProcess, spawn } from "node:child_process";
import { readdirSync } from "node:fs";
import { setPriority } from "node:os";
import { Duplex } from "node:stream";

import { asBuffer } from "telemetry-service-client/shared/as-buffer";
import { readFrames } from "./frame-stream.js";
import { decodeNumber, encodeFrame, encodeJsonFrame, encodeNumberFrame, FrameReader } from "./frames.js";
import { MessageSlots } from "./message-slots.js";
import { dataSegmentBytes, limitDataSegment } from "./process-memory.js";
import { type EngineJob, frameKinds, type JobEnd, maxJobBytes, messagesAhead, type StepResult } from "./protocol.js";

/** How a process is started. */
interface EngineClientOptions {
  /** JavaScript file of the engine. */
  readonly entry: string;
  /** Exists; the process spills below it and has nothing else that is its own. */
  readonly directory: string;
  /**
   * Most memory that the process may ask the system for (RLIMIT_DATA) beyond what it has when it is up, in bytes. Null:
   * no limit of the system's.
   */
  readonly dataBytes: number | null;
  /** A process that takes longer to say hello, or to remove what a job left behind, is killed; in milliseconds. */
  readonly readyMs: number;
  /** An interrupted job that has not ended by then is killed with its process, in milliseconds. */
  readonly interruptMs: number;
  /** Ends a process that is not up yet when it is aborted. */
  readonly signal?: AbortSignal;
}

/**
 * Why a process ended: the system refused it memory, it was ended from here, also because an interrupted job did not end
 * (`stuck`), or it crashed.
 */
export type EngineLoss = UnaskedLoss | "killed";
/** One that nobody asked for. */
export type UnaskedLoss = "memory" | "stuck" | "crash";

/** How a job ended: in order, or with its process. */
export type JobOutcome =
  | { readonly kind: "ended"; readonly results: readonly StepResult[]; readonly end: JobEnd }
  | { readonly kind: "lost"; readonly by: EngineLoss };

/**
 * Told about each FlightData message. A few come at once, and one more for each that is done with.
 * @param done to be called when the message is no longer read: its memory is used again. Once the job has ended, or is
 *   given up, it does nothing
 */
export type OnData = (message: Uint8Array<ArrayBuffer>, done: () => void) => void;

/** How a job is run. */
export interface JobOptions {
  /** Interrupts the job when it is aborted. */
  readonly signal?: AbortSignal | undefined;
  readonly onData?: OnData;
}

interface RunningJob {
  readonly results: StepResult[];
  /** Messages that were handed over and are not credited yet, in their order. */
  readonly held: { released: boolean }[];
  readonly onData: OnData | undefined;
  readonly settle: (outcome: JobOutcome) => void;
}

/** Lower than ingestion's: its requests go before queries. */
const niceness = 5;
/** A row of a result may be large; this is not a limit that anyone meets. */
const maxFrameBytes = 1 << 30;
const maxErrorText = 4096;
/**
 * Its memory reducer gives back memory of the young generation once a process is idle, and V8 ends the process when it
 * does not get it again. DuckDB may have all that there is at that moment, and go on.
 */
const v8Flags = ["--no-memory-reducer"];
/** What the shared memory is in the engine: it comes behind the stream. */
const slotsFd = 4;

/**
 * States: starting -> idle <-> busy -> ended, and from each -> ended.
 *
 * - starting: spawned; it says hello when DuckDB is loaded.
 * - busy: one job runs. Its data comes as fast as it is given credits.
 * - ended: the process has gone and everything it wrote has been read. A job that it had is lost.
 *
 * The process has no environment, no files of the server's and one stream: descriptor 3, whose end is its end, so
 * that it never outlives the server.
 */
export class EngineClient {
  /** Resolves when the process has gone. */
  readonly ended: Promise<EngineLoss>;
  readonly #o: EngineClientOptions;
  readonly #child: ChildProcess;
  readonly #stream: Duplex;
  readonly #slots: MessageSlots | null;
  #job: RunningJob | null = null;
  #onStarted: (up: boolean) => void = () => undefined;
  #killedFor: EngineLoss | null = null;
  #gone = false;
  #closing: NodeJS.Timeout | undefined;
  #errorText = "";
  #ownBytes = 0;
  /** Those who wait for its answers, in the order in which they asked. */
  readonly #onTidied: (() => void)[] = [];

  /** Starts a process. @throws Error when it does not come up, or its start is given up */
  static async start(o: EngineClientOptions): Promise<EngineClient> {
    o.signal?.throwIfAborted();
    const engine = new EngineClient(o);
    const up = await new Promise<boolean>((resolve) => {
      const giveUp = (): void => {
        engine.kill("killed");
      };
      const late = setTimeout(() => {
        engine.#errorText ||= `it is not ready after ${o.readyMs / 1000} s`;
        giveUp();
      }, o.readyMs);
      o.signal?.addEventListener("abort", giveUp, { once: true });
      engine.#onStarted = (started) => {
        clearTimeout(late);
        o.signal?.removeEventListener("abort", giveUp);
        resolve(started);
      };
    });
    if (up) {
      return engine;
    }
    throw new Error(`an engine process does not start: ${engine.#errorText}`);
  }

  private constructor(o: EngineClientOptions) {
    this.#o = o;
    // The shell is replaced by the engine.
    const script = 'unset PWD OLDPWD; ulimit -c 0; exec "$0" "$@"';
    const shared = MessageSlots.create();
    const [slotsFds, slotsArgs] = shared === null ? [[], []] : [[shared.fd], [String(slotsFd)]];
    let child: ChildProcess;
    try {
      child = spawn("/bin/sh", ["-c", script, process.execPath, ...v8Flags, o.entry, ...slotsArgs], {
        cwd: o.directory,
        env: {},
        stdio: ["ignore", "ignore", "pipe", "pipe", ...slotsFds],
      });
    } finally {
      shared?.close();
    }
    this.#slots = shared?.slots ?? null;
    this.#child = child;
    this.ended = new Promise((resolve) => {
      child.on("error", (error) => {
        this.#errorText ||= error.message;
        // It never started, so no event reports its end.
        if (child.pid === undefined) {
          resolve(this.#end("crash"));
        }
      });
      child.on("close", (code: number | null, signal: NodeJS.Signals | null) => {
        resolve(this.#end(this.#killedFor ?? lossOf(code, signal, this.#errorText)));
      });
    });
    child.stderr?.on("data", (chunk: Buffer) => {
      this.#errorText = `${this.#errorText}${chunk.toString()}`.slice(-maxErrorText);
    });
    const stream = (child.stdio as ChildProcess["stdio"] | undefined)?.[3];
    if (!(stream instanceof Duplex)) {
      // EMFILE or ENFILE; the event that says so comes later.
      throw new Error("an engine process does not start: too many files are open");
    }
    const reader = new FrameReader(maxFrameBytes, (kind, payload) => {
      this.#frame(kind, payload);
    });
    this.#stream = readFrames(stream, reader, () => {
      // It does not keep to the protocol.
      this.kill("crash");
    });
    // Its end, which `close` tells; a write to a process that has gone is no error of anyone's.
    this.#stream.on("error", () => undefined);
  }

  /** What the process last said on its standard error; for the log. */
  get errorText(): string {
    return this.#errorText;
  }

  /** The signal that ended the process, or its exit code; null as long as it is there. */
  get exit(): NodeJS.Signals | number | null {
    return this.#child.signalCode ?? this.#child.exitCode;
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  /** Bytes of its data segment when it came up: V8 reserves address space, half a gigabyte a thread from Node.js 24 on. */
  get ownBytes(): number {
    return this.#ownBytes;
  }

  /** Whether the process has gone. */
  get gone(): boolean {
    return this.#gone;
  }

  /** Resolves when the process has given back what its jobs left behind, or has gone. */
  async tidied(): Promise<void> {
    if (this.#gone) {
      return;
    }
    this.#stream.write(encodeFrame(frameKinds.tidied, new Uint8Array(0)));
    const late = setTimeout(() => {
      this.kill("killed");
    }, this.#o.readyMs);
    await new Promise<void>((resolve) => this.#onTidied.push(resolve));
    clearTimeout(late);
  }

  /** Runs a job, one at a time. Never rejects. */
  run(job: EngineJob, { signal, onData }: JobOptions = {}): Promise<JobOutcome> {
    if (this.#gone) {
      return Promise.resolve({ kind: "lost", by: "crash" });
    }
    const frame = encodeJsonFrame(frameKinds.job, job);
    if (frame.length > maxJobBytes) {
      return Promise.resolve(tooLarge(frame.length));
    }
    return new Promise((resolve) => {
      let grace: NodeJS.Timeout | undefined;
      const interrupt = (): void => {
        this.#stream.write(encodeFrame(frameKinds.interrupt, new Uint8Array(0)));
        grace = setTimeout(() => {
          this.kill("stuck");
        }, this.#o.interruptMs);
      };
      this.#job = {
        results: [],
        held: [],
        onData,
        settle: (outcome) => {
          this.#job = null;
          clearTimeout(grace);
          signal?.removeEventListener("abort", interrupt);
          resolve(outcome);
        },
      };
      this.#stream.write(frame);
      if (onData !== undefined) {
        this.#credit(messagesAhead);
      }
      if (signal?.aborted === true) {
        interrupt();
      } else {
        signal?.addEventListener("abort", interrupt, { once: true });
      }
    });
  }

  /** Ends an idle process, in order if it can. */
  close(): void {
    this.#killedFor ??= "killed";
    this.#stream.destroy();
    this.#closing = setTimeout(() => {
      this.kill("killed");
    }, this.#o.interruptMs);
  }

  /** Ends the process at once. */
  kill(reason: EngineLoss): void {
    if (this.#gone) {
      return;
    }
    this.#killedFor ??= reason;
    this.#child.kill("SIGKILL");
  }

  /** @throws Error when it cannot be limited */
  #limitMemory(): void {
    this.#ownBytes = dataSegmentBytes(this.pid);
    if (this.#o.dataBytes !== null) {
      limitDataSegment(this.pid, this.#ownBytes + this.#o.dataBytes);
    }
  }

  #frame(kind: number, payload: Uint8Array<ArrayBuffer>): void {
    const job = this.#job;
    switch (kind) {
      case frameKinds.hello:
        this.#limitMemory();
        // Not before: who waits for a process should not wait for those that compute.
        lowerPriority(this.pid);
        this.#onStarted(true);
        return;
      case frameKinds.data:
        this.#hand(payload);
        return;
      case frameKinds.slot: {
        const message = this.#slots?.message(decodeNumber(payload), decodeNumber(payload, 1));
        if (message === undefined) {
          throw new RangeError("a message in memory that is not shared");
        }
        this.#hand(message);
        return;
      }
      case frameKinds.result:
        job?.results.push(parse(payload) as StepResult);
        return;
      case frameKinds.end:
        job?.settle({ kind: "ended", results: job.results, end: parse(payload) as JobEnd });
        return;
      case frameKinds.tidied:
        this.#onTidied.shift()?.();
        return;
      default:
        throw new RangeError(`a frame of an unknown kind: ${kind}`);
    }
  }

  /**
   * Hands a message over. Slots are used in turn, so one is credited when those before it are. What is done with it after
   * its job says nothing about the slots of the next job.
   */
  #hand(message: Uint8Array<ArrayBuffer>): void {
    const job = this.#job;
    if (job === null) {
      return;
    }
    const { held } = job;
    const one = { released: false };
    held.push(one);
    job.onData?.(message, () => {
      one.released = true;
      const first = held.findIndex(({ released }) => !released);
      const released = held.splice(0, first === -1 ? held.length : first).length;
      if (released > 0 && this.#job === job) {
        this.#credit(released);
      }
    });
  }

  /** Allows this many more messages of the present job. */
  #credit(messages: number): void {
    this.#stream.write(encodeNumberFrame(frameKinds.credit, messages));
  }

  #end(by: EngineLoss): EngineLoss {
    this.#gone = true;
    for (const resolve of this.#onTidied.splice(0)) {
      resolve();
    }
    this.#onStarted(false);
    clearTimeout(this.#closing);
    this.#job?.settle({ kind: "lost", by });
    return by;
  }
}

/** An engine would take it for noise. */
function tooLarge(bytes: number): JobOutcome {
  const error = `the job has ${bytes} bytes, more than ${maxJobBytes}`;
  const end = { error, kind: "job", rows: 0, batches: 0, bytes: 0, peakMemoryBytes: null } as const;
  return { kind: "ended", results: [], end };
}

function parse(payload: Uint8Array): unknown {
  return JSON.parse(asBuffer(payload).toString());
}

function lowerPriority(pid: number): void {
  for (const id of threadsOf(pid)) {
    try {
      setPriority(id, niceness);
    } catch {
      // It has gone already, which its exit tells, or the system does not let us: it runs as it is.
    }
  }
}

/** On Linux each thread has a priority, which those that it starts inherit; elsewhere the process has one. */
function threadsOf(pid: number): readonly number[] {
  try {
    return readdirSync(`/proc/${pid}/task`).map(Number);
  } catch {
    return [pid];
  }
}

/** How V8, the C++ library and the kernel end a process that gets no memory. */
function lossOf(code: number | null, signal: NodeJS.Signals | null, text: string): EngineLoss {
  if (signal === "SIGABRT" || signal === "SIGKILL" || signal === "SIGTRAP") {
    return "memory";
  }
  if (code === 134 || /out of memory|bad_alloc|cannot allocate/iu.test(text)) {
    return "memory";
  }
  return "crash";
}
