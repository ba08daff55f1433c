/**
 * What a thread offers another one, as the types of one interface. Its methods take one argument at most, which is
 * cloned. A method that promises is asked, and its answer comes back; one that returns nothing is told.
 *
 * task-pool.ts and task-worker.ts carry such an interface to the threads of a pool, channel.ts between two threads.
 */
import { type ErrorRecord, toErrorRecord } from "../errors.js";

/** One interface says it all of the threads of a pool. */
export interface TaskContract {
  /** What each thread is opened with. */
  readonly settings: unknown;
  /** What it offers then; methods that are asked. */
  readonly methods: object;
}

/** The methods of an interface that are asked. */
export type Asked<Api> = {
  [M in keyof Api]: Api[M] extends (argument: never, context: never) => Promise<unknown> ? M : never;
}[keyof Api] &
  string;

/** The methods of an interface that are told. */
type Told<Api> = Exclude<keyof Api & string, Asked<Api>>;

/** What a method takes; undefined for nothing. */
export type ArgumentOf<Api, M extends keyof Api> = Api[M] extends (argument: infer A, context: never) => unknown
  ? unknown extends A
    ? undefined
    : A
  : never;

/** What a method answers. */
export type AnswerOf<Api, M extends keyof Api> = Api[M] extends (argument: never, context: never) => infer R
  ? Awaited<R>
  : never;

/**
 * What tells a method: its name as `kind` beside the fields of its argument. One flat object, because there may be
 * one for every request of a client.
 */
export type Notice<Api> = {
  [M in Told<Api>]: { readonly kind: M } & (ArgumentOf<Api, M> extends undefined ? unknown : ArgumentOf<Api, M>);
}[Told<Api>];

/** An answer on its way. Errors travel as records, so that class, code and causes survive. */
export type Outcome<T> =
  | { readonly kind: "ok"; readonly value: T }
  | { readonly kind: "failed"; readonly error: ErrorRecord };

/** The outcome of what threw. */
export function failedOutcome(error: unknown): Outcome<never> {
  return { kind: "failed", error: toErrorRecord(error) };
}

/** Methods behind the names that messages carry. */
export type NamedMethods = Readonly<Record<string, (argument: unknown, context?: unknown) => unknown>>;

/** Calls a method by its name. @throws TypeError when there is none, and what it throws. */
export function callNamed(methods: NamedMethods, name: string, argument: unknown, context?: unknown): unknown {
  const method = methods[name];
  if (method === undefined) {
    throw new TypeError(`there is no method ${name}`);
  }
  return method.call(methods, argument, context);
}
