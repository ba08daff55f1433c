/** Which part of a map is on the screen. */

export interface Viewport {
  /** Pixels of the screen for one of the map. */
  readonly scale: number;
  /** What of the map is in the middle of the screen. */
  readonly x: number;
  readonly y: number;
}

export interface Size {
  readonly width: number;
  readonly height: number;
}

/** With its upper left corner. */
export interface Box extends Size {
  readonly x: number;
  readonly y: number;
}

const limits = { least: 0.1, most: 2.5 } as const;
/** At first the map is no smaller, so that it can be read, and no larger. */
const readable = { least: 0.72, most: 1.15 } as const;

/** The whole map in the middle. @param isWhole even where it is too small to be read; else its left end. */
export function fitted(map: Size, host: Size, isWhole = false): Viewport {
  const fits = Math.min(host.width / Math.max(1, map.width), host.height / Math.max(1, map.height));
  const scale = Math.min(readable.most, Math.max(isWhole ? limits.least : readable.least, fits));
  const seen = host.width / scale;
  return { scale, x: seen < map.width ? seen / 2 : map.width / 2, y: map.height / 2 };
}

/** @param at a place on the screen, from its upper left corner, where the map stays as it is. */
export function zoomedAt(
  view: Viewport,
  factor: number,
  at: { readonly x: number; readonly y: number },
  host: Size,
): Viewport {
  const scale = Math.min(limits.most, Math.max(limits.least, view.scale * factor));
  const keep = 1 / view.scale - 1 / scale;
  return { scale, x: view.x + (at.x - host.width / 2) * keep, y: view.y + (at.y - host.height / 2) * keep };
}

/** @param x, y pixels of the screen by which the map moves. */
export function movedBy(view: Viewport, x: number, y: number): Viewport {
  return { ...view, x: view.x - x / view.scale, y: view.y - y / view.scale };
}

/** The same view when a box of the map is in it, else with the box in the middle. */
export function showing(view: Viewport, box: Box, host: Size): Viewport {
  const halfWidth = host.width / view.scale / 2;
  const halfHeight = host.height / view.scale / 2;
  const isIn =
    box.x >= view.x - halfWidth &&
    box.x + box.width <= view.x + halfWidth &&
    box.y >= view.y - halfHeight &&
    box.y + box.height <= view.y + halfHeight;
  return isIn ? view : { ...view, x: box.x + box.width / 2, y: box.y + box.height / 2 };
}

/** As an address has it: `0.8,420,130`. */
export function viewportText({ scale, x, y }: Viewport): string {
  return `${Number(scale.toFixed(3))},${Math.round(x)},${Math.round(y)}`;
}

/** Null for what {@link viewportText} does not make. */
export function parseViewport(text: string | null): Viewport | null {
  const found = /^(\d(?:\.\d{1,3})?),(-?\d{1,6}),(-?\d{1,6})$/.exec(text ?? "");
  const scale = Number(found?.[1]);
  return found === null || scale < limits.least || scale > limits.most
    ? null
    : { scale, x: Number(found[2]), y: Number(found[3]) };
}
