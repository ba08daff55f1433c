/** Which column of a graph each of its nodes is in, so that calls go from left to right as far as they can. */

/** An edge by the places of its ends in a list of nodes. */
interface Link {
  readonly from: number;
  readonly to: number;
}

/** More columns than these are pushed together. */
const maxLayers = 12;

/**
 * The column of each node: the length of the longest way that leads to it, circles cut open where few edges go back.
 * @param count of nodes, whose order decides between equals.
 */
export function layersOf(count: number, links: readonly Link[]): readonly number[] {
  const order = orderOf(count, links);
  const place = Array.from({ length: count }, () => 0);
  order.forEach((node, at) => (place[node] = at));
  const outgoing = neighbours(count, links, "from", "to");
  const layers = Array.from({ length: count }, () => 0);
  for (const node of order) {
    for (const next of outgoing[node] ?? []) {
      if ((place[next] ?? 0) > (place[node] ?? 0)) {
        layers[next] = Math.max(layers[next] ?? 0, (layers[node] ?? 0) + 1);
      }
    }
  }
  const length = Math.max(0, ...layers) + 1;
  return length <= maxLayers ? layers : layers.map((layer) => Math.floor((layer * maxLayers) / length));
}

/**
 * An order in which few edges go back: what nobody calls comes first, what calls nobody last. Of what goes in circles
 * comes first what is called from before, and of that what makes the most calls beyond those that it gets.
 */
function orderOf(count: number, links: readonly Link[]): readonly number[] {
  const outgoing = neighbours(count, links, "from", "to");
  const incoming = neighbours(count, links, "to", "from");
  const out = outgoing.map(({ length }) => length);
  const into = incoming.map(({ length }) => length);
  const left = new Set(Array.from({ length: count }, (_, node) => node));
  const first: number[] = [];
  const last: number[] = [];
  const take = (node: number): void => {
    left.delete(node);
    for (const next of outgoing[node] ?? []) {
      into[next] = (into[next] ?? 0) - 1;
    }
    for (const before of incoming[node] ?? []) {
      out[before] = (out[before] ?? 0) - 1;
    }
  };
  while (left.size > 0) {
    const all = [...left];
    const sources = all.filter((node) => into[node] === 0);
    const sinks = all.filter((node) => into[node] !== 0 && out[node] === 0);
    for (const node of [...sources, ...sinks]) {
      take(node);
    }
    first.push(...sources);
    last.unshift(...sinks);
    if (sources.length + sinks.length === 0) {
      const entered = all.filter((node) => incoming[node]?.some((before) => !left.has(before)) === true);
      const surplus = (node: number): number => (out[node] ?? 0) - (into[node] ?? 0);
      const best = (entered.length > 0 ? entered : all).reduce((most, node) =>
        surplus(node) > surplus(most) ? node : most,
      );
      take(best);
      first.push(best);
    }
  }
  return [...first, ...last];
}

/** For each node the other ends of its edges; those to itself are none. */
function neighbours(count: number, links: readonly Link[], own: keyof Link, other: keyof Link): readonly number[][] {
  const found = Array.from({ length: count }, (): number[] => []);
  for (const link of links) {
    if (link.from !== link.to) {
      found[link[own]]?.push(link[other]);
    }
  }
  return found;
}
