/** Which spans of a trace have rows, which of them is active, and what changes that. */
import { useEffect, useMemo, useRef, useState } from "react";

import { placesNow, type Span, visibleSpans } from "../trace-model.js";

export type SpanTree = ReturnType<typeof useSpanTree>;

export function useSpanTree(spans: readonly Span[], selected: number | null, onSelect: (at: number) => void) {
  const [collapsed, setCollapsed] = usePlaces(spans, []);
  const [[active = 0], setActives] = usePlaces(spans, [selected ?? 0]);
  const shown = useMemo(() => visibleSpans(spans, collapsed), [spans, collapsed]);
  const scrollTo = useRef<(row: number) => void>(() => undefined);
  const setActive = (at: number): void => setActives(new Set([at]));
  const hasChildren = (at: number): boolean => (spans[at]?.end ?? 0) > at + 1;
  const toggle = (at: number): void => {
    const next = new Set(collapsed);
    if (!next.delete(at)) {
      next.add(at);
    }
    setCollapsed(next);
  };
  const go = (at: number): void => {
    // What is above it opens.
    const closed = new Set(collapsed);
    for (let above = spans[at]?.parent ?? -1; above >= 0; above = spans[above]?.parent ?? -1) {
      closed.delete(above);
    }
    const rows = closed.size === collapsed.size ? shown : visibleSpans(spans, closed);
    setCollapsed(closed);
    setActive(at);
    requestAnimationFrame(() => scrollTo.current(rows.indexOf(at)));
  };
  const step = (by: number): void => {
    const row = Math.max(0, Math.min(shown.length - 1, shown.indexOf(active) + by));
    const at = shown[row] ?? 0;
    setActive(at);
    scrollTo.current(row);
    if (selected !== null) {
      onSelect(at);
    }
  };
  useEffect(() => {
    if (selected !== null) {
      go(selected);
    }
  }, [selected]);
  return {
    spans,
    collapsed,
    active,
    setActive,
    /** Places of the spans that are not within a closed one. */
    shown,
    /** Gets what brings a row into view. */
    scrollTo,
    toggle,
    go,
    step,
    /** Closes the active span, or goes to the one above. */
    left: () =>
      hasChildren(active) && !collapsed.has(active) ? toggle(active) : go(Math.max(0, spans[active]?.parent ?? 0)),
    /** Opens the active span, or goes to the next. */
    right: () => (collapsed.has(active) ? toggle(active) : step(1)),
    closeAll: () => setCollapsed(new Set(spans.filter(({ at }) => hasChildren(at)).map(({ at }) => at))),
    openAll: () => setCollapsed(new Set()),
  };
}

export function treeKeys({ step, left, right }: SpanTree, page: number): Readonly<Record<string, () => void>> {
  return {
    ArrowDown: () => step(1),
    ArrowUp: () => step(-1),
    j: () => step(1),
    k: () => step(-1),
    PageDown: () => step(page),
    PageUp: () => step(-page),
    Home: () => step(-Infinity),
    End: () => step(Infinity),
    ArrowLeft: left,
    ArrowRight: right,
  };
}

/** Some spans by their places, which go along when the trace is read again and has more of them. */
function usePlaces(
  spans: readonly Span[],
  first: readonly number[],
): readonly [ReadonlySet<number>, (places: ReadonlySet<number>) => void] {
  const [chosen, setChosen] = useState<{ readonly spans: readonly Span[]; readonly places: ReadonlySet<number> }>({
    spans,
    places: new Set(first),
  });
  const places = useMemo(
    () => (chosen.spans === spans ? chosen.places : placesNow(chosen.places, chosen.spans, spans)),
    [chosen, spans],
  );
  return [places, (next) => setChosen({ spans, places: next })];
}
