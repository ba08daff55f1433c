/** Nearer and further, to and fro, of what is drawn over time. */
import type { ResolvedRange } from "../time-range.js";

/** How far a range may reach; it begins at 0 at the earliest. */
export interface Reach {
  readonly endMs: number;
  /** The shortest range. */
  readonly leastMs: number;
}

/** @param factor below 1 is nearer; @param at the place that stays where it is, 0 to 1. */
export function zoomed(range: ResolvedRange, factor: number, at: number, reach: Reach): ResolvedRange {
  const span = range.endMs - range.beginMs;
  const next = Math.min(reach.endMs, Math.max(span * factor, Math.min(reach.endMs, reach.leastMs)));
  const beginMs = range.beginMs + (span - next) * at;
  return moved({ beginMs, endMs: beginMs + next }, 0, reach);
}

/** @param by of its own length. */
export function moved(range: ResolvedRange, by: number, { endMs }: Reach): ResolvedRange {
  const span = range.endMs - range.beginMs;
  const beginMs = Math.max(0, Math.min(endMs - span, range.beginMs + span * by));
  return { beginMs, endMs: beginMs + span };
}

/** Closer fingers than this, of the width, say nothing. */
const leastPinch = 0.02;

/**
 * The range in which two moments are where two fingers are.
 * @param places of the fingers, 0 to 1 of the width
 */
export function pinched(
  moments: readonly [number, number],
  places: readonly [number, number],
  reach: Reach,
): ResolvedRange {
  const apart = Math.max(leastPinch, Math.abs(places[1] - places[0]));
  const span = Math.min(reach.endMs, Math.max(reach.leastMs, Math.abs(moments[1] - moments[0]) / apart));
  const middle = (places[0] + places[1]) / 2;
  const beginMs = (moments[0] + moments[1]) / 2 - middle * span;
  return moved({ beginMs, endMs: beginMs + span }, 0, reach);
}

/** What a key does: + and - zoom, the arrows move, by a quarter. Null: nothing. */
export function zoomedByKey(range: ResolvedRange, key: string, reach: Reach): ResolvedRange | null {
  switch (key) {
    case "+":
    case "=":
      return zoomed(range, 0.5, 0.5, reach);
    case "-":
      return zoomed(range, 2, 0.5, reach);
    case "ArrowLeft":
      return moved(range, -0.25, reach);
    case "ArrowRight":
      return moved(range, 0.25, reach);
    default:
      return null;
  }
}
