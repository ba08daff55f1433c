/**
 * Places of the nodes and edges of a graph, in columns from left to right. The same graph has the same places, whatever
 * order it comes in. An edge passes between the nodes of the columns that it crosses.
 */
import { type Item, placeVertically, reduceCrossings } from "./columns.js";
import { layersOf } from "./layers.js";

interface Point {
  readonly x: number;
  readonly y: number;
}

/** Pixels. */
interface Sizes {
  readonly width: number;
  readonly height: number;
  /** Between columns, and between the nodes of one. */
  readonly gapX: number;
  readonly gapY: number;
}

export interface Route {
  /** For `d` of a path. */
  readonly path: string;
  readonly end: Point;
  /** Whether it ends at the left side of a node, or at the right one: it goes back, or stays in its column. */
  readonly isForward: boolean;
  /** On the edge, about half way. */
  readonly middle: Point;
}

/** What is drawn, from 0, 0. */
export interface Layout {
  readonly width: number;
  readonly height: number;
  /** Upper left corners, and the column. */
  readonly nodes: ReadonlyMap<string, Point & { readonly layer: number }>;
  /** As many as edges were given. */
  readonly routes: readonly Route[];
}

/** Of an edge that passes through a column. */
const passing = 6;

/** @param edges pairs of names, each once. */
export function layoutGraph(
  names: readonly string[],
  edges: readonly { readonly from: string; readonly to: string }[],
  sizes: Sizes,
): Layout {
  const sorted = names.toSorted();
  const places = new Map(sorted.map((name, at) => [name, at]));
  const links = edges.map(({ from, to }) => ({ from: places.get(from) ?? 0, to: places.get(to) ?? 0 }));
  const byName = links.toSorted((a, b) => a.from - b.from || a.to - b.to);
  const layers = layersOf(sorted.length, byName);
  const layerOf = (node: number): number => layers[node] ?? 0;

  const columns = Array.from({ length: Math.max(-1, ...layers) + 1 }, (): Item[] => []);
  const add = (layer: number, height: number, isNode: boolean): Item => {
    const item: Item = { before: [], behind: [], height, isNode, at: 0, y: 0 };
    columns[layer]?.push(item);
    return item;
  };
  const items = sorted.map((_, node) => add(layerOf(node), sizes.height, true));
  // What an edge runs through, from its left end to its right one.
  const ways = new Map<(typeof links)[number], readonly Item[]>();
  for (const link of byName) {
    const [left, right] = layerOf(link.from) <= layerOf(link.to) ? [link.from, link.to] : [link.to, link.from];
    const [begin, end] = [items[left], items[right]];
    if (begin === undefined || end === undefined || layerOf(left) === layerOf(right)) {
      continue;
    }
    const way = [begin];
    for (let layer = layerOf(left) + 1; layer < layerOf(right); layer++) {
      way.push(add(layer, passing, false));
    }
    way.push(end);
    way.slice(1).forEach((item, at) => {
      way[at]?.behind.push(item);
      item.before.push(way[at] ?? begin);
    });
    ways.set(link, way);
  }
  reduceCrossings(columns);
  placeVertically(columns, sizes.gapY);

  const all = columns.flat();
  const top = all.reduce((least, { y, height }) => Math.min(least, y - height / 2), Infinity);
  const bottom = all.reduce((most, { y, height }) => Math.max(most, y + height / 2), -Infinity);
  const margin = sizes.gapY;
  const step = sizes.width + sizes.gapX;
  const xOf = (layer: number): number => margin + layer * step;
  const yOf = (item: Item | undefined): number => (item?.y ?? 0) - top + margin;
  const ports = portsOf(links, items, ways, sizes.height);
  // What is called within the last column bends beyond it.
  const bends = links.some((link) => layerOf(link.from) === columns.length - 1 && !ways.has(link));
  return {
    width: columns.length === 0 ? 0 : xOf(columns.length - 1) + sizes.width + (bends ? sizes.gapX / 2 : 0) + margin,
    height: columns.length === 0 ? 0 : bottom - top + 2 * margin,
    nodes: new Map(
      sorted.map((name, node) => [
        name,
        { x: xOf(layerOf(node)), y: yOf(items[node]) - sizes.height / 2, layer: layerOf(node) },
      ]),
    ),
    routes: links.map((link) => {
      const way = ways.get(link);
      const { begin, end } = ports.get(link) ?? { begin: 0, end: 0 };
      const from = { x: xOf(layerOf(link.from)), y: yOf(items[link.from]) + begin };
      const to = { x: xOf(layerOf(link.to)), y: yOf(items[link.to]) + end };
      if (way === undefined) {
        const x = from.x + sizes.width;
        const reach = sizes.gapX * 0.35;
        // A curve comes three quarters of the way to the points that bend it.
        return {
          path: `M${x} ${from.y}C${x + reach / 0.75} ${from.y} ${x + reach / 0.75} ${to.y} ${x} ${to.y}`,
          end: { x, y: to.y },
          isForward: false,
          middle: { x: x + reach, y: (from.y + to.y) / 2 },
        };
      }
      const isForward = from.x < to.x;
      const through = way.slice(1, -1).flatMap((item, at) => {
        const x = xOf(Math.min(layerOf(link.from), layerOf(link.to)) + at + 1);
        return [
          { x, y: yOf(item) },
          { x: x + sizes.width, y: yOf(item) },
        ];
      });
      const points = isForward
        ? [{ x: from.x + sizes.width, y: from.y }, ...through, { x: to.x, y: to.y }]
        : [{ x: from.x, y: from.y }, ...through.toReversed(), { x: to.x + sizes.width, y: to.y }];
      const half = points.length / 2;
      const [a, b] = half % 2 === 1 ? points.slice(half - 1, half + 1) : points.slice(half - 2, half);
      return {
        path: pathOf(points),
        end: points.at(-1) ?? to,
        isForward,
        middle: { x: ((a?.x ?? 0) + (b?.x ?? 0)) / 2, y: ((a?.y ?? 0) + (b?.y ?? 0)) / 2 },
      };
    }),
  };
}

