import { expect, it } from "vitest";

import { crossings, type Item, nearest, reduceCrossings } from "./columns.js";
import { layersOf } from "./layers.js";
import { layoutGraph } from "./layout.js";

const sizes = { width: 160, height: 44, gapX: 100, gapY: 14 };

/** `a>b` for each edge. */
const edgesOf = (...texts: readonly string[]): { from: string; to: string }[] =>
  texts.map((text) => {
    const [from = "", to = ""] = text.split(">");
    return { from, to };
  });

const namesOf = (edges: readonly { from: string; to: string }[]): string[] => [
  ...new Set(edges.flatMap(({ from, to }) => [from, to])),
];

/** Services in tiers that call the next ones, with some calls back. */
function manyServices(count: number, calls: number): { from: string; to: string }[] {
  let seed = 7;
  const random = (): number => (seed = (seed * 48_271) % 2_147_483_647) / 2_147_483_647;
  const found = new Map<string, { from: string; to: string }>();
  while (found.size < calls) {
    const [from, to] = [Math.floor(random() * count), Math.floor(random() * count)];
    if (from !== to && (from < to || random() < 0.05)) {
      found.set(`${from}>${to}`, { from: `service-${from}`, to: `service-${to}` });
    }
  }
  return [...found.values()];
}

it("puts whom a service calls to its right, behind the longest way", () => {
  const links = [
    { from: 0, to: 1 },
    { from: 1, to: 2 },
    { from: 0, to: 2 },
    { from: 3, to: 3 },
  ];
  expect(layersOf(4, links)).toEqual([0, 1, 2, 0]);
});

it("cuts circles open where few edges go back", () => {
  // 0 calls 1, 1 calls 2, 2 calls 0 and 1; 3 calls 0: only what 2 calls goes back.
  const links = [
    { from: 0, to: 1 },
    { from: 1, to: 2 },
    { from: 2, to: 0 },
    { from: 2, to: 1 },
    { from: 3, to: 0 },
  ];
  expect(layersOf(4, links)).toEqual([1, 2, 3, 0]);
});

it("has at most 12 columns, in which the order of a long chain stays", () => {
  const layers = layersOf(
    60,
    Array.from({ length: 59 }, (_, at) => ({ from: at, to: at + 1 })),
  );
  expect(layers[0]).toBe(0);
  expect(layers[59]).toBe(11);
  expect(layers.toSorted((a, b) => a - b)).toEqual(layers);
});

it("counts crossings, and takes them away", () => {
  const item = (): Item => ({ before: [], behind: [], height: 10, isNode: true, at: 0, y: 0 });
  const [left, right] = [
    [item(), item(), item()],
    [item(), item(), item()],
  ];
  left.forEach((one, at) => {
    const other = right[2 - at];
    if (other !== undefined) {
      one.behind.push(other);
      other.before.push(one);
    }
  });
  const columns = [left, right];
  for (const column of columns) {
    column.forEach((one, at) => (one.at = at));
  }
  expect(crossings(columns)).toBe(3);
  reduceCrossings(columns);
  expect(crossings(columns)).toBe(0);
});

it("keeps what is in a column apart, as near as can be to where it wants to be", () => {
  const column = [20, 20, 20].map((height) => ({ height, isNode: true }));
  expect(nearest(column, [0, 100, 200], 10)).toEqual([0, 100, 200]);
  // All want to the same place: around it, in their order.
  expect(nearest(column, [50, 50, 50], 10)).toEqual([20, 50, 80]);
  expect(nearest(column, [100, 0, 200], 10)).toEqual([35, 65, 200]);
});

it("has the same places whatever order a graph comes in", () => {
  const edges = manyServices(30, 80);
  const one = layoutGraph(namesOf(edges), edges, sizes);
  const other = layoutGraph(namesOf(edges).toReversed(), edges.toReversed(), sizes);
  expect(other.nodes).toEqual(one.nodes);
  expect(other.routes.toReversed()).toEqual(one.routes);
});

it("draws calls back, to itself and within a column, and nothing of nothing", () => {
  const edges = edgesOf("a>b", "b>c", "c>a", "b>b");
  const { nodes, routes } = layoutGraph(namesOf(edges), edges, sizes);
  expect(["a", "b", "c"].map((name) => nodes.get(name)?.layer)).toEqual([0, 1, 2]);
  expect(routes.map(({ isForward }) => isForward)).toEqual([true, true, false, false]);
  const back = routes[2];
  const a = nodes.get("a");
  expect(back?.end.x).toBe((a?.x ?? 0) + sizes.width);
  expect(layoutGraph([], [], sizes)).toMatchObject({ width: 0, height: 0, routes: [] });
});

it("lays out 100 services with 500 calls without overlaps, in well below a second", () => {
  const edges = manyServices(100, 500);
  const began = process.cpuUsage();
  const { nodes, width, height } = layoutGraph(namesOf(edges), edges, sizes);
  const { user } = process.cpuUsage(began);
  const all = [...nodes.values()];
  for (const a of all) {
    for (const b of all) {
      expect(a === b || a.layer !== b.layer || Math.abs(a.y - b.y) >= sizes.height).toBe(true);
    }
    expect(a.x >= 0 && a.x + sizes.width <= width && a.y >= 0 && a.y + sizes.height <= height).toBe(true);
  }
  expect(user / 1000).toBeLessThan(1000);
});
