/** Which part of a trace's time is shown. */
import { useEffect, useMemo, useRef, useState } from "react";

import { textOf, useChangeSearch, useSearchParameters } from "../../../app/search.js";
import { moved, type Reach, zoomed } from "../../../ui/chart/zoom.js";
import type { ResolvedRange } from "../../../ui/time-range.js";

/** What the window shows, in the address once the hand has come to rest: `zoom=1.5-20`. */
export function useTimeView(durationMs: number) {
  const { zoom } = useSearchParameters();
  const change = useChangeSearch();
  // Null: the whole time, however long it becomes.
  const [part, setPart] = useState<ResolvedRange | null>(() => {
    const [, begin = "", end = ""] = /^([\d.]{1,20})-([\d.]{1,20})$/.exec(textOf(zoom) ?? "") ?? [];
    const beginMs = Number(begin);
    const endMs = Number(end);
    return end !== "" && beginMs < endMs && endMs <= durationMs + 1e-3 ? { beginMs, endMs } : null;
  });
  const first = useRef(true);
  useEffect(() => {
    if (first.current) {
      first.current = false;
      return undefined;
    }
    const zoom =
      part === null ? undefined : `${Number(part.beginMs.toPrecision(9))}-${Number(part.endMs.toPrecision(9))}`;
    const timer = setTimeout(() => change({ zoom }, { replace: true }), 300);
    return () => clearTimeout(timer);
  }, [part]);
  const view = useMemo(() => part ?? { beginMs: 0, endMs: durationMs }, [part, durationMs]);
  const reach: Reach = { endMs: durationMs, leastMs: 1e-3 };
  const setView = (next: ResolvedRange): void => setPart(next.beginMs <= 0 && next.endMs >= durationMs ? null : next);
  return {
    view,
    reach,
    setView,
    zoom: (factor: number) => setView(zoomed(view, factor, 0.5, reach)),
    move: (share: number) => setView(moved(view, share, reach)),
    showAll: () => setPart(null),
  };
}

export function timeKeys({
  zoom,
  move,
  showAll,
}: ReturnType<typeof useTimeView>): Readonly<Record<string, () => void>> {
  const zoomIn = (): void => zoom(0.7);
  const zoomOut = (): void => zoom(1 / 0.7);
  return {
    w: zoomIn,
    s: zoomOut,
    "+": zoomIn,
    "=": zoomIn,
    "-": zoomOut,
    a: () => move(-0.15),
    d: () => move(0.15),
    "0": showAll,
  };
}
