/**
 * Spans over time, one a row, of which only those in view are made. W and S zoom, A and D move, arrows select, left and
 * right close and open, / searches, N goes to the next find, 0 shows all.
 */
import { useVirtualizer } from "@tanstack/react-virtual";
import { ChevronDown, ChevronRight, CircleAlert, ChevronsDownUp, ChevronsUpDown, Maximize } from "lucide-react";
import { type KeyboardEvent, memo, type ReactElement, useEffect, useId, useMemo, useRef, useState } from "react";

import { textOf, useChangeSearch, useSearchParameters } from "../../app/search.js";
import { classes, IconButton, Input } from "../../ui/controls.js";
import { formatMilliseconds, formatNumber } from "../../ui/format.js";
import { elementsFor, rowSlots } from "../../ui/table/row-slots.js";
import { Minimap } from "./minimap.js";
import {
  criticalPath,
  matching,
  moved,
  type Span,
  type Stretch,
  type Trace,
  type View,
  visibleSpans,
  zoomed,
} from "./trace-model.js";
import css from "./waterfall.module.css";

const rowPixels = 28;
const overscan = 10;
const noStretches: readonly Stretch[] = [];

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
  const [collapsed, setCollapsed] = useState<ReadonlySet<number>>(new Set());
  const [text, setText] = useState("");
  const scroll = useRef<HTMLDivElement | null>(null);
  const field = useRef<HTMLDivElement | null>(null);
  const shown = useMemo(() => visibleSpans(spans, collapsed), [spans, collapsed]);
  const path = useMemo(() => criticalPath(spans), [spans]);
  const found = useMemo(() => matching(trace, text), [trace, text]);
  const finds = useMemo(() => new Set(found), [found]);
  const [active, setActive] = useState(selected ?? 0);
  const virtual = useVirtualizer({
    count: shown.length,
    getScrollElement: () => scroll.current,
    estimateSize: () => rowPixels,
    overscan,
    useFlushSync: false,
    scrollPaddingStart: rowPixels,
    scrollPaddingEnd: rowPixels, // the ruler moves all rows down
  });

  const items = virtual.getVirtualItems();
  const elements = Math.max(items.length, elementsFor(scroll.current?.clientHeight ?? 0, rowPixels, overscan));

  const go = (at: number): void => {
    // What is above it opens.
    const closed = new Set(collapsed);
    for (let above = spans[at]?.parent ?? -1; above >= 0; above = spans[above]?.parent ?? -1) {
      closed.delete(above);
    }
    const rows = closed.size === collapsed.size ? shown : visibleSpans(spans, closed);
    setCollapsed(closed);
    setActive(at);
    requestAnimationFrame(() => virtual.scrollToIndex(rows.indexOf(at)));
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
    virtual.scrollToIndex(row);
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
    if (event.ctrlKey || event.metaKey || event.altKey) {
      return;
    }
    const page = Math.max(1, Math.floor((scroll.current?.clientHeight ?? 300) / rowPixels) - 2);
    const actions: Readonly<Record<string, () => void>> = {
      w: () => setView(zoomed(view, 0.7, 0.5, durationMs)),
      s: () => setView(zoomed(view, 1 / 0.7, 0.5, durationMs)),
      a: () => setView(moved(view, -0.15, durationMs)),
      d: () => setView(moved(view, 0.15, durationMs)),
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
    };
    const action = actions[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (action !== undefined) {
      event.preventDefault();
      action();
    }
  };
  useWheel(scroll, view, setView, durationMs);
  const ticks = ticksOf(view, narrow ? 3 : 5);

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
        aria-activedescendant={`${id}-${active}`}
        tabIndex={0}
        onKeyDown={onKey}
      >
        <div className={css.ruler} role="presentation">
          <div />
          <div className={css.ticks}>
            {ticks.map((ms) => (
              <span
                key={ms}
                // It would be cut at the end.
                className={percent(ms, view) > 75 ? css.before : undefined}
                style={{ left: `${percent(ms, view)}%` }}
              >
                {ms === 0 ? "0" : formatMilliseconds(ms)}
              </span>
            ))}
          </div>
        </div>
        <div className={css.rows} role="rowgroup" style={{ height: virtual.getTotalSize() }}>
          {rowSlots(items[0]?.index ?? 0, elements, shown.length).map(({ slot, at: index }) => {
            const span = spans[shown[index] ?? 0];
            return span === undefined ? null : (
              <SpanRow
                key={slot}
                id={`${id}-${span.at}`}
                span={span}
                index={index}
                top={index * rowPixels}
                view={view}
                colour={colours.get(span.service) ?? "var(--series-0)"}
                stretches={path.get(span.at) ?? noStretches}
                open={hasChildren(span.at) ? !collapsed.has(span.at) : null}
                selected={span.at === selected}
                active={span.at === active}
                dimmed={finds.size > 0 && !finds.has(span.at)}
                onOpen={() => close(span.at, !collapsed.has(span.at))}
                onSelect={() => {
                  setActive(span.at);
                  onSelect(span.at === selected ? null : span.at);
                }}
              />
            );
          })}
        </div>
      </div>
    </div>
  );
}

