/** The rows of a waterfall, of which only those in view are made. */
import { ChevronRight, CircleAlert } from "lucide-react";
import { memo, type ReactElement, type RefObject, useRef } from "react";

import { classes } from "../../../ui/controls/controls.js";
import { formatMilliseconds } from "../../../ui/format.js";
import { PrintedRows } from "../../../ui/table/printed-rows.js";
import { rowPixels, useRows } from "../../../ui/table/use-rows.js";
import type { ResolvedRange } from "../../../ui/time-range.js";
import type { Span, Stretch } from "../trace-model.js";
import type { SpanTree } from "./use-span-tree.js";
import css from "./waterfall.module.css";

/** Above the rows. */
const rulerPixels = 25;
const noStretches: readonly Stretch[] = [];

interface SpanRowsProps {
  /** Of the active row, which has `-active` behind it. */
  readonly id: string;
  readonly scroll: RefObject<HTMLElement | null>;
  readonly tree: SpanTree;
  readonly view: ResolvedRange;
  readonly colours: ReadonlyMap<string, string>;
  readonly path: ReadonlyMap<number, readonly Stretch[]>;
  readonly selected: number | null;
  /** Empty: none is looked for. */
  readonly finds: ReadonlySet<number>;
  /** What the words of a time take, of the width. */
  readonly labelPercent: number;
  readonly onSelect: (at: number) => void;
}

/** Scrolling makes these again, and nothing else of the waterfall. */
export function SpanRows(o: SpanRowsProps): ReactElement {
  const { spans, shown, active, collapsed } = o.tree;
  const { slots, scrollTo } = useRows(o.scroll, shown.length, rulerPixels);
  o.tree.scrollTo.current = scrollTo;
  // Rows keep what they were made with.
  const latest = useRef(o);
  latest.current = o;
  const handlers = useRef({
    onOpen: (at: number): void => latest.current.tree.toggle(at),
    onSelect: (at: number): void => latest.current.onSelect(at),
  });
  return (
    <div className={css.rows} role="rowgroup" style={{ height: shown.length * rowPixels }}>
      {slots.map(({ slot, at: index }) => {
        const span = spans[shown[index] ?? 0];
        return span === undefined ? null : (
          <SpanRow
            key={slot}
            id={span.at === active ? `${o.id}-active` : undefined}
            span={span}
            index={index}
            view={o.view}
            colour={o.colours.get(span.service) ?? "var(--series-0)"}
            stretches={o.path.get(span.at) ?? noStretches}
            open={span.end > span.at + 1 ? !collapsed.has(span.at) : null}
            selected={span.at === o.selected}
            active={span.at === active}
            labelPercent={o.labelPercent}
            dimmed={o.finds.size > 0 && !o.finds.has(span.at)}
            {...handlers.current}
          />
        );
      })}
      <PrintedRows made={slots.length} rows={shown.length} />
    </div>
  );
}

interface SpanRowProps {
  readonly id: string | undefined;
  readonly span: Span;
  readonly index: number;
  readonly view: ResolvedRange;
  readonly colour: string;
  readonly stretches: readonly Stretch[];
  /** Null: it has no children. */
  readonly open: boolean | null;
  readonly selected: boolean;
  readonly active: boolean;
  readonly dimmed: boolean;
  readonly labelPercent: number;
  readonly onOpen: (at: number) => void;
  readonly onSelect: (at: number) => void;
}

/** Deeper spans are not set in further than this. */
const mostDepth = 16;
const mostStretches = 200;

const SpanRow = memo(function SpanRow(o: SpanRowProps): ReactElement {
  const { span, view } = o;
  const left = percent(span.startMs, view);
  const right = percent(span.startMs + span.durationMs, view);
  const from = Math.max(0, Math.min(100, left));
  const to = Math.max(from, Math.min(100, right));
  const gone = right < 0 || left > 100;
  const isBefore = gone || to > 100 - o.labelPercent;
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
      style={{ transform: `translateY(${o.index * rowPixels}px)`, order: o.index }}
      onClick={() => o.onSelect(span.at)}
    >
      <div
        role="gridcell"
        className={css.name}
        style={{ paddingLeft: `min(${4 + Math.min(span.depth, mostDepth) * 12}px, 45%)` }}
      >
        {/* Hidden where there is nothing to open, and not left out: its element serves the next row. */}
        <button
          type="button"
          className={css.toggle}
          tabIndex={-1}
          hidden={o.open === null}
          data-open={o.open}
          aria-label={`${o.open === true ? "Close" : "Open"} ${span.name}`}
          onClick={(event) => {
            event.stopPropagation();
            o.onOpen(span.at);
          }}
        >
          <ChevronRight aria-hidden />
        </button>
        <span className={css.swatch} style={{ background: o.colour }} />
        {span.isError ? <CircleAlert className={css.failed} aria-label="failed" /> : null}
        <span
          className={css.words}
          onMouseMove={({ currentTarget }) => {
            // Made when it is pointed at: most rows only pass by.
            currentTarget.title = `${span.service}: ${span.name}`;
          }}
        >
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
            isBefore ? { right: gone && left > 100 ? 4 : `calc(${100 - from}% + 6px)` } : { left: `calc(${to}% + 6px)` }
          }
          data-inside={to > 100 - o.labelPercent && from < o.labelPercent}
        >
          {took}
        </span>
      </div>
    </div>
  );
});

/** Where a moment is, of the width. */
export const percent = (ms: number, { beginMs, endMs }: ResolvedRange): number =>
  ((ms - beginMs) / Math.max(1e-9, endMs - beginMs)) * 100;
