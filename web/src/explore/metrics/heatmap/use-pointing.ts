/** What the pointer is at in a heatmap, the span that it draws, and what a click does. */
import { type DOMAttributes, type PointerEvent, type RefObject, useState } from "react";

import type { ResolvedRange } from "../../../ui/time-range.js";
import type { Cell, HeatmapPlot, Place } from "./heatmap-plot.js";
import type { Exemplar } from "./heatmap-query.js";
import { zoomedRange } from "./scale.js";

/** Of a click beside a diamond. */
const reach = 8;

/** What is pointed at, and where to say so. */
export interface Pointed extends Place {
  readonly cell: Cell | null;
  readonly exemplar: Exemplar | null;
  /** Said aloud: moved by keyboard. */
  readonly isKey: boolean;
}

/** A span that is being drawn, in pixels. */
export interface Drawn {
  readonly from: number;
  readonly to: number;
}

/** Whether it is more than a click. */
export const isDrawn = ({ from, to }: Drawn): boolean => Math.abs(to - from) > 6;

interface Pointing {
  readonly pointed: Pointed | null;
  readonly setPointed: (pointed: Pointed | null) => void;
  readonly drawn: Drawn | null;
  /** Zooms in around a moment. */
  readonly zoomTo: (ms: number) => void;
  /** For the element of the plot. */
  readonly handlers: DOMAttributes<HTMLElement>;
}

/** @param o.leastMs zooming in makes no shorter range */
export function usePointing(
  element: RefObject<HTMLElement | null>,
  plot: HeatmapPlot,
  o: {
    readonly leastMs: number;
    readonly onRange: (range: ResolvedRange) => void;
    readonly onExemplar: (exemplar: Exemplar) => void;
  },
): Pointing {
  const [pointed, setPointed] = useState<Pointed | null>(null);
  const [drawn, setDrawn] = useState<Drawn | null>(null);
  const placeOf = (event: PointerEvent): Place => {
    const { left = 0, top = 0 } = element.current?.getBoundingClientRect() ?? {};
    return { x: event.clientX - left, y: event.clientY - top };
  };
  const exemplarAt = ({ x, y }: Place): Exemplar | null =>
    plot.points.find((point) => Math.hypot(point.x - x, point.y - y) <= reach)?.exemplar ?? null;
  const zoomTo = (ms: number): void => {
    const next = zoomedRange(plot.range, ms, o.leastMs);
    if (next !== null) {
      o.onRange(next);
    }
  };
  const click = (place: Place): void => {
    const exemplar = exemplarAt(place);
    if (exemplar === null) {
      zoomTo(plot.timeAt(place.x));
    } else {
      o.onExemplar(exemplar);
    }
  };
  return {
    pointed,
    setPointed,
    drawn,
    zoomTo,
    handlers: {
      onBlur: () => setPointed(null),
      onPointerDown: (event) => {
        if (!event.isPrimary) {
          setDrawn(null); // two fingers zoom
        } else if (event.button === 0) {
          const { x } = placeOf(event);
          event.currentTarget.setPointerCapture(event.pointerId);
          setDrawn({ from: x, to: x });
        }
      },
      onPointerMove: (event) => {
        const place = placeOf(event);
        const cell = plot.cellAt(place);
        const exemplar = exemplarAt(place);
        setPointed(cell === null && exemplar === null ? null : { ...place, cell, exemplar, isKey: false });
        setDrawn((before) => (before === null ? null : { ...before, to: place.x }));
      },
      onPointerUp: (event) => {
        if (drawn !== null && isDrawn(drawn)) {
          const { from, to } = drawn;
          o.onRange({ beginMs: plot.timeAt(Math.min(from, to)), endMs: plot.timeAt(Math.max(from, to)) });
        } else if (drawn !== null) {
          click(placeOf(event));
        }
        setDrawn(null);
      },
      onPointerCancel: () => setDrawn(null),
      onPointerLeave: () => setPointed(null),
    },
  };
}
