/** Two traces side by side: spans of the same service and name, at the same place among those of their parent. */
import type { Property } from "../../property.js";
import type { Span } from "../trace-model.js";

/** A span of the first trace, its counterpart in the second, or both; one of them is there. */
export interface AlignedSpan {
  readonly depth: number;
  readonly a: Span | null;
  readonly b: Span | null;
}

/**
 * Both trees as one, parents before their children. The first `GET` below a span is the counterpart of the first below
 * its counterpart, the second of the second. Siblings are in the order of the first trace; what only the second has is
 * behind what comes before it there.
 */
export function align(a: readonly Span[], b: readonly Span[]): readonly AlignedSpan[] {
  const [childrenA, childrenB] = [childrenOf(a), childrenOf(b)];
  const below = (children: ReadonlyMap<number, readonly Span[]>, parent: Span | null): readonly Span[] =>
    parent === null ? [] : (children.get(parent.at) ?? []);
  const found: AlignedSpan[] = [];
  const waiting = pairs(childrenA.get(-1) ?? [], childrenB.get(-1) ?? [], 0).toReversed();
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    found.push(next);
    for (const child of pairs(below(childrenA, next.a), below(childrenB, next.b), next.depth + 1).toReversed()) {
      waiting.push(child);
    }
  }
  return found;
}

function childrenOf(spans: readonly Span[]): ReadonlyMap<number, readonly Span[]> {
  const found = new Map<number, Span[]>();
  for (const span of spans) {
    const siblings = found.get(span.parent) ?? [];
    siblings.push(span);
    found.set(span.parent, siblings);
  }
  return found;
}

/** Siblings of both, in the order in which they are shown. */
function pairs(a: readonly Span[], b: readonly Span[], depth: number): AlignedSpan[] {
  const keyOf = ({ service, name }: Span): string => `${service}\0${name}`;
  const free = new Map<string, Span[]>();
  for (const span of b) {
    const same = free.get(keyOf(span)) ?? [];
    same.push(span);
    free.set(keyOf(span), same);
  }
  // From the end, so that the first is taken off without moving the others.
  for (const same of free.values()) {
    same.reverse();
  }
  const counterparts = a.map((span) => free.get(keyOf(span))?.pop() ?? null);
  const taken = new Set(counterparts);
  const behind = new Map<Span | null, AlignedSpan[]>();
  let last: Span | null = null;
  for (const span of b) {
    if (taken.has(span)) {
      last = span;
    } else {
      const alone = behind.get(last) ?? [];
      alone.push({ depth, a: null, b: span });
      behind.set(last, alone);
    }
  }
  return [
    ...(behind.get(null) ?? []),
    ...a.flatMap((span, at) => {
      const other = counterparts[at] ?? null;
      return [{ depth, a: span, b: other }, ...(other === null ? [] : (behind.get(other) ?? []))];
    }),
  ];
}

/** By how much the second took longer, in milliseconds; what is in one alone counts as nothing in the other. */
export function differenceMs({ a, b }: AlignedSpan, of: "durationMs" | "selfMs" = "durationMs"): number {
  return (b?.[of] ?? 0) - (a?.[of] ?? 0);
}

/** How many spans have a counterpart. */
export function countAligned(rows: readonly AlignedSpan[]): {
  readonly both: number;
  readonly onlyA: number;
  readonly onlyB: number;
} {
  const onlyA = rows.filter(({ b }) => b === null).length;
  const onlyB = rows.filter(({ a }) => a === null).length;
  return { both: rows.length - onlyA - onlyB, onlyA, onlyB };
}

/** An attribute of either span; null: it has none. */
interface AlignedProperty {
  readonly name: string;
  readonly a: string | null;
  readonly b: string | null;
}

/** Those that differ first, else in the order in which they come. */
export function alignProperties(a: readonly Property[], b: readonly Property[]): readonly AlignedProperty[] {
  const [ofA, ofB] = [a, b].map((list) => new Map(list.map(({ name, value }) => [name, value])));
  const rows = [...new Set([...a, ...b].map(({ name }) => name))].map((name) => ({
    name,
    a: ofA?.get(name) ?? null,
    b: ofB?.get(name) ?? null,
  }));
  return [...rows.filter((row) => row.a !== row.b), ...rows.filter((row) => row.a === row.b)];
}
