/**
 * Spans over time, one a row, of which only those in view are made. W and S (or + and -) zoom, A and D move, arrows select, left and
 * right close and open, / searches, N goes to the next find, 0 shows all.
 */
import { ChevronsDownUp, ChevronsUpDown, Maximize } from "lucide-react";
import { type KeyboardEvent, type ReactElement, useEffect, useId, useMemo, useRef, useState } from "react";

import { textOf, useChangeSearch, useSearchParameters } from "../../app/search.js";
import { useZoom } from "../../ui/chart/use-zoom.js";
import { moved, zoomed } from "../../ui/chart/zoom.js";
import { IconButton, Input } from "../../ui/controls.js";
import { formatMilliseconds, formatNumber } from "../../ui/format.js";
import { pressKey } from "../../ui/keys.js";
import { rowPixels } from "../../ui/table/use-rows.js";
import type { ResolvedRange } from "../../ui/time-range.js";
import { Minimap } from "./minimap.js";
import { criticalPath, matching, placesNow, type Span, type Trace, visibleSpans } from "./trace-model.js";
import { percent, SpanRows } from "./span-rows.js";
import css from "./waterfall.module.css";

export interface WaterfallProps {
  readonly trace: Trace;
  /** Of services. */
  readonly colours: ReadonlyMap<string, string>;
  readonly selected: number | null;
  readonly narrow: boolean;
  readonly onSelect: (at: number | null) => void;
}

