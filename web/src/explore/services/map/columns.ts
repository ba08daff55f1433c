/** The order of what is in each column of a layered graph, with few crossings, and its height on the page. */

/** A node, or the place where an edge passes through a column. */
export interface Item {
  /** Neighbours in the columns before and behind. */
  readonly before: Item[];
  readonly behind: Item[];
  /** Pixels; edges that pass through take little. */
  readonly height: number;
  readonly isNode: boolean;
  /** Place in its column, and the middle in pixels; both are found here. */
  at: number;
  y: number;
}

const sweeps = 12;

/** Puts every column into the order with the fewest crossings that is found by going to and fro. */
export function reduceCrossings(columns: Item[][]): void {
  number(columns);
  let best = columns.map((column) => [...column]);
  let fewest = crossings(columns);
  for (let sweep = 0; sweep < sweeps && fewest > 0; sweep++) {
    const side = sweep % 2 === 0 ? "before" : "behind";
    for (const column of side === "before" ? columns : columns.toReversed()) {
      const wanted = new Map(
        column.map((item) => [item, item[side].length === 0 ? item.at : mean(item[side], ({ at }) => at)]),
      );
      column.sort((a, b) => (wanted.get(a) ?? 0) - (wanted.get(b) ?? 0) || a.at - b.at);
      column.forEach((item, at) => (item.at = at));
    }
    const now = crossings(columns);
    if (now < fewest) {
      fewest = now;
      best = columns.map((column) => [...column]);
    }
  }
  best.forEach((column, at) => (columns[at] = column));
  number(columns);
}

function number(columns: readonly Item[][]): void {
  for (const column of columns) {
    column.forEach((item, at) => (item.at = at));
  }
}

/** How many pairs of edges between neighbouring columns cross. */
export function crossings(columns: readonly (readonly Item[])[]): number {
  let found = 0;
  columns.forEach((column, at) => {
    // Counts, in a tree of sums, how many ends so far are below each next one.
    const size = (columns[at + 1]?.length ?? 0) + 1;
    const sums = Array.from({ length: size + 1 }, () => 0);
    let total = 0;
    for (const item of column) {
      const ends = item.behind.map((next) => next.at);
      for (const end of ends) {
        let notBelow = 0;
        for (let i = end + 1; i > 0; i -= i & -i) {
          notBelow += sums[i] ?? 0;
        }
        found += total - notBelow;
      }
      for (const end of ends) {
        total++;
        for (let i = end + 1; i <= size; i += i & -i) {
          sums[i] = (sums[i] ?? 0) + 1;
        }
      }
    }
  });
  return found;
}

/** Gives everything a height near what it is joined to, in the order of its column, nodes `gap` pixels apart. */
export function placeVertically(columns: readonly (readonly Item[])[], gap: number): void {
  for (const column of columns) {
    let y = 0;
    column.forEach((item, at) => {
      const last = column[at - 1];
      y += last === undefined ? 0 : between(last, item, gap);
      item.y = y + item.height / 2;
      y += item.height;
    });
    for (const item of column) {
      item.y -= y / 2;
    }
  }
  const settle = (column: readonly Item[], near: (item: Item) => readonly Item[]): void => {
    const wanted = column.map((item) => {
      const others = near(item);
      return others.length === 0 ? item.y : mean(others, ({ y }) => y);
    });
    nearest(column, wanted, gap).forEach((y, at) => {
      const item = column[at];
      if (item !== undefined) {
        item.y = y;
      }
    });
  };
  for (let sweep = 0; sweep < sweeps; sweep++) {
    const isLast = sweep === sweeps - 1;
    for (const column of sweep % 2 === 0 ? columns : columns.toReversed()) {
      settle(column, (item) =>
        isLast ? [...item.before, ...item.behind] : sweep % 2 === 0 ? item.before : item.behind,
      );
    }
  }
}

/** Pixels between two of a column: edges that pass through need less than nodes do. */
function between(a: Pick<Item, "isNode">, b: Pick<Item, "isNode">, gap: number): number {
  return a.isNode && b.isNode ? gap : a.isNode || b.isNode ? gap * 0.75 : gap * 0.3;
}

/** Middles as near to those that are wanted as the order and the gap allow: the least sum of squares. */
export function nearest(
  column: readonly Pick<Item, "height" | "isNode">[],
  wanted: readonly number[],
  gap: number,
): readonly number[] {
  // Less what must lie above each, it only has to rise: neighbours that do not are put together at their mean.
  const above: number[] = [];
  column.forEach((item, at) => {
    const last = column[at - 1];
    above.push(
      last === undefined ? 0 : (above[at - 1] ?? 0) + (last.height + item.height) / 2 + between(last, item, gap),
    );
  });
  const groups: { sum: number; weight: number; count: number }[] = [];
  column.forEach((item, at) => {
    // What passes through wants to be straight.
    const weight = item.isNode ? 1 : 3;
    groups.push({ sum: ((wanted[at] ?? 0) - (above[at] ?? 0)) * weight, weight, count: 1 });
    for (;;) {
      const [a, b] = groups.slice(-2);
      if (a === undefined || b === undefined || a.sum / a.weight <= b.sum / b.weight) {
        break;
      }
      groups.splice(-2, 2, { sum: a.sum + b.sum, weight: a.weight + b.weight, count: a.count + b.count });
    }
  });
  return groups
    .flatMap(({ sum, weight, count }) => Array.from({ length: count }, () => sum / weight))
    .map((value, at) => value + (above[at] ?? 0));
}

function mean(items: readonly Item[], of: (item: Item) => number): number {
  return items.reduce((sum, item) => sum + of(item), 0) / items.length;
}
