/** Warnings that any number of requests can repeat while something is down. */
import { LRUMap } from "../collections/lru-map.js";
import type { Logger } from "./log.js";

const quietMs = 60_000;
const maxRemembered = 1000;

/**
 * @param kind what the warning is of: a name of which there are few
 * @param level default: `warn`
 */
export type RareWarning = (kind: string, fields: object, message: string, level?: "warn" | "error") => void;

/** Logs one warning a minute of each kind; `unwritten` counts those that were left out before it. */
export function createRareWarning(logger: Logger, nowMs: () => number = () => performance.now()): RareWarning {
  const states = new LRUMap<string, { readonly atMs: number; unwritten: number }>(maxRemembered);
  return (kind, fields, message, level = "warn") => {
    const last = states.get(kind);
    if (last !== undefined && nowMs() - last.atMs < quietMs) {
      last.unwritten++;
      return;
    }
    states.set(kind, { atMs: nowMs(), unwritten: 0 });
    logger[level]({ ...fields, unwritten: last?.unwritten ?? 0 }, message);
  };
}
