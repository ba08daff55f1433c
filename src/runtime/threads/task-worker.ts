/** The worker's half of the task pool: what a thread entry file needs to be one. */

import { workerData } from "node:worker_threads";

import { move, transferableSymbol, valueSymbol } from "piscina";

import {
  type AnswerOf,
  type ArgumentOf,
  type Asked,
  callNamed,
  failedOutcome,
  type NamedMethods,
  type Outcome,
  type TaskContract,
} from "./api.js";

/** What piscina carries to the thread. `probe` asks only whether the thread is up. It carries an outcome back. */
export type TaskRequest =
  | { readonly kind: "probe" }
  | {
      readonly kind: "run";
      readonly slot: number;
      readonly method: string;
      readonly argument: unknown;
    };

/** The data every thread of a pool is started with. */
export interface TaskWorkerData {
  /** One word per task in flight; not zero: the task is cancelled. */
  readonly cancelFlags: Int32Array;
  readonly settings: unknown;
}

/** What a method knows beside its argument. */
interface TaskContext {
  /**
   * Whether the caller has given the task up. A method that takes longer than a few milliseconds
   * asks between steps and throws `new ServiceError("CANCELLED")`; one that does not is let run for the
   * pool's `cancelGraceMs`, then its thread is terminated.
   */
  readonly cancelled: () => boolean;
}

/** A value whose buffers are moved to the caller instead of copied. */
interface Transferred<Res> {
  readonly value: Res;
  readonly transfer: readonly ArrayBuffer[];
}

const transferredMark = Symbol("transferred");

/** Returned from a method: sends `value` and moves the listed buffers, which are unusable here afterwards. */
export function transferred<Res>(value: Res, transfer: readonly ArrayBuffer[]): Transferred<Res> {
  return Object.assign({ value, transfer }, { [transferredMark]: true });
}

/** The methods of an interface as a thread has them: each knows its task, and may move buffers with its answer. */
type TaskMethods<Api> = {
  readonly [M in Asked<Api>]: (
    argument: ArgumentOf<Api, M>,
    context: TaskContext,
  ) => TaskAnswer<AnswerOf<Api, M>> | Promise<TaskAnswer<AnswerOf<Api, M>>>;
};

type TaskAnswer<Res> = Res | Transferred<Res>;

/**
 * The default export of a thread entry file: `export default await serveTasks<Contract>(open)`. `open` is called
 * once, with the settings of the pool; the thread is up when it has its methods.
 */
export async function serveTasks<C extends TaskContract>(
  open: (settings: C["settings"]) => TaskMethods<C["methods"]> | Promise<TaskMethods<C["methods"]>>,
): Promise<(task: TaskRequest) => Promise<unknown>> {
  const { cancelFlags, settings } = workerData as TaskWorkerData;
  const methods = (await open(settings)) as NamedMethods;
  return async (task) => {
    if (task.kind === "probe") {
      return okOutcome(undefined);
    }
    const { slot, method, argument } = task;
    try {
      const context: TaskContext = { cancelled: () => Atomics.load(cancelFlags, slot) !== 0 };
      const result = await callNamed(methods, method, argument, context);
      return isTransferred(result) ? moved(result) : okOutcome(result);
    } catch (error) {
      return failedOutcome(error);
    }
  };
}

function okOutcome(value: unknown): Outcome<unknown> {
  return { kind: "ok", value };
}

function isTransferred(result: unknown): result is Transferred<unknown> {
  return typeof result === "object" && result !== null && transferredMark in result;
}

function moved({ value, transfer }: Transferred<unknown>): unknown {
  return move({ [transferableSymbol]: transfer, [valueSymbol]: okOutcome(value) });
}
