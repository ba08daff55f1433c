/** Queries of pages. */
import { useCallback, useEffect, useRef, useState } from "react";

import { useTimeRange } from "../app/time-range-context.js";
import { useScope } from "../app/scope.js";
import type { QueryProgress, QuerySummary } from "../arrow/messages.js";
import { ApiError } from "./error.js";
import { type QueryRequest, type QueryResult, runQuery } from "./query.js";

/** A query as a page sees it. */
export interface SqlState {
  /** The rows so far; those of the query before until the first ones of this are there; null: none yet. */
  readonly result: QueryResult | null;
  /** `result` is of the query before this one, which may have failed or been cancelled: show it dimmed. */
  readonly stale: boolean;
  readonly running: boolean;
  /** It runs for more than 300 ms: show that, and the way to cancel it. */
  readonly slow: boolean;
  readonly progress: QueryProgress | null;
  /** Of a complete result. */
  readonly summary: QuerySummary | null;
  /** Rows that came before it are in `result`. */
  readonly error: ApiError | null;
  readonly cancelled: boolean;
  readonly cancel: () => void;
  readonly run: () => void;
}

/** What a page asks beside its text. */
interface SqlOptions {
  readonly parameters?: QueryRequest["parameters"];
  /** Null: the whole lake; left out: the range of the page. */
  readonly range?: { readonly beginMs: number; readonly endMs: number } | null;
  readonly limit?: number;
  /** False: nothing runs. */
  readonly enabled?: boolean;
}

type Inner = Omit<SqlState, "cancel" | "run">;

const idle: Inner = {
  result: null,
  stale: false,
  running: false,
  slow: false,
  progress: null,
  summary: null,
  error: null,
  cancelled: false,
};
const slowAfterMs = 300;

/**
 * Runs a query whenever its text, its parameters, the time range, the data source or the refresh control change, and
 * cancels the one before.
 */
export function useQuerySql(sql: string, o: SqlOptions = {}): SqlState {
  const { parameters, limit, enabled = true } = o;
  const page = useTimeRange();
  const { source } = useScope();
  const range = o.range === undefined ? page.resolved : o.range;
  const [state, setState] = useState<Inner>(idle);
  const [again, setAgain] = useState(0);
  const abort = useRef<AbortController | null>(null);
  const request: QueryRequest = {
    sql,
    parameters,
    beginMs: range?.beginMs,
    endMs: range?.endMs,
    limit,
    dataSource: source ?? undefined,
  };
  // Everything that makes it another query; two objects that say the same are one.
  const key = JSON.stringify([request, page.refreshed, again]);

  useEffect(() => {
    if (!enabled) {
      setState(idle);
      return undefined;
    }
    const controller = new AbortController();
    abort.current = controller;
    page.running.add(controller);
    void follow(JSON.parse(key)[0] as QueryRequest, setState, controller.signal).finally(() =>
      page.running.delete(controller),
    );
    return () => controller.abort("superseded");
  }, [key, enabled]);

  const cancel = useCallback(() => abort.current?.abort("cancelled"), []);
  const run = useCallback(() => setAgain((count) => count + 1), []);
  return { ...state, cancel, run };
}

/** Keeps a state up to date from the start of a query to its end; at most one change a frame. */
async function follow(
  request: QueryRequest,
  setState: (change: (before: Inner) => Inner) => void,
  signal: AbortSignal,
): Promise<void> {
  const change = (changes: (before: Inner) => Partial<Inner>): void => {
    if (signal.reason !== "superseded") {
      setState((before) => ({ ...before, ...changes(before) }));
    }
  };
  const set = (changes: Partial<Inner>): void => change(() => changes);
  set({ running: true, slow: false, stale: true, progress: null, summary: null, error: null, cancelled: false });
  const slow = setTimeout(() => set({ slow: true }), slowAfterMs);
  let latest: QueryResult | null = null;
  let frame: number | null = null;
  const show = (): void => {
    frame = null;
    if (latest !== null) {
      set({ result: { ...latest }, stale: false });
    }
  };
  try {
    const finished = await runQuery(
      request,
      {
        onRows: (result) => {
          latest = result;
          // The result before stays until there is a row, or until it is known that there will be none.
          if (result.rows > 0) {
            frame ??= requestAnimationFrame(show);
          }
        },
        onProgress: (progress) => set({ progress }),
      },
      signal,
    );
    latest = finished;
    set({ summary: finished.summary });
  } catch (error) {
    if (signal.aborted) {
      set({ cancelled: true });
    } else if (error instanceof ApiError) {
      set({ error });
    } else {
      throw error;
    }
  } finally {
    clearTimeout(slow);
    if (frame !== null) {
      cancelAnimationFrame(frame);
    }
    show();
    change(({ stale, result }) => ({ running: false, slow: false, stale: stale && result !== null }));
  }
}
