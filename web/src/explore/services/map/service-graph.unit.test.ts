import { expect, it } from "vitest";

import type { Call, ServiceRow } from "../service-data.js";
import { edgeWords, graphOf, nodeWords, step } from "./service-graph.js";
import { fitted, movedBy, parseViewport, showing, viewportText, zoomedAt } from "./viewport.js";

const call = (caller: string, callee: string, calleeType = "service", calls = 10): Call => ({
  caller,
  callee,
  calleeType,
  calls,
  errors: 1,
  p50: 5,
  p95: 20,
});

const service = (name: string, requests: number): ServiceRow => ({
  name,
  requests,
  errors: requests / 10,
  p50: 5,
  p95: 20,
  requestsOverTime: new Float64Array(0),
  errorsOverTime: new Float64Array(0),
  p95OverTime: new Float64Array(0),
  rows: new Map(),
});

const calls = [call("shop", "stock"), call("stock", "db", "database"), call("shop", "stock", "external", 5)];

it("makes one edge of a pair, and knows what sends no spans", () => {
  const { nodes, edges } = graphOf(calls, [service("shop", 100), service("alone", 1), service("silent", 0)], "");
  expect(nodes.map(({ name, type }) => `${name} ${type}`)).toEqual([
    "alone service",
    "db database",
    "shop service",
    "stock external",
  ]);
  expect(edges.map(({ from, to, calls: count, errors }) => [from, to, count, errors])).toEqual([
    ["shop", "stock", 15, 2],
    ["stock", "db", 10, 1],
  ]);
});

it("keeps what was looked for, and its neighbours", () => {
  expect(graphOf(calls, [service("alone", 1)], "DB").nodes.map(({ name }) => name)).toEqual(["db", "stock"]);
  expect(graphOf(calls, [], "nothing").nodes).toEqual([]);
});

it("says in words what the map shows", () => {
  const { nodes, edges } = graphOf([call("a", "a"), call("a", "b", "database")], [service("a", 60)], "");
  expect(nodes.map((node) => nodeWords(node, 60))).toEqual(["a: 1/s, 10% failed, p95 20 ms", "b (database)"]);
  expect(edges.map((edge) => edgeWords(edge, 10))).toEqual([
    "a calls itself: 1/s, 10% failed, p95 20 ms",
    "a calls b: 1/s, 10% failed, p95 20 ms",
  ]);
});

it("walks along calls with the arrow keys", () => {
  const graph = graphOf([call("a", "b"), call("a", "c"), call("b", "c")], [], "");
  const at = new Map([
    ["a", { layer: 0, y: 0 }],
    ["b", { layer: 1, y: 0 }],
    ["c", { layer: 1, y: 50 }],
  ]);
  const go = (place: Parameters<typeof step>[0], direction: Parameters<typeof step>[1]) =>
    step(place, direction, graph, at);
  expect(go({ node: "a" }, "right")).toMatchObject({ from: "a", to: "b" });
  expect(go({ node: "a" }, "left")).toBeNull();
  expect(go({ from: "a", to: "b" }, "down")).toMatchObject({ from: "a", to: "c" });
  expect(go({ from: "a", to: "b" }, "up")).toBeNull();
  expect(go({ from: "a", to: "b" }, "right")).toEqual({ node: "b" });
  expect(go({ node: "b" }, "down")).toEqual({ node: "c" });
  expect(go({ node: "c" }, "left")).toMatchObject({ from: "a", to: "c" });
});

it("fits the map, but not smaller than can be read", () => {
  const host = { width: 1000, height: 500 };
  expect(fitted({ width: 1000, height: 400 }, host)).toEqual({ scale: 1, x: 500, y: 200 });
  const large = fitted({ width: 10_000, height: 400 }, host);
  expect(large.x * 2).toBeCloseTo(host.width / large.scale); // its left end
  expect(fitted({ width: 5000, height: 400 }, host, true)).toEqual({ scale: 0.2, x: 2500, y: 200 });
  expect(fitted({ width: 0, height: 0 }, host).scale).toBeLessThan(2);
});

it("zooms around a place, moves, and goes to what is out of sight", () => {
  const host = { width: 100, height: 100 };
  const view = { scale: 1, x: 50, y: 50 };
  expect(zoomedAt(view, 2, { x: 0, y: 50 }, host)).toEqual({ scale: 2, x: 25, y: 50 });
  expect(zoomedAt(view, 1e9, { x: 50, y: 50 }, host).scale).toBe(2.5);
  expect(movedBy({ ...view, scale: 2 }, 10, -10)).toEqual({ scale: 2, x: 45, y: 55 });
  expect(showing(view, { x: 10, y: 10, width: 20, height: 20 }, host)).toBe(view);
  expect(showing(view, { x: 90, y: 10, width: 20, height: 20 }, host)).toEqual({ scale: 1, x: 100, y: 20 });
});

it("reads the view of an address, and no nonsense", () => {
  const view = { scale: 0.8, x: -20, y: 1300 };
  expect(parseViewport(viewportText(view))).toEqual(view);
  for (const text of [null, "", "1", "0,1,2", "9,1,2", "1,1e9,2", "1,2,3,4", "NaN,1,2"]) {
    expect(parseViewport(text)).toBeNull();
  }
});
