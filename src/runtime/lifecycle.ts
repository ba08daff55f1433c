/** Start with rollback, stop in reverse, drain on a signal. */

import { ServiceError } from "./errors.js";
import type { Logger } from "./log/log.js";

/** Something with a life: it runs from its creation until {@link stop} has resolved. */
export interface Component {
  readonly name: string;
  /** Finishes or refuses what is under way and frees everything held. Safe to call twice. */
  stop(): Promise<void>;
}

interface Started {
  readonly name: string;
  readonly stop: () => Promise<void> | void;
}

/**
 * Owns components in the order of their start.
 *
 * States: open -> stopping -> stopped. While open, `start` and `defer` push onto a stack. `stop`
 * (and a failing `start`) moves to stopping and pops the stack: last started, first stopped, each
 * only after the one before it has finished, because a later component uses the earlier ones. A
 * `start` still in progress when `stop` is called is awaited first; what it yields is stopped too.
 */
export class Scope implements Component {
  readonly name: string;
  readonly #logger: Logger;
  readonly #started: Started[] = [];
  #starting: Promise<unknown> = Promise.resolve();
  #stopping: Promise<void> | null = null;

  constructor(name: string, logger: Logger) {
    this.name = name;
    this.#logger = logger;
  }

  /**
   * Runs `factory` and owns what it returns. When it throws, everything started in this scope is
   * stopped in reverse order and the error is thrown on.
   * @throws ServiceError UNAVAILABLE when the scope is stopping.
   */
  async start<T extends Component>(name: string, factory: () => Promise<T> | T): Promise<T> {
    this.#assertOpen(name);
    const attempt = Promise.resolve().then(factory);
    // Kept without its rejection: stop() only needs to know when the attempt is over.
    const settled = attempt.then(
      (component) => {
        this.#started.push({ name, stop: () => component.stop() });
        return undefined;
      },
      () => undefined,
    );
    this.#starting = Promise.all([this.#starting, settled]);
    let component: T;
    try {
      component = await attempt;
    } catch (error) {
      this.#logStartFailure(name, error);
      await this.stop().catch(() => undefined); // every failure was logged; the first error is the one to report
      throw error;
    }
    await settled;
    if (this.#stopping !== null) {
      await this.#stopping.catch(() => undefined); // the caller of stop reports it
      throw new ServiceError("UNAVAILABLE", `${this.name} is stopping; ${name} was stopped again`);
    }
    return component;
  }

  /** Registers something to be run at its place in the reverse order of starts. */
  defer(name: string, stop: () => Promise<void> | void): void {
    this.#assertOpen(name);
    this.#started.push({ name, stop });
  }

  /** What `start` returns, which starts things in this scope; when it throws, what has started is stopped again. */
  async orStop<T>(start: () => Promise<T>): Promise<T> {
    try {
      return await start();
    } catch (error) {
      await this.stop().catch(() => undefined); // logged there; the first error is the one to report
      throw error;
    }
  }

  /**
   * Stops everything in reverse order. One that fails is logged and does not keep the others up.
   * Further calls return the same promise.
   * @throws AggregateError with every failure, after all have been stopped.
   */
  stop(): Promise<void> {
    this.#stopping ??= this.#stopAll();
    return this.#stopping;
  }

  /** The caller reports what the error catalogue names; the log keeps the details. */
  #logStartFailure(component: string, error: unknown): void {
    const fields = { scope: this.name, component, err: error };
    const message = "start failed; stopping what had started";
    if (error instanceof ServiceError && error.code !== "INTERNAL") {
      this.#logger.debug(fields, message);
    } else {
      this.#logger.error(fields, message);
    }
  }

  #assertOpen(name: string): void {
    if (this.#stopping !== null) {
      throw new ServiceError("UNAVAILABLE", `${this.name} is stopping; ${name} cannot be started`);
    }
  }

  async #stopAll(): Promise<void> {
    await this.#starting;
    const failures: unknown[] = [];
    for (let next = this.#started.pop(); next !== undefined; next = this.#started.pop()) {
      try {
        await next.stop();
      } catch (error) {
        failures.push(error);
        this.#logger.error({ scope: this.name, component: next.name, err: error }, "stop failed");
      }
    }
    if (failures.length > 0) {
      throw new AggregateError(failures, `${failures.length} component(s) of ${this.name} failed to stop`);
    }
  }
}

/** Kept back of a grace period, to tell clients that their work was ended, and to free what it held. */
const maxReserveMs = 5000;

/**
 * Begins a grace period when it is first asked.
 * @returns how long, in milliseconds, what is under way may still take
 */
export function gracePeriod(graceMs: number): () => number {
  let endMs: number | null = null;
  return () => {
    const nowMs = performance.now();
    endMs ??= nowMs + graceMs - Math.min(maxReserveMs, graceMs / 2);
    return Math.max(0, endMs - nowMs);
  };
}

/** What ends a server: an init system, Ctrl-C, or a terminal that was closed. Their numbers make exit codes. */
const endingSignals = { SIGTERM: 15, SIGINT: 2, SIGHUP: 1 } as const;
type EndingSignal = keyof typeof endingSignals;

/** The part of `process` that {@link installSignalHandlers} uses. */
export interface SignalSource {
  on(signal: EndingSignal, listener: (signal: EndingSignal) => void): unknown;
  off(signal: EndingSignal, listener: (signal: EndingSignal) => void): unknown;
}

/** What {@link installSignalHandlers} needs. */
interface SignalOptions {
  readonly scope: Component;
  /** Longest drain in milliseconds; what is not done by then is cut off. */
  readonly graceMs: number;
  readonly logger: Logger;
  /** Ends the process; injected because only src/bin may. */
  readonly exit: (code: number) => void;
  /** Where signals come from; default: the process. */
  readonly process?: SignalSource;
}

/**
 * On SIGTERM, SIGINT or SIGHUP: stops `scope` and exits with 0, or with 1 when a component failed to stop. A drain that
 * outlasts `graceMs` is cut off (exit 0). A second signal exits at once with 128 plus its number.
 * @returns a function that removes the handlers.
 */
export function installSignalHandlers(o: SignalOptions): () => void {
  const source = o.process ?? process;
  let draining = false;
  const drain = async (): Promise<void> => {
    const cutOff = setTimeout(() => {
      o.logger.warn({ graceMs: o.graceMs }, "the grace period is over; exiting with work unfinished");
      o.exit(0);
    }, o.graceMs);
    let code = 0;
    try {
      await o.scope.stop();
      o.logger.info("stopped");
    } catch (error) {
      code = 1;
      o.logger.error({ err: error }, "stopped with failures");
    }
    clearTimeout(cutOff);
    o.exit(code);
  };
  const onSignal = (signal: EndingSignal): void => {
    if (draining) {
      o.exit(128 + endingSignals[signal]);
      return;
    }
    draining = true;
    o.logger.info({ signal, graceMs: o.graceMs }, "draining");
    void drain();
  };
  const signals = Object.keys(endingSignals) as EndingSignal[];
  signals.forEach((signal) => source.on(signal, onSignal));
  return () => {
    signals.forEach((signal) => source.off(signal, onSignal));
  };
}
