/**
 * Zooming and moving what is drawn over time, beside drawing over a part of it: two fingers, Ctrl and the wheel (which is
 * what a pinch on a touchpad is), Shift and the wheel.
 */
import { type KeyboardEvent, type RefObject, useEffect, useRef, useState } from "react";

import { serverNow } from "../../api/server-clock.js";
import type { ResolvedRange } from "../time-range.js";
import { moved, pinched, type Reach, zoomed, zoomedByKey } from "./zoom.js";

/** Where on the screen the range is drawn. */
interface Plot {
  readonly left: number;
  readonly width: number;
}

interface ZoomOptions {
  readonly range: ResolvedRange;
  readonly reach: Reach;
  /** Null: nothing is drawn. */
  readonly plot: () => Plot | null;
  readonly onRange: (range: ResolvedRange) => void;
}

/**
 * The element needs `touch-action: pan-y`, or the browser takes the fingers for itself.
 * @param o null: off
 * @returns whether two fingers are on it
 */
export function useZoom(element: RefObject<HTMLElement | null>, o: ZoomOptions | null): RefObject<boolean> {
  const latest = useRef(o);
  const isPinched = useRef(false);
  latest.current = o;
  const isOn = o !== null;
  useEffect(() => {
    const host = element.current;
    if (host === null || !isOn) {
      return undefined;
    }
    /** The fingers, by their ids: where they are, from the left of the screen. */
    const fingers = new Map<number, number>();
    /** What was under the two when the second came. */
    let moments: readonly [number, number] | null = null;
    const placesOf = ({ left, width }: Plot): readonly [number, number] => {
      const [first = 0, second = 0] = fingers.values();
      return [(first - left) / width, (second - left) / width];
    };
    const down = (event: PointerEvent): void => {
      if (event.pointerType !== "touch") {
        return;
      }
      fingers.set(event.pointerId, event.clientX);
      const plot = latest.current?.plot() ?? null;
      if (fingers.size === 2 && latest.current !== null && plot !== null) {
        const { beginMs, endMs } = latest.current.range;
        const [first, second] = placesOf(plot);
        isPinched.current = true;
        moments = [beginMs + first * (endMs - beginMs), beginMs + second * (endMs - beginMs)];
      }
    };
    const move = (event: PointerEvent): void => {
      if (fingers.has(event.pointerId)) {
        fingers.set(event.pointerId, event.clientX);
        const plot = latest.current?.plot() ?? null;
        if (moments !== null && plot !== null) {
          latest.current?.onRange(pinched(moments, placesOf(plot), latest.current.reach));
        }
      }
    };
    const up = (event: PointerEvent): void => {
      fingers.delete(event.pointerId);
      moments = null;
      isPinched.current = false;
    };
    const wheel = (event: WheelEvent): void => {
      const plot = latest.current?.plot() ?? null;
      if (latest.current === null || plot === null || (!event.ctrlKey && !event.shiftKey)) {
        return;
      }
      event.preventDefault();
      const { range, reach, onRange } = latest.current;
      const at = Math.max(0, Math.min(1, (event.clientX - plot.left) / plot.width));
      onRange(
        event.ctrlKey
          ? zoomed(range, event.deltaY > 0 ? 1.2 : 1 / 1.2, at, reach)
          : moved(range, (event.deltaY + event.deltaX) / 1000, reach),
      );
    };
    host.addEventListener("pointerdown", down);
    host.addEventListener("pointermove", move);
    host.addEventListener("pointerup", up);
    host.addEventListener("pointercancel", up);
    host.addEventListener("wheel", wheel, { passive: false });
    return () => {
      host.removeEventListener("pointerdown", down);
      host.removeEventListener("pointermove", move);
      host.removeEventListener("pointerup", up);
      host.removeEventListener("pointercancel", up);
      host.removeEventListener("wheel", wheel);
    };
  }, [element, isOn]);
  return isPinched;
}

interface RangeZoom {
  /** What to draw: the range of the page, or what somebody zooms to. */
  readonly shown: ResolvedRange;
  /** For a key; false: it does nothing here. */
  readonly onKey: (event: KeyboardEvent) => boolean;
}

/** How long a hand rests before anything is asked anew. */
const restMs = 300;

/**
 * {@link useZoom} of the time range of a page, which changes when the hand has come to rest.
 * @param o.onRange left out: it stays as it is
 */
export function useRangeZoom(
  element: RefObject<HTMLElement | null>,
  o: {
    readonly range: ResolvedRange;
    readonly plot: () => Plot | null;
    readonly onRange: ((range: ResolvedRange) => void) | undefined;
  },
): RangeZoom {
  const { beginMs, endMs } = o.range;
  const [own, setOwn] = useState<ResolvedRange | null>(null);
  /** What the hand asked for last, which may not be drawn yet. */
  const asked = useRef<ResolvedRange | null>(null);
  const shown = own ?? o.range;
  const onRange = useRef(o.onRange);
  onRange.current = o.onRange;
  const isOn = o.onRange !== undefined;
  useEffect(() => {
    asked.current = null;
    setOwn(null);
  }, [beginMs, endMs]);
  const change = (next: ResolvedRange): void => {
    const last = asked.current ?? o.range;
    if (next.beginMs !== last.beginMs || next.endMs !== last.endMs) {
      asked.current = next;
      setOwn(next);
    }
  };
  const reach = (): Reach => ({ endMs: Math.max(endMs, serverNow()), leastMs: 1 });
  const isPinched = useZoom(element, isOn ? { range: shown, reach: reach(), plot: o.plot, onRange: change } : null);
  useEffect(() => {
    if (own === null) {
      return undefined;
    }
    const rested = (): void => {
      // What is drawn anew would be gone from under the fingers.
      if (isPinched.current) {
        timer = setTimeout(rested, restMs);
      } else if (asked.current !== null) {
        onRange.current?.(asked.current);
      }
    };
    let timer = setTimeout(rested, restMs);
    return () => clearTimeout(timer);
  }, [own]);
  return {
    shown,
    onKey: (event) => {
      const next = event.ctrlKey || event.metaKey || event.altKey ? null : zoomedByKey(shown, event.key, reach());
      if (!isOn || next === null) {
        return false;
      }
      event.preventDefault();
      change(next);
      return true;
    },
  };
}
