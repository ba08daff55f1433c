/** The time range of the page: in the address as it was chosen, resolved against the clock when something asks anew. */
import { createContext, type ReactNode, useCallback, useContext, useEffect, useMemo, useState } from "react";

import { serverNow } from "../api/server-clock.js";
import { rangeOf, type ResolvedRange, resolveRange, type TimeRange } from "../ui/time-range.js";
import { useChangeSearch, useSearchParameters } from "./search.js";
import { useSettings } from "./settings.js";

/** Seconds between two refreshes, as in the address. */
export const refreshIntervals = ["5s", "10s", "30s", "1m", "5m"] as const;

interface PageRange {
  /** As in the address. */
  readonly range: TimeRange;
  /** Against the clock at the last refresh. */
  readonly resolved: ResolvedRange;
  /** Grows with each refresh. */
  readonly refreshed: number;
  /** One of {@link refreshIntervals}; null: only when asked. */
  readonly interval: string | null;
  /** Queries of the page. While there are any it is not refreshed by itself, or slow ones would never come to their end. */
  readonly running: Set<AbortController>;
  readonly setRange: (range: TimeRange) => void;
  readonly setInterval: (interval: string | null) => void;
  readonly refresh: () => void;
}

const Context = createContext<PageRange | null>(null);

/** @throws Error outside of the shell. */
export function useTimeRange(): PageRange {
  const context = useContext(Context);
  if (context === null) {
    throw new Error("there is no time range here");
  }
  return context;
}

export function TimeRangeProvider({ children }: { readonly children: ReactNode }): ReactNode {
  const search = useSearchParameters();
  const change = useChangeSearch();
  const { timeZone } = useSettings(); // that of times without one in the address
  const [clock, setClock] = useState(() => ({ nowMs: serverNow(), refreshed: 0 }));
  const { from, to } = rangeOf(search, clock.nowMs);
  const [running] = useState(() => new Set<AbortController>());
  const interval = refreshIntervals.find((each) => each === search["refresh"]) ?? null;

  const refresh = useCallback(
    () => setClock(({ refreshed }) => ({ nowMs: serverNow(), refreshed: refreshed + 1 })),
    [],
  );
  useEffect(() => {
    if (interval === null) {
      return undefined;
    }
    const ms = Number.parseInt(interval, 10) * (interval.endsWith("m") ? 60_000 : 1000);
    const timer = setInterval(() => {
      if (!document.hidden && running.size === 0) {
        refresh();
      }
    }, ms);
    return () => clearInterval(timer);
  }, [interval, refresh, running]);

  const value = useMemo<PageRange>(
    () => ({
      range: { from, to },
      resolved: resolveRange({ from, to }, clock.nowMs),
      refreshed: clock.refreshed,
      interval,
      running,
      setRange: (range) => {
        setClock(({ refreshed }) => ({ nowMs: serverNow(), refreshed }));
        change({ from: range.from, to: range.to });
      },
      setInterval: (next) => change({ refresh: next ?? undefined }),
      refresh,
    }),
    [from, to, timeZone, clock, interval, running, change, refresh],
  );
  return <Context.Provider value={value}>{children}</Context.Provider>;
}
