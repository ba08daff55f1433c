/**
 * The engine processes of a server: some kept warm, more as they are needed, each lent to one user at a time.
 *
 * A process is starting, idle, lent or ending. A caller gets an idle one: if possible one with its instance open, else
 * one whose instance another one has open, too. With none idle another is started, up to the limit. Of those who wait,
 * they are next whose instance has the fewest processes, and one with several leaves the last idle process to whose
 * lake is open in it: many queries of one audience do not delay one of another. Idle ones beyond the spares end after a
 * while. When a process ends, for any reason, its directory is removed, and another is started when needed.
 */
import { createHash } from "node:crypto";
import { setMaxListeners } from "node:events";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { availableParallelism } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";

import { onAbort } from "../runtime/aborts.js";
import { abortReason, ServiceError } from "../runtime/errors.js";
import type { Component } from "../runtime/lifecycle.js";
import type { Logger } from "../runtime/log/log.js";
import type { Metrics } from "../runtime/metrics.js";
import { EngineClient, type JobOptions, type JobOutcome, type UnaskedLoss } from "./engine-client.js";
import type { EngineStep, InstanceOptions } from "./protocol.js";
import { dataSegmentBytes, watchResident } from "./process-memory.js";

/** What {@link EngineSupervisor} is made of. */
export interface EngineSupervisorOptions {
  /** Most processes at a time, at least 1. */
  readonly engines: number;
  /** Idle processes that are kept ready. */
  readonly spares: number;
  /** Memory of DuckDB in one process; beside it the process may have {@link processBytes}. */
  readonly memoryBytes: number;
  /** Most disk space that one process spills into. */
  readonly tempBytes: number;
  /** Every process gets a directory below it; made when it is missing. */
  readonly tempDirectory: string;
  /** Threads of DuckDB in one process. */
  readonly threads: number;
  readonly logger: Logger;
  readonly metrics: Metrics;
  /** Milliseconds after which an idle process beyond the spares ends. Default 60,000. */
  readonly idleMs?: number;
  /** Milliseconds after which an interrupted job is killed with its process. Default 2000. */
  readonly interruptMs?: number;
  /** JavaScript file of the engine; another one in tests only. */
  readonly entry?: string;
  /** Whether the system limits the memory of a process by itself. Default: on Linux. */
  readonly systemLimits?: boolean;
}

/** The DuckDB that a job wants; what it may use is the supervisor's business. */
export type EngineInstance = Pick<InstanceOptions, "key" | "directories" | "paths" | "setup">;

/** A process that is nobody else's until it is released. */
export interface EngineLease {
  /** Jobs that the process has been given so far, by whomever: what they took of its memory may be gone for good. */
  readonly served: number;
  /** Runs a job, one at a time. Never rejects. */
  run(instance: EngineInstance, steps: readonly EngineStep[], o?: JobOptions): Promise<JobOutcome>;
  /** Gives the process back; no job may be running. Calling it again does nothing. */
  release(): void;
}

/** What a process is lent for. */
type Wanted = Pick<EngineInstance, "key" | "directories">;

/** Lends engine processes. */
export type EngineSource = Pick<EngineSupervisor, "lease">;

interface Engine {
  readonly client: EngineClient;
  readonly directory: string;
  /** Keys of its open instances: of one that reads a lake, as somebody may read it, and of one that reads no files. */
  readonly open: { lake: string | null; none: string | null };
  /** Key of the instance that it is lent for. */
  lentFor: string | null;
  /** Jobs that it has been given. */
  served: number;
  /** A job has met the end of its memory. */
  spent: boolean;
  idleSinceMs: number;
}

interface Waiter {
  readonly wanted: Wanted;
  /** It wants a process that has served nobody. */
  readonly fresh: boolean;
  readonly take: (engine: Engine) => void;
  readonly fail: (error: ServiceError) => void;
}

