/** Waiting for the end of what a server does after its answer. */
import { setTimeout as wait } from "node:timers/promises";

import { requestOf } from "./action.js";
import type { AskWeb } from "./ask-web.js";
import type { Route } from "./routes.js";

/** What tells how it stands. */
export interface Follow {
  /** Takes the id as `{id}`. */
  readonly route: Route;
  /** The member of the first answer that holds the id. */
  readonly id: string;
}

const firstPauseMs = 100;
const maxPauseMs = 2000;

/**
 * Asks until it has ended.
 * @returns the last answer
 * @throws Error with the reason when it failed; WebError; AbortError when `signal` is aborted
 */
export async function followTask(answer: unknown, { route, id }: Follow, ask: AskWeb, signal: AbortSignal) {
  const request = requestOf(route, { path: { id: textOf(answer, id) } });
  for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(pauseMs * 2, maxPauseMs)) {
    const row = await ask(request);
    const state = textOf(row, "state");
    if (state === "failed") {
      throw new Error(textOf(row, "error"));
    }
    if (state !== "waiting" && state !== "running") {
      return row;
    }
    await wait(pauseMs, undefined, { signal });
  }
}

function textOf(row: unknown, name: string): string {
  const value = typeof row === "object" && row !== null ? (row as Record<string, unknown>)[name] : undefined;
  if (typeof value === "string") {
    return value;
  }
  throw new Error("the server's answer cannot be read");
}
