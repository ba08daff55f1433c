/** Live tail: asks for what the server has received since, and keeps it for the list. */
import { useCallback, useEffect, useRef, useState } from "react";

import { ApiError } from "../../api/error.js";
import { runQuery } from "../../api/query.js";
import type { Condition } from "../../ui/filters.js";
import { logEntry, type LogEntry, type LogRows, logRows, logSelect, textValue } from "./log-rows.js";

export interface Tail {
  /** Newest first. */
  readonly entries: readonly LogEntry[];
  /** Came while it was paused; `entries` does not have them. */
  readonly waiting: number;
  readonly error: ApiError | null;
}

const everyMs = 2000;
/** The server may have received a record before and made it readable after the last question. */
const overlapSeconds = 30;
const mostEntries = 5000;
const mostAtOnce = 1000;
const none: readonly LogEntry[] = [];

/**
 * @param known rows that are shown already: all of a block become readable at once, so a block that is known has no
 *   more to give.
 */
export function useTail(o: {
  readonly on: boolean;
  readonly paused: boolean;
  readonly condition: Condition;
  readonly known: LogRows;
  readonly dataSource: string | null;
}): Tail {
  const [entries, setEntries] = useState<readonly LogEntry[]>(none);
  const [buffer, setBuffer] = useState<readonly LogEntry[]>(none);
  const [error, setError] = useState<ApiError | null>(null);
  const seen = useRef(new Set<string | null>());
  const known = useRef(o.known);
  known.current = o.known;
  const key = JSON.stringify([o.condition, o.dataSource]);

  const poll = useCallback(async (sinceMs: number, signal: AbortSignal): Promise<void> => {
    const { condition, dataSource } = latest.current;
    const seconds = Math.ceil((Date.now() - sinceMs) / 1000) + overlapSeconds;
    const result = await runQuery(
      {
        sql: `${logSelect} WHERE time > ago('15 minutes') AND insert_time > ago('${seconds} seconds') AND ${condition.sql} ORDER BY time DESC LIMIT ${mostAtOnce}`,
        parameters: condition.parameters,
        dataSource: dataSource ?? undefined,
      },
      {},
      signal,
    );
    const blocks = new Set(seen.current);
    for (let row = 0; row < known.current.count; row++) {
      blocks.add(textValue(known.current.value(row, "block_id")));
    }
    const rows = logRows([], result);
    const fresh = Array.from({ length: rows.count }, (_, row) => row)
      .filter((row) => !blocks.has(textValue(rows.value(row, "block_id"))))
      .map((row) => logEntry(rows, row));
    for (const { block_id: block } of fresh) {
      seen.current.add(textValue(block));
    }
    if (fresh.length > 0) {
      setBuffer((before) => [...fresh, ...before].slice(0, mostEntries));
    }
  }, []);
  const latest = useRef(o);
  latest.current = o;

  useEffect(() => {
    seen.current = new Set();
    setEntries(none);
    setBuffer(none);
    setError(null);
    if (!o.on) {
      return undefined;
    }
    const controller = new AbortController();
    let sinceMs = Date.now();
    let timer: ReturnType<typeof setTimeout> | null = null;
    const again = async (): Promise<void> => {
      try {
        if (!document.hidden) {
          const askedMs = Date.now();
          await poll(sinceMs, controller.signal);
          sinceMs = askedMs;
          setError(null);
        }
      } catch (failure) {
        if (failure instanceof ApiError) {
          setError(failure);
        } else if (!controller.signal.aborted) {
          throw failure;
        }
      }
      if (!controller.signal.aborted) {
        timer = setTimeout(() => void again(), everyMs);
      }
    };
    void again();
    return () => {
      controller.abort();
      if (timer !== null) {
        clearTimeout(timer);
      }
    };
  }, [o.on, key, poll]);

  useEffect(() => {
    if (!o.paused && buffer.length > 0) {
      setEntries((before) => [...buffer, ...before].slice(0, mostEntries));
      setBuffer(none);
    }
  }, [o.paused, buffer]);
  return { entries, waiting: buffer.length, error };
}
