/** Rows as points of a scene. */
import type { QueryResult } from "../../api/query.js";
import { cellText } from "../../ui/table/table-columns.js";

/** Most points of a map. */
export const maxPoints = 50_000;

/** Points in the order of their rows; those without a place are left out. */
export interface MapPoints {
  readonly count: number;
  /** x, y, z of each. */
  readonly positions: Float32Array;
  /** The row of each in the result. */
  readonly rows: Uint32Array;
  /** From 0, the smallest value, to 1, the largest, of each; NaN without one; null where the result has no values. */
  readonly shares: Float32Array | null;
  /** Smallest and largest value. */
  readonly extent: readonly [number, number] | null;
  /** Rows without a place. */
  readonly left: number;
}

/** The points of a result, or why it has none, in a sentence. */
export function pointsOf(result: QueryResult): MapPoints | string {
  const find = (name: string) => result.columns.find((column) => column.name === name);
  const [x, y, z, value] = [find("x"), find("y"), find("z"), find("value")];
  if (x === undefined || y === undefined || z === undefined) {
    const missing = ["x", "y", "z"].filter((name) => find(name) === undefined);
    return `A map needs columns x, y and z; the query has no ${missing.join(", ")}.`;
  }
  const total = Math.min(result.rows, maxPoints);
  const positions = new Float32Array(total * 3);
  const rows = new Uint32Array(total);
  const values = new Float64Array(total);
  let count = 0;
  let [min, max] = [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY];
  for (let row = 0; row < total; row++) {
    const place = [x.number(row), y.number(row), z.number(row)].map(Math.fround);
    if (!place.every(Number.isFinite)) {
      continue;
    }
    positions.set(place, count * 3);
    rows[count] = row;
    const number = value?.number(row) ?? Number.NaN;
    values[count] = number;
    if (Number.isFinite(number)) {
      min = Math.min(min, number);
      max = Math.max(max, number);
    }
    count++;
  }
  const extent = min <= max ? ([min, max] as const) : null;
  return {
    count,
    positions: positions.subarray(0, count * 3),
    rows: rows.subarray(0, count),
    shares: extent === null ? null : Float32Array.from(values.subarray(0, count), (each) => shareOf(each, extent)),
    extent,
    left: total - count,
  };
}

function shareOf(value: number, [min, max]: readonly [number, number]): number {
  return !Number.isFinite(value) ? Number.NaN : max === min ? 1 : (value - min) / (max - min);
}

/** What a point is called: its label and value, or where it is. */
export function pointText(result: QueryResult, row: number): string {
  const text = (name: string): string | null => {
    const column = result.columns.find((each) => each.name === name);
    return column === undefined ? null : cellText(column.value(row), column.type);
  };
  const place = `${text("x") ?? ""}, ${text("y") ?? ""}, ${text("z") ?? ""}`;
  return [text("label"), text("value"), `at ${place}`].filter((part) => part !== null && part !== "").join(" · ");
}

/** A place on the canvas in pixels, and how large that is. */
interface CanvasPlace {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

/**
 * The point that is drawn within `reach` pixels, the one in front of others; null: none.
 * @param matrix 4 by 4 by columns, from the scene to clip space.
 */
export function pointAt(
  positions: Float32Array,
  matrix: readonly number[],
  place: CanvasPlace,
  reach: number,
): number | null {
  const m = (i: number): number => matrix[i] ?? 0;
  let found: number | null = null;
  let nearest = Number.POSITIVE_INFINITY;
  for (let i = 0; i < positions.length / 3; i++) {
    const [px, py, pz] = [positions[i * 3] ?? 0, positions[i * 3 + 1] ?? 0, positions[i * 3 + 2] ?? 0];
    const w = m(3) * px + m(7) * py + m(11) * pz + m(15);
    const x = ((m(0) * px + m(4) * py + m(8) * pz + m(12)) / w + 1) * 0.5 * place.width;
    const y = (1 - (m(1) * px + m(5) * py + m(9) * pz + m(13)) / w) * 0.5 * place.height;
    // Behind the eye w is negative; in front it is the distance.
    if (w > 0 && w < nearest && Math.hypot(x - place.x, y - place.y) <= reach) {
      found = i;
      nearest = w;
    }
  }
  return found;
}
