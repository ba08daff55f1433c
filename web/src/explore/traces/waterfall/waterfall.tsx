/**
 * Spans over time, one a row, of which only those in view are made. W and S (or + and -) zoom, A and D move, arrows select, left and
 * right close and open, / searches, N goes to the next find, 0 shows all.
 */
import { ChevronsDownUp, ChevronsUpDown, Maximize } from "lucide-react";
import { type KeyboardEvent, type ReactElement, useId, useMemo, useRef, useState } from "react";

import { useZoom } from "../../../ui/chart/use-zoom.js";
import { IconButton, Input } from "../../../ui/controls/controls.js";
import { formatMilliseconds, formatNumber } from "../../../ui/format.js";
import { pressKey } from "../../../ui/controls/keys.js";
import { rowPixels } from "../../../ui/table/use-rows.js";
import type { ResolvedRange } from "../../../ui/time-range.js";
import { criticalPath, matching, type Trace } from "../trace-model.js";
import { Minimap } from "./minimap.js";
import { percent, SpanRows } from "./span-rows.js";
import { type SpanTree, treeKeys, useSpanTree } from "./use-span-tree.js";
import { timeKeys, useTimeView } from "./use-time-view.js";
import css from "./waterfall.module.css";

interface WaterfallProps {
  readonly trace: Trace;
  /** Of services. */
  readonly colours: ReadonlyMap<string, string>;
  readonly selected: number | null;
  readonly narrow: boolean;
  readonly onSelect: (at: number | null) => void;
}

export function Waterfall({ trace, colours, selected, narrow, onSelect }: WaterfallProps): ReactElement {
  const { spans } = trace;
  const id = useId();
  const time = useTimeView(trace.durationMs);
  const tree = useSpanTree(spans, selected, onSelect);
  const find = useFind(trace, tree);
  const path = useMemo(() => criticalPath(spans), [spans]);
  const scroll = useRef<HTMLDivElement | null>(null);
  const tools = useRef<HTMLDivElement | null>(null);
  useZoom(scroll, { range: time.view, reach: time.reach, plot: () => timesOf(scroll.current), onRange: time.setView });
  const select = (at: number): void => onSelect(at === selected ? null : at);
  const onKey = (event: KeyboardEvent): void =>
    pressKey(event, {
      ...timeKeys(time),
      ...treeKeys(tree, Math.max(1, Math.floor((scroll.current?.clientHeight ?? 300) / rowPixels) - 2)),
      Enter: () => select(tree.active),
      Escape: () => onSelect(null),
      n: () => find.next(event.shiftKey),
      "/": () => tools.current?.querySelector("input")?.focus(),
    });
  /** What the words of a time take, of the width. */
  const labelPercent = narrow ? 34 : 16;

  return (
    <div className={css.waterfall}>
      <div className={css.tools} ref={tools}>
        <FindField find={find} />
        <span className={css.legend}>
          <span className={css.pathMark} aria-hidden /> critical path
        </span>
        <IconButton label="Close all spans" onClick={tree.closeAll}>
          <ChevronsDownUp />
        </IconButton>
        <IconButton label="Open all spans" onClick={tree.openAll}>
          <ChevronsUpDown />
        </IconButton>
        <IconButton label="Show the whole time (0)" onClick={time.showAll}>
          <Maximize />
        </IconButton>
      </div>
      <Minimap trace={trace} colours={colours} view={time.view} onView={time.setView} />
      <div
        ref={scroll}
        className={css.scroll}
        role="treegrid"
        aria-label="Spans"
        aria-rowcount={tree.shown.length}
        aria-activedescendant={`${id}-active`}
        tabIndex={0}
        onKeyDown={onKey}
      >
        <Ruler view={time.view} narrow={narrow} labelPercent={labelPercent} />
        <SpanRows
          id={id}
          scroll={scroll}
          tree={tree}
          view={time.view}
          colours={colours}
          path={path}
          selected={selected}
          finds={find.places}
          labelPercent={labelPercent}
          onSelect={(at) => {
            tree.setActive(at);
            select(at);
          }}
        />
      </div>
    </div>
  );
}

type Find = ReturnType<typeof useFind>;

/** Spans with a text in them. */
function useFind(trace: Trace, { active, go }: SpanTree) {
  const [text, setText] = useState("");
  const found = useMemo(() => matching(trace, text), [trace, text]);
  const places = useMemo(() => new Set(found), [found]);
  const next = (isBack: boolean): void => {
    const at = isBack
      ? (found.findLast((each) => each < active) ?? found.at(-1))
      : (found.find((each) => each > active) ?? found[0]);
    if (at !== undefined) {
      go(at);
    }
  };
  return { text, setText, places, next };
}

function FindField({ find: { text, setText, places, next } }: { readonly find: Find }): ReactElement {
  return (
    <>
      <Input
        type="search"
        aria-label="Search in this trace"
        placeholder="Search names, services, attributes"
        value={text}
        spellCheck={false}
        onChange={(event) => setText(event.target.value)}
        onKeyDown={(event) => {
          if (event.key === "Enter") {
            next(event.shiftKey);
          }
        }}
      />
      <span className={css.said} role="status">
        {text.trim() === "" ? "" : `${formatNumber(places.size)} found`}
      </span>
    </>
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

/** Where on the screen the times are. */
function timesOf(host: HTMLElement | null): DOMRect | null {
  return host?.querySelector('[role="gridcell"]:last-child')?.getBoundingClientRect() ?? null;
}