const readyMs = 15_000;
/** More at once would all come up later. */
const mostStarting = availableParallelism();
const firstRetryMs = 50;
const maxRetryMs = 5000;
const maxStartFailures = 3;
/** Who has as many leaves the last idle process to whose lake is open in it. */
const several = 2;
/** Another spare is started when none was idle for so long: a short query is over by then. */
const spareAfterMs = 100;
/** A process that keeps more than this share of DuckDB's memory beyond its own is not used again. */
const wornShare = 0.25;
/** What a process may take beside DuckDB's memory once it is up: V8's heap, stacks of threads, a message under way. */
const besideBytes = 200 << 20;
/**
 * Address space for the stacks that each of DuckDB's threads beyond two has in the two instances of a process. The system's
 * limit counts it, but next to nothing of it is ever memory.
 */
const stackBytes = 17 << 20;
/** What a process needs beside DuckDB's memory, from its start on. */
export const processBytes = besideBytes + (120 << 20);

/** Where an engine keeps an instance open until it opens another there (protocol.ts). */
function placeOf({ directories }: Wanted): keyof Engine["open"] {
  return directories.length > 0 ? "lake" : "none";
}

/** Keeps, lends and replaces engine processes. */
export class EngineSupervisor implements Component {
  readonly name = "engines";
  readonly #o: EngineSupervisorOptions;
  readonly #entry: string;
  readonly #idleMs: number;
  readonly #systemLimits: boolean;
  /** What the system lets a process have beside DuckDB's memory. */
  readonly #besideBytes: number;
  readonly #engines = new Set<Engine>();
  readonly #waiting = new Set<Waiter>();
  /** Starts and ends of processes, none of which rejects. */
  readonly #tracked = new Set<Promise<unknown>>();
  readonly #losses: { inc(labels: { cause: UnaskedLoss }, value?: number): void };
  readonly #timer: NodeJS.Timeout;
  readonly #removeCollector: () => void;
  readonly #stopping = new AbortController();
  #starting = 0;
  #startFailures = 0;
  #retry: NodeJS.Timeout | null = null;
  #spareTimer: NodeJS.Timeout | null = null;

  /** Starts the spares. @throws ServiceError UNAVAILABLE when no process comes up */
  static async start(o: EngineSupervisorOptions): Promise<EngineSupervisor> {
    const supervisor = new EngineSupervisor(o);
    const failures = await Promise.all(Array.from({ length: Math.min(o.spares, o.engines) }, () => supervisor.#add()));
    const failure = failures.find((error) => error !== null);
    if (failure === undefined) {
      return supervisor;
    }
    await supervisor.stop();
    throw new ServiceError("UNAVAILABLE", "the engine processes cannot be started", {
      cause: failure,
    });
  }

  private constructor(o: EngineSupervisorOptions) {
    this.#o = o;
    this.#entry = o.entry ?? fileURLToPath(new URL("./engine-process.js", import.meta.url));
    this.#idleMs = o.idleMs ?? 60_000;
    this.#systemLimits = o.systemLimits ?? process.platform === "linux";
    this.#besideBytes = besideBytes + Math.max(0, o.threads - 2) * stackBytes;
    setMaxListeners(0, this.#stopping.signal);
    const { metrics } = o;
    const up = metrics.gauge("query_engines", "Engine processes by state", ["state"]);
    this.#losses = metrics.counter(
      "query_engine_losses_total",
      "Engine processes that ended unasked, or had to be killed because an interrupted query did not end (stuck)",
      ["cause"],
    );
    // An alert does not see the step from nothing to 1.
    for (const cause of ["memory", "stuck", "crash"] as const) {
      this.#losses.inc({ cause }, 0);
    }
    this.#removeCollector = metrics.onCollect(() => {
      const idle = this.#idle().length;
      up.set({ state: "idle" }, idle);
      up.set({ state: "lent" }, this.#engines.size - idle);
      up.set({ state: "starting" }, this.#starting);
    });
    this.#timer = setInterval(() => {
      this.#endIdle();
    }, this.#idleMs / 4);
    this.#timer.unref();
  }

  /** False while processes cannot be started. */
  get healthy(): boolean {
    return this.#startFailures < maxStartFailures;
  }

  get #stopped(): boolean {
    return this.#stopping.signal.aborted;
  }

