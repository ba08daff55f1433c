/**
 * A chart over time. The cursors of all charts of a page move together; drawing over a span chooses it as time range, and
 * two fingers, Ctrl with the wheel, + and - zoom.
 * The legend is a table: its rows turn series on and off, its heads sort it, and it shows the values at the cursor.
 */
import "uplot/dist/uPlot.min.css";

// oxlint-disable-next-line import/no-unassigned-import -- uPlot has to find what it does
import "./valid-language.js";

import { type ReactElement, useEffect, useMemo, useRef, useState } from "react";
import uPlot from "uplot";

import { classes } from "../controls/controls.js";
import { formatNumber } from "../format.js";
import { Banner } from "../states.js";
import { resolvedColour, seriesColours, useThemeVersion } from "../colours.js";
import type { ResolvedRange } from "../time-range.js";
import css from "./chart.module.css";
import { Legend } from "./legend.js";
import { type ChartData, lineValues, lonePoints, stacked } from "./series.js";
import { type TimeTick, timeTicks } from "./time-ticks.js";
import { formatUnit, stepsOf, type Unit } from "./units.js";
import { useRangeZoom } from "./use-zoom.js";

interface TimeChartProps {
  /** What it shows, for those who do not see it; the heading where `heading` is set. */
  readonly title: string;
  readonly heading?: boolean;
  readonly data: ChartData;
  readonly range: ResolvedRange;
  readonly unit?: Unit;
  /** `bars` are stacked, as wide as their buckets. */
  readonly kind?: "lines" | "bars";
  readonly height?: number;
  /** Left out: shown for two series and more. */
  readonly legend?: boolean;
  /** Called with the span that was drawn over or zoomed to; see PageRange.setRange. */
  readonly onRange?: (range: ResolvedRange) => void;
  readonly stale?: boolean;
}

const cursors = uPlot.sync("page");
/** Least width of the axis of values, so that charts below one another line up; beside its labels are ticks and gaps. */
const valuesWidth = 56;
const besideLabels = 12;
/** That a label of time has. */
const labelWidth = 90;

export function TimeChart(o: TimeChartProps): ReactElement {
  const { data, range, unit = "number", kind = "lines", height = 180, title, heading = false } = o;
  const host = useRef<HTMLDivElement | null>(null);
  const plot = useRef<uPlot | null>(null);
  const [hidden, setHidden] = useState<ReadonlySet<string>>(new Set());
  const [cursor, setCursor] = useState<number | null>(null);
  const theme = useThemeVersion();
  const onRange = useRef(o.onRange);
  onRange.current = o.onRange;
  const zoom = useRangeZoom(host, {
    range,
    plot: () => plot.current?.over.getBoundingClientRect() ?? null,
    onRange: o.onRange,
  });
  const shown = useRef(range);
  shown.current = zoom.shown;

  const colours = useMemo(() => {
    const own = seriesColours(data.series.map(({ name }) => name));
    return data.series.map(({ colour }, at) => colour ?? own[at] ?? "var(--series-0)");
  }, [data]);
  const drawn = useMemo(() => drawnSeries(data, kind, hidden, colours), [data, kind, hidden, colours]);

  useEffect(() => {
    const element = host.current;
    if (element === null) {
      return undefined;
    }
    const made = new uPlot(
      optionsFor({ drawn, range, shown, unit, kind, height, width: element.clientWidth, onRange, onCursor: setCursor }),
      drawn.data,
      element,
    );
    cursors.sub(made);
    plot.current = made;
    const resized = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height }));
    resized.observe(element);
    return () => {
      resized.disconnect();
      cursors.unsub(made);
      made.destroy();
    };
  }, [drawn, range.beginMs, range.endMs, unit, kind, height, theme]);
  useEffect(() => {
    if (zoom.shown !== range) {
      plot.current?.setScale("x", { min: zoom.shown.beginMs / 1000, max: zoom.shown.endMs / 1000 });
    }
  }, [zoom.shown]);

  return (
    <figure
      className={classes(css.chart, o.stale === true && css.stale)}
      aria-busy={o.stale === true}
      style={{ margin: 0 }}
    >
      <figcaption className={heading ? css.title : "visually-hidden"}>{title}</figcaption>
      {data.of === undefined ? null : (
        <Banner kind="warn">
          Only the first {formatNumber(data.series.length)} of {formatNumber(data.of)} series are drawn.
        </Banner>
      )}
      <div
        className={css.zoom}
        {...(o.onRange === undefined
          ? {}
          : { tabIndex: 0, role: "group", "aria-label": `${title}: + and - zoom, arrows move`, onKeyDown: zoom.onKey })}
      >
        <div ref={host} className={css.plot} style={{ height }} role="img" aria-label={title} />
      </div>
      {(o.legend ?? data.series.length > 1) ? (
        <Legend
          data={data}
          colours={colours}
          unit={unit}
          cursor={cursor}
          hidden={hidden}
          onToggle={(name, alone) => setHidden(toggled(hidden, name, alone, data))}
        />
      ) : null}
    </figure>
  );
}

interface Drawn {
  readonly names: readonly string[];
  readonly colours: readonly string[];
  readonly data: uPlot.AlignedData;
}