export function Waterfall({ trace, colours, selected, narrow, onSelect }: WaterfallProps): ReactElement {
  const { spans, durationMs } = trace;
  const id = useId();
  const [view, setView] = useView(durationMs);
  const [collapsed, setCollapsed] = usePlaces(spans, []);
  const [text, setText] = useState("");
  const scroll = useRef<HTMLDivElement | null>(null);
  const field = useRef<HTMLDivElement | null>(null);
  const shown = useMemo(() => visibleSpans(spans, collapsed), [spans, collapsed]);
  const path = useMemo(() => criticalPath(spans), [spans]);
  const found = useMemo(() => matching(trace, text), [trace, text]);
  const finds = useMemo(() => new Set(found), [found]);
  const [[active = 0], setActives] = usePlaces(spans, [selected ?? 0]);
  const setActive = (at: number): void => setActives(new Set([at]));
  const scrollTo = useRef<(row: number) => void>(() => undefined);

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
  useEffect(() => {
    if (selected !== null) {
      go(selected);
    }
  }, [selected]);
  const close = (at: number, closes: boolean): void => {
    const next = new Set(collapsed);
    if (closes) {
      next.add(at);
    } else {
      next.delete(at);
    }
    setCollapsed(next);
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
  const nextFind = (by: 1 | -1): void => {
    const at =
      by === 1
        ? (found.find((each) => each > active) ?? found[0])
        : (found.findLast((each) => each < active) ?? found.at(-1));
    if (at !== undefined) {
      go(at);
    }
  };
  const hasChildren = (at: number): boolean => (spans[at]?.end ?? 0) > at + 1;
  const onKey = (event: KeyboardEvent): void => {
    const page = Math.max(1, Math.floor((scroll.current?.clientHeight ?? 300) / rowPixels) - 2);
    pressKey(event, {
      w: () => setView(zoomed(view, 0.7, 0.5, reach)),
      s: () => setView(zoomed(view, 1 / 0.7, 0.5, reach)),
      "+": () => setView(zoomed(view, 0.7, 0.5, reach)),
      "=": () => setView(zoomed(view, 0.7, 0.5, reach)),
      "-": () => setView(zoomed(view, 1 / 0.7, 0.5, reach)),
      a: () => setView(moved(view, -0.15, reach)),
      d: () => setView(moved(view, 0.15, reach)),
      "0": () => setView({ beginMs: 0, endMs: durationMs }),
      ArrowDown: () => step(1),
      ArrowUp: () => step(-1),
      j: () => step(1),
      k: () => step(-1),
      PageDown: () => step(page),
      PageUp: () => step(-page),
      Home: () => step(-spans.length),
      End: () => step(spans.length),
      ArrowLeft: () =>
        hasChildren(active) && !collapsed.has(active)
          ? close(active, true)
          : go(Math.max(0, spans[active]?.parent ?? 0)),
      ArrowRight: () => (collapsed.has(active) ? close(active, false) : step(1)),
      Enter: () => onSelect(selected === active ? null : active),
      Escape: () => onSelect(null),
      n: () => nextFind(event.shiftKey ? -1 : 1),
      "/": () => field.current?.querySelector("input")?.focus(),
    });
  };
  const reach = { endMs: durationMs, leastMs: 1e-3 };
  useZoom(scroll, { range: view, reach, plot: () => timesOf(scroll.current), onRange: setView });
  /** What the words of a time take, of the width. */
  const labelPercent = narrow ? 34 : 16;

  return (
    <div className={css.waterfall}>
      <div className={css.tools} ref={field}>
        <Input
          type="search"
          aria-label="Search in this trace"
          placeholder="Search names, services, attributes"
          value={text}
          spellCheck={false}
          onChange={(event) => setText(event.target.value)}
          onKeyDown={(event) => {
            if (event.key === "Enter") {
              nextFind(event.shiftKey ? -1 : 1);
            }
          }}
        />
        <span className={css.said} role="status">
          {text.trim() === "" ? "" : `${formatNumber(found.length)} found`}
        </span>
        <span className={css.legend}>
          <span className={css.pathMark} aria-hidden /> critical path
        </span>
        <IconButton
          label="Close all spans"
          onClick={() => setCollapsed(new Set(spans.filter(({ at }) => hasChildren(at)).map(({ at }) => at)))}
        >
          <ChevronsDownUp />
        </IconButton>
        <IconButton label="Open all spans" onClick={() => setCollapsed(new Set())}>
          <ChevronsUpDown />
        </IconButton>
        <IconButton label="Show the whole time (0)" onClick={() => setView({ beginMs: 0, endMs: durationMs })}>
          <Maximize />
        </IconButton>
      </div>
      <Minimap trace={trace} colours={colours} view={view} onView={setView} />
      <div
        ref={scroll}
        className={css.scroll}
        role="treegrid"
        aria-label="Spans"
        aria-rowcount={shown.length}
        aria-activedescendant={`${id}-active`}
        tabIndex={0}
        onKeyDown={onKey}
      >
        <Ruler view={view} narrow={narrow} labelPercent={labelPercent} />
        <SpanRows
          id={id}
          scroll={scroll}
          scrollTo={scrollTo}
          spans={spans}
          shown={shown}
          view={view}
          colours={colours}
          path={path}
          collapsed={collapsed}
          selected={selected}
          active={active}
          finds={finds}
          labelPercent={labelPercent}
          onOpen={(at) => close(at, !collapsed.has(at))}
          onSelect={(at) => {
            setActive(at);
            onSelect(at === selected ? null : at);
          }}
        />
      </div>
    </div>
  );
}

function Ruler(o: {
  readonly view: ResolvedRange;
  readonly narrow: boolean;
  readonly labelPercent: number;
}): ReactElement {
  return (
    <div className={css.ruler} role="presentation">
      <div />
      <div className={css.ticks}>
        {ticksOf(o.view, o.narrow ? 3 : 5).map((ms) => (
          <span key={ms} style={{ left: `${percent(ms, o.view)}%` }}>
            {/* At the end there is no room for it. */}
            {percent(ms, o.view) > 100 - o.labelPercent ? null : ms === 0 ? "0" : formatMilliseconds(ms)}
          </span>
        ))}
      </div>
    </div>
  );
}

/** Round moments, at most some more than wanted. */
function ticksOf({ beginMs, endMs }: ResolvedRange, wanted: number): readonly number[] {
  const least = (endMs - beginMs) / wanted;
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 1e-6)));
  const stepMs = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= least) ?? least;
  const first = Math.ceil(beginMs / stepMs);
  const count = Math.min(20, Math.floor(endMs / stepMs) - first + 1);
  return Array.from({ length: Math.max(0, count) }, (_, at) => Number(((first + at) * stepMs).toPrecision(12)));
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

/** What the window shows, in the address once the hand has come to rest: `zoom=1.5-20`. */
function useView(durationMs: number): readonly [ResolvedRange, (view: ResolvedRange) => void] {
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
  return [view, (next) => setPart(next.beginMs <= 0 && next.endMs >= durationMs ? null : next)];
}

/** Where on the screen the times are. */
function timesOf(host: HTMLElement | null): DOMRect | null {
  return host?.querySelector('[role="gridcell"]:last-child')?.getBoundingClientRect() ?? null;
}