  /** Processes that are lent. */
  get lent(): number {
    return this.#engines.size - this.#idle().length;
  }

  /** Identifiers of the processes that are up. */
  get pids(): readonly number[] {
    return [...this.#engines].map(({ client }) => client.pid);
  }

  /**
   * Lends a process, if there is one with that instance open.
   * @param fresh it has served nobody yet
   * @throws ServiceError UNAVAILABLE when none can be started, or the server stops; CANCELLED
   */
  async lease(wanted: Wanted, signal: AbortSignal, fresh = false): Promise<EngineLease> {
    const engine = await this.#take(wanted, signal, fresh);
    this.#keepSpares();
    let released = false;
    return {
      get served() {
        return engine.served;
      },
      run: (instance, steps, o) => this.#run(engine, instance, steps, o),
      release: () => {
        if (released) {
          return;
        }
        released = true;
        if (!engine.spent && this.#isWorn(engine)) {
          this.#track(this.#freeTidied(engine));
        } else {
          this.#free(engine);
        }
      },
    };
  }

  /** Ends every process, whatever it does. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    clearInterval(this.#timer);
    clearTimeout(this.#retry ?? undefined);
    clearTimeout(this.#spareTimer ?? undefined);
    this.#removeCollector();
    this.#failWaiting(new ServiceError("UNAVAILABLE", "the server is stopping"));
    for (const { client, lentFor } of this.#engines) {
      if (lentFor === null) {
        client.close();
      } else {
        client.kill("killed");
      }
    }
    while (this.#tracked.size > 0) {
      await Promise.all(this.#tracked);
    }
  }

  async #run(
    engine: Engine,
    instance: EngineInstance,
    steps: readonly EngineStep[],
    o: JobOptions | undefined,
  ): Promise<JobOutcome> {
    const { client, open, directory } = engine;
    open[placeOf(instance)] = instance.key;
    const options: InstanceOptions = {
      ...instance,
      memoryBytes: this.#o.memoryBytes,
      tempBytes: this.#o.tempBytes,
      threads: this.#o.threads,
      // Two instances in one directory would overwrite each other's files.
      tempDirectory: path.join(directory, createHash("sha256").update(instance.key).digest("hex").slice(0, 16)),
    };
    const watch = this.#systemLimits
      ? null
      : watchResident(client.pid, this.#o.memoryBytes + processBytes, () => {
          client.kill("memory");
        });
    engine.served++;
    const outcome = await client.run({ instance: options, steps }, o);
    watch?.stop();
    if (outcome.kind === "ended" && outcome.end.outOfMemory === true) {
      engine.spent = true;
    }
    return outcome;
  }

  #take(wanted: Wanted, signal: AbortSignal, fresh: boolean): Promise<Engine> {
    if (this.#stopped) {
      return Promise.reject(new ServiceError("UNAVAILABLE", "the server is stopping"));
    }
    const { key } = wanted;
    const idle = this.#idle();
    const fit = fresh ? idle.filter(({ served }) => served === 0) : idle;
    const place = placeOf(wanted);
    const isElsewhere = ({ open }: Engine): boolean => this.#count((one) => one.open[place] === open[place]) > 1;
    const best =
      fit.find(({ open }) => open[place] === key) ??
      fit.find(({ open }) => open[place] === null) ??
      fit.find(isElsewhere) ??
      fit[0];
    if (best !== undefined && !(idle.length === 1 && this.#leaves(best, wanted, this.#lentFor(key)))) {
      best.lentFor = key;
      return Promise.resolve(best);
    }
    return new Promise((resolve, reject) => {
      if (signal.aborted) {
        reject(abortReason(signal));
        return;
      }
      const done = (): void => {
        this.#waiting.delete(waiter);
        leave();
      };
      const waiter: Waiter = {
        wanted,
        fresh,
        take: (engine) => {
          done();
          engine.lentFor = key;
          resolve(engine);
        },
        fail: (error) => {
          done();
          reject(error);
        },
      };
      const leave = onAbort(signal, waiter.fail);
      this.#waiting.add(waiter);
      const [oldest] = idle;
      if (fresh && oldest !== undefined && this.#full) {
        this.#retire(oldest);
      } else {
        this.#startWanted();
      }
    });
  }

  /** Idle processes, those that have been idle for the longest first. */
  #idle(): Engine[] {
    return [...this.#engines].filter(({ lentFor }) => lentFor === null).sort((a, b) => a.idleSinceMs - b.idleSinceMs);
  }

  /** Processes that are lent for an instance. */
  #lentFor(key: string): number {
    return this.#count(({ lentFor }) => lentFor === key);
  }

