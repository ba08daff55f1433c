/** What charts share that draw themselves. */
import { type RefObject, useEffect, useState } from "react";

/** Pixels of an element inside, as they change; 0 before it is there. */
export function useWidth(element: RefObject<HTMLElement | null>): number {
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const resized = new ResizeObserver(() => setWidth(element.current?.clientWidth ?? 0));
    if (element.current !== null) {
      resized.observe(element.current);
    }
    return () => resized.disconnect();
  }, [element]);
  return width;
}

/** Empties a canvas and gives it a size, to be drawn on in pixels of the page; null where there is nothing to draw on. */
export function blankCanvas(
  canvas: HTMLCanvasElement | null,
  width: number,
  height: number,
): CanvasRenderingContext2D | null {
  const context = canvas?.getContext("2d") ?? null;
  if (canvas === null || context === null || width === 0) {
    return null;
  }
  const ratio = window.devicePixelRatio;
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  context.scale(ratio, ratio);
  return context;
}
