/** The worker's half of the task pool: what a thread entry file needs to be one. */

import { workerData } from "node:worker_threads";

import { move, transferableSymbol, valueSymbol } from "piscina";

import { type ErrorRecord, toErrorRecord } from "../errors.js";

/** What piscina carries to the thread. `probe` asks only whether the thread is up. */
export type TaskRequest<Req> =
  | { readonly kind: "probe" }
  | { readonly kind: "run"; readonly slot: number; readonly request: Req };

/** What it carries back. Errors travel as records, so that class, code and causes survive. */
export type TaskResponse<Res> =
  | { readonly kind: "ok"; readonly value: Res }
  | { readonly kind: "failed"; readonly error: ErrorRecord };

/** The data every thread of a pool is started with. */
export interface TaskWorkerData<Data> {
  /** One word per task in flight; not zero: the task is cancelled. */
  readonly cancelFlags: Int32Array;
  readonly data: Data;
}

/** What a handler knows beside its request. */
export interface TaskContext {
  /**
   * Whether the caller has given the task up. A handler that takes longer than a few milliseconds
   * asks between steps and throws `new ServiceError("CANCELLED")`; one that does not is let run for the
   * pool's `cancelGraceMs`, then its thread is terminated.
   */
  readonly cancelled: () => boolean;
}

/** A value whose buffers are moved to the caller instead of copied. */
export interface Transferred<Res> {
  readonly value: Res;
  readonly transfer: readonly ArrayBuffer[];
}

const transferredMark = Symbol("transferred");

/** Returned from a handler: sends `value` and moves the listed buffers, which are unusable here afterwards. */
export function transferred<Res>(value: Res, transfer: readonly ArrayBuffer[]): Transferred<Res> {
  return Object.assign({ value, transfer }, { [transferredMark]: true });
}

/** The default export of a thread entry file: `export default defineTask<Req, Res>(handler)`. */
export function defineTask<Req, Res>(
  handler: (
    request: Req,
    context: TaskContext,
  ) => Promise<Res | Transferred<Res>> | Res | Transferred<Res>,
): (task: TaskRequest<Req>) => Promise<unknown> {
  const flags = (workerData as TaskWorkerData<unknown> | null)?.cancelFlags;
  return async (task) => {
    if (task.kind === "probe") {
      return { kind: "ok", value: undefined } satisfies TaskResponse<undefined>;
    }
    const { slot, request } = task;
    try {
      const result = await handler(request, {
        cancelled: () => flags !== undefined && Atomics.load(flags, slot) !== 0,
      });
      return isTransferred(result) ? moved(result) : { kind: "ok", value: result };
    } catch (error) {
      return { kind: "failed", error: toErrorRecord(error) } satisfies TaskResponse<Res>;
    }
  };
}

/**
 * The `workerData` of the pool's options, for a thread entry file that sets itself up when it is
 * loaded. The entry file says what type it is. Undefined outside of a pool's thread.
 */
export function taskWorkerData(): unknown {
  return (workerData as TaskWorkerData<unknown> | null)?.data;
}

function isTransferred<Res>(result: Res | Transferred<Res>): result is Transferred<Res> {
  return typeof result === "object" && result !== null && transferredMark in result;
}

function moved<Res>(result: Transferred<Res>): unknown {
  const response: TaskResponse<Res> = { kind: "ok", value: result.value };
  return move({ [transferableSymbol]: result.transfer, [valueSymbol]: response });
}
