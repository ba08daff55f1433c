/**
 * The worker's half of the task pool: what a thread entry file needs to be one. It imports nothing of piscina's: that
 * would load in each thread what only the main thread runs.
 */

import { workerData } from "node:worker_threads";

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

/** The methods of an interface as a thread has them: each knows its task. */
type TaskMethods<Api> = {
  readonly [M in Asked<Api>]: (
    argument: ArgumentOf<Api, M>,
    context: TaskContext,
  ) => AnswerOf<Api, M> | Promise<AnswerOf<Api, M>>;
};

/**
 * The default export of a thread entry file: `export default await serveTasks<Contract>(open)`. `open` is called
 * once, with the settings of the pool; the thread is up when it has its methods.
 */
export async function serveTasks<C extends TaskContract>(
  open: (settings: C["settings"]) => TaskMethods<C["methods"]> | Promise<TaskMethods<C["methods"]>>,
): Promise<(task: TaskRequest) => Promise<Outcome<unknown>>> {
  const { cancelFlags, settings } = workerData as TaskWorkerData;
  const methods = (await open(settings)) as NamedMethods;
  return async (task) => {
    if (task.kind === "probe") {
      return { kind: "ok", value: undefined };
    }
    const { slot, method, argument } = task;
    try {
      const context: TaskContext = { cancelled: () => Atomics.load(cancelFlags, slot) !== 0 };
      return { kind: "ok", value: await callNamed(methods, method, argument, context) };
    } catch (error) {
      return failedOutcome(error);
    }
  };
}
