/** Live tail: asks for what the server has received since, and keeps it for the list. */
import { useCallback, useEffect, useRef, useState } from "react";

import { ApiError } from "../../api/error.js";
import { runQuery } from "../../api/query.js";
import { textValue } from "../../arrow/column.js";
import type { Condition } from "../../ui/filters/filters.js";
import { blocksOf, logEntry, type LogEntry, type LogRows, logRows, logSelect } from "./log-rows.js";

export interface Tail {
  /** Newest first. */
  readonly entries: readonly LogEntry[];
  /** Came while it was paused; `entries` does not have them. */
  readonly waiting: number;
  /** More came than it takes at once, or keeps: some are in none of the lists. */
  readonly isPartial: boolean;
  readonly error: ApiError | null;
}

const everyMs = 2000;
/** The server may have received a record before and made it readable after the last question. */
const overlapSeconds = 30;
const mostEntries = 5000;
const mostAtOnce = 1000;
/** Of what came since, older records are not asked for. */
const mostMinutes = 15;
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
  const [isPartial, setPartial] = useState(false);
  const [error, setError] = useState<ApiError | null>(null);
  const seen = useRef(new Map<string, number>());
  const known = useRef(o.known);
  known.current = o.known;
  const key = JSON.stringify([o.condition, o.dataSource]);

  const poll = useCallback(async (sinceMs: number, signal: AbortSignal): Promise<void> => {
    const { condition, dataSource } = latest.current;
    const seconds = Math.ceil((Date.now() - sinceMs) / 1000) + overlapSeconds;
    const result = await runQuery(
      {
        // What is known takes no place of the most rows: a record that came late may be older than all of them.
        sql: `${logSelect} WHERE time > ago('${mostMinutes} minutes') AND insert_time > ago('${seconds} seconds') AND NOT contains(?, block_id)
AND ${condition.sql} ORDER BY time DESC LIMIT ${mostAtOnce + 1}`,
        parameters: [[...seen.current.keys()].join(" "), ...condition.parameters],
        dataSource: dataSource ?? undefined,
      },
      {},
      signal,
    );
    const shown = blocksOf(known.current);
    const came = logRows([], result);
    // The last question is that long ago when nobody has seen the page, or the server was not reached.
    if (came.count > mostAtOnce || Date.now() - sinceMs > mostMinutes * 60_000) {
      setPartial(true);
    }
    const entriesNow = Array.from({ length: came.count }, (_, row) => logEntry(came, row));
    const fresh = entriesNow.filter(({ block_id: block }) => !shown.has(textValue(block)));
    for (const [block, seenMs] of seen.current) {
      if (seenMs < sinceMs - 2 * overlapSeconds * 1000) {
        seen.current.delete(block);
      }
    }
    for (const { block_id: block } of entriesNow) {
      seen.current.set(textValue(block) ?? "", Date.now());
    }
    if (fresh.length > 0) {
      setBuffer((before) => [...fresh, ...before].slice(0, mostEntries));
    }
  }, []);
  const latest = useRef(o);
  latest.current = o;

  useEffect(() => {
    seen.current = new Map();
    setEntries(none);
    setBuffer(none);
    setPartial(false);
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
  return { entries, waiting: buffer.length, isPartial: isPartial || entries.length === mostEntries, error };
}