interface SpanRowProps {
  readonly id: string;
  readonly span: Span;
  readonly index: number;
  readonly top: number;
  readonly view: View;
  readonly colour: string;
  readonly stretches: readonly Stretch[];
  /** Null: it has no children. */
  readonly open: boolean | null;
  readonly selected: boolean;
  readonly active: boolean;
  readonly dimmed: boolean;
  readonly onOpen: () => void;
  readonly onSelect: () => void;
}

/** Deeper spans are not set in further than this. */
const mostDepth = 16;
const mostStretches = 200;

const SpanRow = memo(
  function SpanRow(o: SpanRowProps): ReactElement {
    const { span, view } = o;
    const left = percent(span.startMs, view);
    const right = percent(span.startMs + span.durationMs, view);
    const from = Math.max(0, Math.min(100, left));
    const to = Math.max(from, Math.min(100, right));
    const gone = right < 0 || left > 100;
    const took = formatMilliseconds(span.durationMs);
    return (
      <div
        id={o.id}
        role="row"
        aria-level={span.depth + 1}
        aria-rowindex={o.index + 1}
        aria-selected={o.selected}
        {...(o.open === null ? {} : { "aria-expanded": o.open })}
        className={classes(css.row, o.active && css.active, o.dimmed && css.dimmed)}
        style={{ transform: `translateY(${o.top}px)` }}
        onClick={o.onSelect}
      >
        <div role="gridcell" className={css.name} style={{ paddingLeft: 4 + Math.min(span.depth, mostDepth) * 12 }}>
          {o.open === null ? (
            <span className={css.leaf} />
          ) : (
            <button
              type="button"
              className={css.toggle}
              tabIndex={-1}
              aria-label={`${o.open ? "Close" : "Open"} ${span.name}`}
              onClick={(event) => {
                event.stopPropagation();
                o.onOpen();
              }}
            >
              {o.open ? <ChevronDown aria-hidden /> : <ChevronRight aria-hidden />}
            </button>
          )}
          <span className={css.swatch} style={{ background: o.colour }} />
          {span.isError ? <CircleAlert className={css.failed} aria-label="failed" /> : null}
          <span className={css.words} title={`${span.service}: ${span.name}`}>
            <span className={css.service}>{span.service}</span> {span.name}
          </span>
        </div>
        <div role="gridcell" className={css.time}>
          {gone ? null : (
            <div
              className={classes(css.bar, span.isError && css.error)}
              style={{ left: `${from}%`, width: `${to - from}%`, background: o.colour }}
            />
          )}
          {o.stretches.slice(0, mostStretches).map(({ beginMs, endMs }) => {
            const begin = Math.max(0, percent(beginMs, view));
            const end = Math.min(100, percent(endMs, view));
            return end <= 0 || begin >= 100 ? null : (
              <div key={beginMs} className={css.path} style={{ left: `${begin}%`, width: `${end - begin}%` }} />
            );
          })}
          <span
            className={css.took}
            style={
              to > 82 || gone
                ? { right: gone && left > 100 ? 4 : `calc(${100 - from}% + 6px)` }
                : { left: `calc(${to}% + 6px)` }
            }
            data-inside={to > 82 && from < 18}
          >
            {took}
          </span>
        </div>
      </div>
    );
  },
  (before, after) =>
    before.span === after.span &&
    before.top === after.top &&
    before.view === after.view &&
    before.open === after.open &&
    before.selected === after.selected &&
    before.active === after.active &&
    before.dimmed === after.dimmed &&
    before.colour === after.colour,
);

