/** Waiting for the end of what a server does after its answer. */
import { setTimeout as wait } from "node:timers/promises";

import { member } from "../../shared/json-member.js";
import type { Terminal } from "../terminal.js";
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
 * @param terminal told on stderr what it waits for, whenever that is another reason
 * @returns the last answer
 * @throws Error with the reason when it failed; WebError; AbortError when the terminal is interrupted
 */
export async function followTask(
  answer: unknown,
  { route, id }: Follow,
  ask: AskWeb,
  { stderr, interrupted }: Pick<Terminal, "stderr" | "interrupted">,
) {
  const request = requestOf(route, { path: { id: textOf(answer, id) } });
  let told: unknown = null;
  for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(pauseMs * 2, maxPauseMs)) {
    const row = await ask(request);
    const state = textOf(row, "state");
    if (state === "failed") {
      throw new Error(textOf(row, "error"));
    }
    if (state !== "waiting" && state !== "running") {
      return row;
    }
    const reason = member(row, "error");
    if (typeof reason === "string" && reason !== told) {
      stderr.write(`telemetry: it cannot go on at present: ${reason}\n`);
    }
    told = reason;
    await wait(pauseMs, undefined, { signal: interrupted });
  }
}

function textOf(row: unknown, name: string): string {
  const value = member(row, name);
  if (typeof value === "string") {
    return value;
  }
  throw new Error("the server's answer cannot be read");
}