/** Bars are drawn from the sum of all down to the first, each over what is behind it. */
function drawnSeries(
  data: ChartData,
  kind: "lines" | "bars",
  hidden: ReadonlySet<string>,
  colours: readonly string[],
): Drawn {
  const shown = data.series
    .map((series, at) => ({ series, colour: colours[at] ?? "" }))
    .filter(({ series }) => !hidden.has(series.name));
  const seconds = Float64Array.from(data.times, (ms) => ms / 1000);
  if (kind === "bars") {
    const sums = stacked(shown.map(({ series }) => series));
    const order = shown.map((_, at) => at).toReversed();
    return {
      names: order.map((at) => shown[at]?.series.name ?? ""),
      colours: order.map((at) => shown[at]?.colour ?? ""),
      data: [seconds, ...order.map((at) => sums[at] ?? new Float64Array(0))],
    };
  }
  return {
    names: shown.map(({ series }) => series.name),
    colours: shown.map(({ colour }) => colour),
    data: [seconds, ...shown.map(({ series }) => lineValues(data.times, series.values))],
  };
}

function optionsFor(o: {
  readonly drawn: Drawn;
  readonly range: ResolvedRange;
  /** The range, or what somebody zooms to. */
  readonly shown: { readonly current: ResolvedRange };
  readonly unit: Unit;
  readonly kind: "lines" | "bars";
  readonly width: number;
  readonly height: number;
  readonly onRange: { readonly current: ((range: ResolvedRange) => void) | undefined };
  readonly onCursor: (at: number | null) => void;
}): uPlot.Options {
  const muted = resolvedColour("var(--text-muted)");
  const grid = resolvedColour("var(--border)");
  const font = '11px "Inter Variable", sans-serif';
  const axis = { stroke: muted, font, ticks: { stroke: grid, width: 1, size: 4 }, grid: { stroke: grid, width: 1 } };
  const steps = stepsOf(o.unit);
  let ticks: readonly TimeTick[] = [];
  const bars = uPlot.paths.bars?.({ size: [0.85, 60, 1], align: 1 });
  return {
    width: Math.max(80, o.width),
    height: o.height,
    legend: { show: false },
    padding: [8, 18, 0, 0],
    scales: {
      x: { time: false, range: () => [o.shown.current.beginMs / 1000, o.shown.current.endMs / 1000] },
      y: { range: (_self, min, max) => [Math.min(0, min), max > min || max > 0 ? max * 1.05 : 1] },
    },
    axes: [
      {
        ...axis,
        size: 30,
        grid: { show: false },
        incrs: [1e12], // any that is large enough: the labels are where `splits` has them
        splits: (self, _axis, min, max) => {
          ticks = timeTicks({ beginMs: min * 1000, endMs: max * 1000 }, (self.width - valuesWidth) / labelWidth);
          return ticks.map(({ ms }) => ms / 1000);
        },
        values: () => ticks.map(({ text }) => text),
      },
      {
        ...axis,
        size: (self, labels) => {
          self.ctx.font = font;
          const widths = (labels ?? []).map((label) => self.ctx.measureText(label).width);
          return Math.ceil(Math.max(valuesWidth, ...widths.map((width) => width + besideLabels)));
        },
        space: 32,
        ...(steps === null ? {} : { incrs: steps }),
        values: (_self, splits) => splits.map((value) => formatUnit(value, o.unit)),
      },
    ],
    cursor: {
      sync: { key: "page" },
      drag: { x: true, y: false, setScale: false },
      points: { size: 6 },
      y: false,
    },
    series: [
      {},
      ...o.drawn.names.map((label, at): uPlot.Series => {
        const colour = resolvedColour(o.drawn.colours[at] ?? "");
        return {
          label,
          stroke: colour,
          width: o.kind === "bars" ? 0 : 1.5,
          points: {
            fill: colour,
            show: o.kind === "lines" && o.drawn.data[0].length < 3,
            filter: (self, of, show) => (show || o.kind === "bars" ? null : lonePoints(self.data[of] ?? [])),
          },
          ...(o.kind === "bars" && bars !== undefined ? { paths: bars, fill: colour } : {}),
        };
      }),
    ],
    hooks: {
      setCursor: [(self) => o.onCursor(self.cursor.idx ?? null)],
      setSelect: [
        (self) => {
          const { left, width } = self.select;
          if (width > 3) {
            const beginMs = self.posToVal(left, "x") * 1000;
            const endMs = self.posToVal(left + width, "x") * 1000;
            self.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
            o.onRange.current?.({ beginMs, endMs });
          }
        },
      ],
    },
  };
}

/** @param alone show this one and no other, or all again */
function toggled(hidden: ReadonlySet<string>, name: string, alone: boolean, data: ChartData): ReadonlySet<string> {
  const others = data.series.map((series) => series.name).filter((each) => each !== name);
  if (alone) {
    const isAlone = !hidden.has(name) && others.every((each) => hidden.has(each));
    return new Set(isAlone ? [] : others);
  }
  const next = new Set(hidden);
  if (!next.delete(name)) {
    next.add(name);
  }
  return next;
}