  #count(is: (engine: Engine) => boolean): number {
    return [...this.#engines].filter(is).length;
  }

  /** Whether one who has `lent` processes waits for another than this one, which is the last that is idle. */
  #leaves({ open: { lake } }: Engine, wanted: Wanted, lent: number): boolean {
    const canStart = this.#engines.size < this.#o.engines && this.#startFailures === 0 && this.#retry === null;
    return canStart && lent >= several && placeOf(wanted) === "lake" && lake !== null && lake !== wanted.key;
  }

  /** Those who wait with what they have, in the order in which they are served. */
  #queue(): { readonly waiter: Waiter; readonly lent: number }[] {
    return [...this.#waiting]
      .map((waiter) => ({ waiter, lent: this.#lentFor(waiter.wanted.key) }))
      .sort((a, b) => a.lent - b.lent);
  }

  /** Gives an idle process to who is next, if anyone waits; where there can be no more, it gives way to one that suits. */
  #serve(engine: Engine): void {
    let starting = this.#starting;
    const isLast = this.#idle().length === 1;
    for (const { waiter, lent } of this.#queue()) {
      if (isLast && this.#leaves(engine, waiter.wanted, lent)) {
        continue;
      }
      if (!waiter.fresh || engine.served === 0) {
        waiter.take(engine);
        return;
      }
      // He gets one of those that come up, or will.
      if (--starting >= 0 || !this.#full || this.#retry !== null) {
        continue;
      }
      this.#retire(engine);
      return;
    }
  }

  /** Starts what is wanted, and gives away what was kept for others and need not be any more. */
  #serveIdle(): void {
    this.#startWanted();
    for (const engine of this.#idle()) {
      this.#serve(engine);
    }
  }

  /** Whether there are as many processes as there may be. */
  get #full(): boolean {
    return this.#engines.size + this.#starting >= this.#o.engines;
  }

  /** After a while, because most queries are over by then and leave their process to the next. */
  #keepSpares(): void {
    if (this.#spareTimer !== null || this.#idle().length >= this.#o.spares) {
      return;
    }
    this.#spareTimer = setTimeout(() => {
      this.#spareTimer = null;
      this.#startWanted();
    }, spareAfterMs);
  }

  /** Starts as many as are waited for or missing among the spares. */
  #startWanted(): void {
    if (this.#stopped || this.#retry !== null) {
      return;
    }
    const spares = this.#spareTimer === null ? this.#o.spares : 0;
    // What runs already needs the processor more than those who have several.
    const most = this.#queue().some(({ lent }) => lent < several) ? mostStarting : Math.max(1, mostStarting >> 1);
    const wanted = Math.min(most, Math.max(this.#waiting.size, spares - this.#idle().length));
    while (this.#starting < wanted && !this.#full) {
      this.#track(this.#add());
    }
  }

  #track(work: Promise<unknown>): void {
    const tracked = work.finally(() => {
      this.#tracked.delete(tracked);
    });
    this.#tracked.add(tracked);
  }

  /** Starts a process. Returns why it did not come up, else null. Never rejects. */
  async #add(): Promise<Error | null> {
    this.#starting++;
    let directory: string | null = null;
    let client: EngineClient;
    try {
      // Who cleans temporary directories may have taken it.
      await mkdir(this.#o.tempDirectory, { recursive: true });
      directory = await mkdtemp(path.join(this.#o.tempDirectory, "engine-"));
      client = await EngineClient.start({
        entry: this.#entry,
        directory,
        dataBytes: this.#systemLimits ? this.#o.memoryBytes + this.#besideBytes : null,
        readyMs,
        interruptMs: this.#o.interruptMs ?? 2000,
        signal: this.#stopping.signal,
      });
    } catch (error) {
      this.#starting--;
      if (directory !== null) {
        await rm(directory, { recursive: true }).catch(() => undefined);
      }
      const failure = error instanceof Error ? error : new Error(String(error));
      this.#failed(failure);
      return failure;
    }
    this.#starting--;
    this.#startFailures = 0;
    const engine: Engine = {
      client,
      directory,
      open: { lake: null, none: null },
      lentFor: null,
      served: 0,
      spent: false,
      idleSinceMs: performance.now(),
    };
    this.#engines.add(engine);
    this.#track(this.#follow(engine));
    if (this.#stopped) {
      client.close();
    } else {
      this.#serve(engine);
      this.#serveIdle();
    }
    return null;
  }

  /** What follows the end of a process. Never rejects. */
  async #follow(engine: Engine): Promise<void> {
    const by = await engine.client.ended;
    this.#engines.delete(engine);
    if (by !== "killed") {
      this.#losses.inc({ cause: by });
      this.#o.logger.warn(
        { cause: by, pid: engine.client.pid, exit: engine.client.exit, said: engine.client.errorText },
        by === "stuck"
          ? "an engine process was killed: what it ran did not end when asked to"
          : "an engine process ended",
      );
    }
    this.#serveIdle();
    await rm(engine.directory, { recursive: true, force: true }).catch((error: unknown) => {
      this.#o.logger.warn({ err: error }, "the directory of an engine process stays behind");
    });
  }

  #failed(error: Error): void {
    if (this.#stopped) {
      return;
    }
    this.#startFailures++;
    this.#o.logger.error(
      { err: error, failuresInARow: this.#startFailures },
      "an engine process cannot be started; trying again",
    );
    if (!this.healthy) {
      // Processes that are up come to all who do not want a fresh one.
      const onlyFresh = this.#engines.size > 0;
      this.#failWaiting(new ServiceError("UNAVAILABLE", "the engine processes cannot be started"), onlyFresh);
    }
    const delayMs = Math.min(maxRetryMs, firstRetryMs * 2 ** (this.#startFailures - 1));
    this.#retry ??= setTimeout(() => {
      this.#retry = null;
      this.#serveIdle();
    }, delayMs);
    this.#retry.unref();
  }

  #failWaiting(error: ServiceError, onlyFresh = false): void {
    for (const waiter of this.#waiting) {
      if (waiter.fresh || !onlyFresh) {
        waiter.fail(error);
      }
    }
  }

  #endIdle(): void {
    const idle = this.#idle();
    const longestMs = performance.now() - this.#idleMs;
    for (const engine of idle.slice(0, Math.max(0, idle.length - this.#o.spares))) {
      if (engine.idleSinceMs > longestMs) {
        return;
      }
      this.#retire(engine);
    }
  }

  /** Waits first: it may be giving back what its last job took. Never rejects. */
  async #freeTidied(engine: Engine): Promise<void> {
    await engine.client.tidied();
    this.#free(engine);
  }

  /** A lent process is so no more. */
  #free(engine: Engine): void {
    engine.lentFor = null;
    engine.idleSinceMs = performance.now();
    if (engine.client.gone || this.#stopped) {
      return;
    }
    if (engine.spent || this.#isWorn(engine)) {
      this.#retire(engine);
    } else {
      this.#serve(engine);
    }
  }

  /** Address space counts, used or not. The next user should not pay for the last. */
  #isWorn({ client }: Engine): boolean {
    const limit = client.ownBytes + this.#o.memoryBytes * wornShare + this.#besideBytes;
    return this.#systemLimits && dataSegmentBytes(client.pid) > limit;
  }

  /** Ends an idle process, which can no longer be lent. */
  #retire(engine: Engine): void {
    this.#engines.delete(engine);
    engine.client.close();
    this.#startWanted();
  }
}
