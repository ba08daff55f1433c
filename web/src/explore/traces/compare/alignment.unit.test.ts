import { expect, it } from "vitest";

import { shapeOf, type Span } from "../trace-model.js";
import { align, alignProperties, countAligned, differenceMs } from "./alignment.js";
import { compareAddress, compareText, parseCompared } from "./compare-address.js";

/** Depth, name and duration of each span; a name with a slash begins with its service. */
function spansOf(...rows: readonly (readonly [number, string, number])[]): readonly Span[] {
  const { parents, ends } = shapeOf(rows.map(([depth]) => depth));
  return rows.map(([depth, name, durationMs], at) => ({
    at,
    spanId: String(at),
    name: name.split("/").at(-1) ?? "",
    service: name.includes("/") ? (name.split("/")[0] ?? "") : "shop",
    kind: null,
    depth,
    startMs: at,
    durationMs,
    selfMs: durationMs / 2,
    isError: false,
    isOrphan: false,
    statusMessage: null,
    parent: parents[at] ?? -1,
    end: ends[at] ?? at + 1,
  }));
}

const words = (rows: ReturnType<typeof align>): readonly string[] =>
  rows.map(
    ({ depth, a, b }) => `${"-".repeat(depth)}${(a ?? b)?.name ?? ""} ${a?.durationMs ?? "·"} ${b?.durationMs ?? "·"}`,
  );

it("puts spans of one service, name and place side by side", () => {
  const a = spansOf([0, "root", 10], [1, "get", 4], [2, "db", 3], [1, "get", 5]);
  const b = spansOf([0, "root", 20], [1, "get", 8], [2, "db", 7], [1, "get", 9]);
  const rows = align(a, b);
  expect(words(rows)).toEqual(["root 10 20", "-get 4 8", "--db 3 7", "-get 5 9"]);
  expect(rows.map((row) => differenceMs(row))).toEqual([10, 4, 4, 4]);
  expect(differenceMs(rows[0] ?? { depth: 0, a: null, b: null }, "selfMs")).toBe(5);
});

it("shows what is in one alone where it was, with all that is below it", () => {
  const a = spansOf([0, "root", 10], [1, "get", 4], [1, "old", 3], [2, "deep", 2], [1, "end", 1]);
  const b = spansOf([0, "root", 20], [1, "first", 1], [1, "get", 8], [1, "retry", 7], [2, "deep", 5], [1, "end", 2]);
  const rows = align(a, b);
  expect(words(rows)).toEqual([
    "root 10 20",
    "-first · 1",
    "-get 4 8",
    "-retry · 7",
    "--deep · 5",
    "-old 3 ·",
    "--deep 2 ·",
    "-end 1 2",
  ]);
  expect(countAligned(rows)).toEqual({ both: 3, onlyA: 2, onlyB: 3 });
  expect(rows.map((row) => differenceMs(row))).toEqual([10, 1, 4, 7, 5, -3, -2, 1]);
});

it("takes the same name of another service for another span, also in another order", () => {
  const a = spansOf([0, "x/root", 1], [1, "p/get", 2], [1, "q/get", 3]);
  const b = spansOf([0, "x/root", 1], [1, "q/get", 4], [1, "p/get", 5]);
  expect(words(align(a, b))).toEqual(["root 1 1", "-get 2 5", "-get 3 4"]);
  expect(countAligned(align(a, spansOf([0, "y/root", 1])))).toEqual({ both: 0, onlyA: 3, onlyB: 1 });
});

it("aligns a trace of 20,000 spans in one line below each other, and nothing", () => {
  const deep = spansOf(...Array.from({ length: 20_000 }, (_, at): [number, string, number] => [at, "step", at]));
  const rows = align(deep, deep);
  expect(rows).toHaveLength(20_000);
  expect(rows.every(({ a, b }) => a === b)).toBe(true);
  expect(align([], [])).toEqual([]);
});

it("shows attributes that differ first", () => {
  const property = (name: string, value: string | null) => ({ name, value });
  expect(
    alignProperties(
      [property("a", "1"), property("c", "3"), property("d", null)],
      [property("a", "1"), property("b", "2")],
    ),
  ).toEqual([
    { name: "c", a: "3", b: null },
    { name: "b", a: null, b: "2" },
    { name: "a", a: "1", b: "1" },
    { name: "d", a: null, b: null },
  ]);
});

it("reads traces of an address, and no nonsense", () => {
  const id = "0123456789abcdef".repeat(2);
  const chosen = { id, at: "2026-01-02T03:04:05.678Z" };
  expect(parseCompared(compareText(chosen))).toEqual(chosen);
  expect(parseCompared(id.toUpperCase())).toEqual({ id, at: null });
  expect(parseCompared(`${id},never`)).toEqual({ id, at: null });
  expect(compareAddress(chosen, { id, at: null }).search).toEqual({ a: compareText(chosen), b: id });
  for (const text of [null, "", "first", "x,y", `${id}0`]) {
    expect(parseCompared(text)).toBeNull();
  }
});