/** Bends between columns and runs straight through them. */
function pathOf(points: readonly Point[]): string {
  return points
    .map(({ x, y }, at) => {
      const last = points[at - 1];
      if (last === undefined) {
        return `M${x} ${y}`;
      }
      const half = (x + last.x) / 2;
      return at % 2 === 1 ? `C${half} ${last.y} ${half} ${y} ${x} ${y}` : `L${x} ${y}`;
    })
    .join("");
}

/** How far from the middle of its nodes each edge begins and ends: side by side, in the order of where they go. */
function portsOf<L extends { readonly from: number; readonly to: number }>(
  links: readonly L[],
  items: readonly Item[],
  ways: ReadonlyMap<L, readonly Item[]>,
  height: number,
): ReadonlyMap<L, { readonly begin: number; readonly end: number }> {
  const found = new Map(links.map((link) => [link, { begin: 0, end: 0 }]));
  const sides = new Map<string, { readonly link: L; readonly which: "begin" | "end"; readonly y: number }[]>();
  const note = (side: string, link: L, which: "begin" | "end", y: number): void => {
    sides.set(side, [...(sides.get(side) ?? []), { link, which, y }]);
  };
  for (const link of links) {
    const way = ways.get(link);
    const isForward = way === undefined || way[0] === items[link.from];
    // What stays in a column leaves and arrives at the right.
    note(
      `${link.from} ${isForward ? "right" : "left"}`,
      link,
      "begin",
      (isForward ? way?.[1] : way?.at(-2))?.y ?? items[link.to]?.y ?? 0,
    );
    note(
      `${link.to} ${way === undefined || !isForward ? "right" : "left"}`,
      link,
      "end",
      (isForward ? way?.at(-2) : way?.[1])?.y ?? items[link.from]?.y ?? 0,
    );
  }
  for (const ends of sides.values()) {
    const step = Math.min(9, (height - 14) / ends.length);
    ends.sort((a, b) => a.y - b.y || (a.which === b.which ? 0 : a.which === "begin" ? -1 : 1));
    ends.forEach(({ link, which }, at) => {
      const ports = found.get(link);
      if (ports !== undefined) {
        ports[which] = (at - (ends.length - 1) / 2) * step;
      }
    });
  }
  return found;
}
