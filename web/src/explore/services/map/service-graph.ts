/** Services and their calls as the map shows them. */
import { formatMilliseconds, formatPercent, formatRate } from "../../../ui/format.js";
import type { Call, ServiceRow } from "../service-data.js";

/** A service, or what services call that sends no spans. */
export interface MapNode {
  readonly name: string;
  /** `service`, `database`, `queue`, `external`. */
  readonly type: string;
  /** Null: nothing is known of its requests. */
  readonly service: ServiceRow | null;
}

/** All calls of one pair. */
export interface MapEdge {
  readonly from: string;
  readonly to: string;
  readonly calls: number;
  readonly errors: number;
  /** Milliseconds. */
  readonly p95: number;
}

export interface ServiceGraph {
  readonly nodes: readonly MapNode[];
  readonly edges: readonly MapEdge[];
}

/**
 * Services whose names hold a text and those that they call or are called by; all for the empty text. Calls of a pair
 * that are of several types become one edge with the largest of their quantiles.
 */
export function graphOf(calls: readonly Call[], services: readonly ServiceRow[], words: string): ServiceGraph {
  const rows = new Map(services.map((service) => [service.name, service]));
  const wanted = words.toLowerCase();
  const isWanted = (name: string): boolean => name.toLowerCase().includes(wanted);
  const edges = new Map<string, MapEdge>();
  const types = new Map<string, string>();
  for (const { caller, callee, calleeType, calls: count, errors, p95 } of calls) {
    if (calleeType !== "service") {
      types.set(callee, calleeType);
    }
    if (isWanted(caller) || isWanted(callee)) {
      const key = JSON.stringify([caller, callee]);
      const known = edges.get(key);
      edges.set(key, {
        from: caller,
        to: callee,
        calls: (known?.calls ?? 0) + count,
        errors: (known?.errors ?? 0) + errors,
        p95: Math.max(known?.p95 ?? 0, p95),
      });
    }
  }
  const names = new Set([...edges.values()].flatMap(({ from, to }) => [from, to]));
  for (const { name, requests } of services) {
    if (requests > 0 && isWanted(name)) {
      names.add(name);
    }
  }
  return {
    nodes: [...names].toSorted().map((name) => ({
      name,
      type: (rows.get(name)?.requests ?? 0) > 0 ? "service" : (types.get(name) ?? "service"),
      service: rows.get(name) ?? null,
    })),
    edges: [...edges.values()].toSorted((a, b) => compare(a.from, b.from) || compare(a.to, b.to)),
  };
}

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

/** Rate, errors and p95 in one line. @param seconds of the time range */
export function factsOf(
  o: { readonly count: number; readonly errors: number; readonly p95: number },
  seconds: number,
): string {
  return o.count === 0
    ? ""
    : `${formatRate(o.count / seconds)} · ${formatPercent(o.errors / o.count)} · ${formatMilliseconds(o.p95)}`;
}

/** For those who do not see the map. */
export function nodeWords({ name, type, service }: MapNode, seconds: number): string {
  const kind = type === "service" ? "" : ` (${type})`;
  return service === null || service.requests === 0
    ? `${name}${kind}`
    : `${name}${kind}: ${allFacts(service.requests, service.errors, service.p95, seconds)}`;
}

/** As {@link nodeWords}. */
export function edgeWords({ from, to, calls, errors, p95 }: MapEdge, seconds: number): string {
  return `${from} calls ${from === to ? "itself" : to}: ${allFacts(calls, errors, p95, seconds)}`;
}

function allFacts(count: number, errors: number, p95: number, seconds: number): string {
  return `${formatRate(count / seconds)}, ${formatPercent(errors / count)} failed, p95 ${formatMilliseconds(p95)}`;
}

/** What has the focus: a node by its name, an edge by the names of its ends. */
export type Place = { readonly node: string } | { readonly from: string; readonly to: string };

export const placeKey = (place: Place): string =>
  JSON.stringify("node" in place ? [place.node] : [place.from, place.to]);

export type Direction = "left" | "right" | "up" | "down";

/**
 * Where an arrow key leads. From a service right to its first call and left to the first that it gets, up and down within
 * its column; from a call to either of its ends, and up and down to the others of its caller.
 * @param o.at upper left corners of nodes; @returns null: there is nothing that way.
 */
export function step(
  place: Place,
  direction: Direction,
  { edges }: ServiceGraph,
  at: ReadonlyMap<string, { readonly layer: number; readonly y: number }>,
): Place | null {
  const y = (name: string): number => at.get(name)?.y ?? 0;
  const others = (own: "from" | "to", other: "from" | "to", name: string): readonly MapEdge[] =>
    edges.filter((edge) => edge[own] === name).toSorted((a, b) => y(a[other]) - y(b[other]));
  if ("node" in place) {
    if (direction === "left" || direction === "right") {
      const [first] = direction === "right" ? others("from", "to", place.node) : others("to", "from", place.node);
      return first ?? null;
    }
    const column = [...at]
      .filter(([, { layer }]) => layer === at.get(place.node)?.layer)
      .toSorted((a, b) => a[1].y - b[1].y)
      .map(([name]) => name);
    const next = column[column.indexOf(place.node) + (direction === "down" ? 1 : -1)];
    return next === undefined ? null : { node: next };
  }
  if (direction === "left" || direction === "right") {
    return { node: direction === "left" ? place.from : place.to };
  }
  const siblings = others("from", "to", place.from);
  return siblings[siblings.findIndex(({ to }) => to === place.to) + (direction === "down" ? 1 : -1)] ?? null;
}