const percent = (ms: number, { beginMs, endMs }: View): number =>
  ((ms - beginMs) / Math.max(1e-9, endMs - beginMs)) * 100;

/** Round moments, at most some more than wanted. */
function ticksOf({ beginMs, endMs }: View, wanted: number): readonly number[] {
  const least = (endMs - beginMs) / wanted;
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 1e-6)));
  const stepMs = [1, 2, 5, 10].map((each) => each * power).find((each) => each >= least) ?? least;
  const first = Math.ceil(beginMs / stepMs);
  const count = Math.min(20, Math.floor(endMs / stepMs) - first + 1);
  return Array.from({ length: Math.max(0, count) }, (_, at) => Number(((first + at) * stepMs).toPrecision(12))).filter(
    (ms) => percent(ms, { beginMs, endMs }) < 94,
  );
}

/** What the window shows, in the address once the hand has come to rest: `zoom=1.5-20`. */
function useView(durationMs: number): readonly [View, (view: View) => void] {
  const { zoom } = useSearchParameters();
  const change = useChangeSearch();
  const [view, setView] = useState<View>(() => {
    const [, begin = "", end = ""] = /^([\d.]{1,20})-([\d.]{1,20})$/.exec(textOf(zoom) ?? "") ?? [];
    const beginMs = Number(begin);
    const endMs = Number(end);
    return end !== "" && beginMs < endMs && endMs <= durationMs + 1e-3
      ? { beginMs, endMs }
      : { beginMs: 0, endMs: durationMs };
  });
  const first = useRef(true);
  useEffect(() => {
    if (first.current) {
      first.current = false;
      return undefined;
    }
    const whole = view.beginMs <= 0 && view.endMs >= durationMs;
    const text = `${Number(view.beginMs.toPrecision(9))}-${Number(view.endMs.toPrecision(9))}`;
    const timer = setTimeout(() => change({ zoom: whole ? undefined : text }, { replace: true }), 300);
    return () => clearTimeout(timer);
  }, [view]);
  return [view, setView];
}

/** Ctrl and the wheel zoom at the pointer, Shift and the wheel move. */
function useWheel(
  element: { readonly current: HTMLDivElement | null },
  view: View,
  setView: (view: View) => void,
  durationMs: number,
): void {
  const latest = useRef(view);
  latest.current = view;
  useEffect(() => {
    const host = element.current;
    const onWheel = (event: WheelEvent): void => {
      if (host === null || (!event.ctrlKey && !event.shiftKey)) {
        return;
      }
      event.preventDefault();
      const time = host.querySelector('[role="gridcell"]:last-child')?.getBoundingClientRect();
      const at = time === undefined ? 0.5 : Math.max(0, Math.min(1, (event.clientX - time.left) / time.width));
      setView(
        event.ctrlKey
          ? zoomed(latest.current, event.deltaY > 0 ? 1.2 : 1 / 1.2, at, durationMs)
          : moved(latest.current, (event.deltaY + event.deltaX) / 1000, durationMs),
      );
    };
    host?.addEventListener("wheel", onWheel, { passive: false });
    return () => host?.removeEventListener("wheel", onWheel);
  }, [durationMs]);
}
