/** Moving and zooming a map, with the hand, the wheel and two fingers; where it is, is in the address. */
import {
  type CSSProperties,
  type MouseEvent,
  type PointerEvent,
  type RefObject,
  useEffect,
  useRef,
  useState,
} from "react";

import { textOf, useChangeSearch, useSearchParameters } from "../../../app/search.js";
import {
  type Box,
  fitted,
  movedBy,
  parseViewport,
  showing,
  type Size,
  type Viewport,
  viewportText,
  zoomedAt,
} from "./viewport.js";

export interface MapView {
  /** Puts the map where it is seen. */
  readonly style: CSSProperties;
  /** By pixels of the screen. */
  readonly move: (x: number, y: number) => void;
  /** Around the middle of the screen. */
  readonly zoom: (factor: number) => void;
  readonly showAll: () => void;
  readonly show: (box: Box) => void;
  /** For the element that the map is seen through. */
  readonly handlers: {
    readonly onPointerDown: (event: PointerEvent) => void;
    readonly onPointerMove: (event: PointerEvent) => void;
    readonly onPointerUp: (event: PointerEvent) => void;
    readonly onPointerCancel: (event: PointerEvent) => void;
    readonly onClickCapture: (event: MouseEvent) => void;
  };
}

/** Of a key or a button. */
export const zoomStep = 1.3;
/** A hand that trembles clicks all the same. */
const clickPixels = 4;

/** @param element what the map is seen through */
export function useViewport(element: RefObject<HTMLElement | null>, { width, height }: Size): MapView {
  const map = { width, height };
  const search = useSearchParameters();
  const change = useChangeSearch();
  const [host, setHost] = useState<Size>({ width: 0, height: 0 });
  const text = textOf(search["place"]);
  // What has been done and is not in the address yet.
  const [moved, setMoved] = useState<Viewport | null>(null);
  const view = moved ?? parseViewport(text) ?? fitted(map, host);
  const latest = useRef({ view, host });
  latest.current = { view, host };
  // Several events may come before the next rendering.
  const put = (next: Viewport): void => {
    latest.current = { ...latest.current, view: next };
    setMoved(next);
  };

  useEffect(() => {
    if (moved === null) {
      return undefined;
    }
    if (viewportText(moved) === text) {
      setMoved(null);
      return undefined;
    }
    const timer = setTimeout(() => change({ place: viewportText(moved) }, { replace: true }), 250);
    return () => clearTimeout(timer);
  }, [moved, text]);

  useEffect(() => {
    const found = element.current;
    if (found === null) {
      return undefined;
    }
    const resized = new ResizeObserver(() => setHost({ width: found.clientWidth, height: found.clientHeight }));
    resized.observe(found);
    const onWheel = (event: WheelEvent): void => {
      event.preventDefault();
      const { left, top } = found.getBoundingClientRect();
      const { view: before, host: size } = latest.current;
      put(
        event.shiftKey
          ? movedBy(before, -event.deltaY - event.deltaX, 0)
          : zoomedAt(
              before,
              Math.exp(-event.deltaY / (event.ctrlKey ? 120 : 500)),
              { x: event.clientX - left, y: event.clientY - top },
              size,
            ),
      );
    };
    found.addEventListener("wheel", onWheel, { passive: false });
    return () => {
      resized.disconnect();
      found.removeEventListener("wheel", onWheel);
    };
  }, []);

  const fingers = useRef(new Map<number, { readonly x: number; readonly y: number }>());
  const travelled = useRef(0);
  const end = (event: PointerEvent): void => void fingers.current.delete(event.pointerId);
  const middle = { x: host.width / 2, y: host.height / 2 };
  return {
    style: {
      ...map,
      visibility: host.width === 0 ? "hidden" : undefined,
      transform: `translate(${middle.x - view.x * view.scale}px, ${middle.y - view.y * view.scale}px) scale(${view.scale})`,
    },
    move: (x, y) => put(movedBy(view, x, y)),
    zoom: (factor) => put(zoomedAt(view, factor, middle, host)),
    showAll: () => put(fitted(map, host, true)),
    show: (box) => put(showing(view, box, host)),
    handlers: {
      onPointerDown: (event) => {
        if (event.button === 0) {
          travelled.current = fingers.current.size === 0 ? 0 : clickPixels + 1;
          fingers.current.set(event.pointerId, { x: event.clientX, y: event.clientY });
        }
      },
      onPointerMove: (event) => {
        const before = fingers.current.get(event.pointerId);
        if (before === undefined) {
          return;
        }
        const now = { x: event.clientX, y: event.clientY };
        travelled.current += Math.hypot(now.x - before.x, now.y - before.y);
        fingers.current.set(event.pointerId, now);
        if (travelled.current <= clickPixels) {
          return;
        }
        // Only now: what is captured is clicked, too.
        event.currentTarget.setPointerCapture(event.pointerId);
        const other = [...fingers.current].find(([id]) => id !== event.pointerId)?.[1];
        const dragged = movedBy(
          latest.current.view,
          (now.x - before.x) / fingers.current.size,
          (now.y - before.y) / fingers.current.size,
        );
        const { left, top } = event.currentTarget.getBoundingClientRect();
        put(
          other === undefined
            ? dragged
            : zoomedAt(
                dragged,
                Math.hypot(now.x - other.x, now.y - other.y) /
                  Math.max(1, Math.hypot(before.x - other.x, before.y - other.y)),
                { x: (now.x + other.x) / 2 - left, y: (now.y + other.y) / 2 - top },
                latest.current.host,
              ),
        );
      },
      onPointerUp: end,
      onPointerCancel: end,
      onClickCapture: (event) => {
        // The keyboard clicks without travelling.
        if (event.detail > 0 && travelled.current > clickPixels) {
          event.preventDefault();
          event.stopPropagation();
        }
        travelled.current = 0;
      },
    },
  };
}
