/** A trace as the waterfall draws it: spans in the order of the tree, with what is computed of them. */
import type { QueryResult } from "../../api/query.js";
import { type Column, textValue } from "../../arrow/column.js";

export interface Span {
  readonly at: number;
  readonly spanId: string;
  readonly name: string;
  readonly service: string;
  readonly kind: string | null;
  readonly depth: number;
  /** Milliseconds since the trace began. */
  readonly startMs: number;
  readonly durationMs: number;
  readonly selfMs: number;
  readonly isError: boolean;
  /** Names a parent that is not there. */
  readonly isOrphan: boolean;
  readonly statusMessage: string | null;
  /** Place of the parent; -1 for a root. */
  readonly parent: number;
  /** The place behind its last descendant. */
  readonly end: number;
}

export interface Trace {
  readonly spans: readonly Span[];
  readonly durationMs: number;
  /** Milliseconds since the epoch. */
  readonly beginMs: number;
  /** By number of spans. */
  readonly services: readonly string[];
  readonly errors: number;
  /** JSON of the attributes of a span. */
  readonly properties: (at: number) => string | null;
}

export const traceSql = `SELECT depth, span_id, service_name, name, kind_name, start_ms, duration_ms, self_ms, is_error, is_orphan,
status_message, time, properties FROM trace_tree(?)`;

/** @param result of {@link traceSql}; parents come before their children. */
export function traceOf(result: QueryResult): Trace {
  const columns = new Map<string, Column>(result.columns.map((column) => [column.name, column]));
  const text = (name: string, row: number): string | null => textValue(columns.get(name)?.value(row) ?? null);
  const number = (name: string, row: number): number => columns.get(name)?.number(row) ?? 0;
  const depths = Array.from({ length: result.rows }, (_, row) => number("depth", row));
  const { parents, ends } = shapeOf(depths);
  const counts = new Map<string, number>();
  const spans = depths.map((depth, row): Span => {
    const service = text("service_name", row) ?? "unknown_service";
    counts.set(service, (counts.get(service) ?? 0) + 1);
    return {
      at: row,
      spanId: text("span_id", row) ?? "",
      name: text("name", row) ?? "",
      service,
      kind: text("kind_name", row),
      depth,
      startMs: number("start_ms", row),
      durationMs: Math.max(0, number("duration_ms", row)),
      selfMs: number("self_ms", row),
      isError: columns.get("is_error")?.value(row) === true,
      isOrphan: columns.get("is_orphan")?.value(row) === true,
      statusMessage: text("status_message", row),
      parent: parents[row] ?? -1,
      end: ends[row] ?? row + 1,
    };
  });
  const first = spans.reduce((least, span) => (span.startMs < (least?.startMs ?? Infinity) ? span : least), spans[0]);
  return {
    spans,
    durationMs: spans.reduce((most, { startMs, durationMs }) => Math.max(most, startMs + durationMs), 0),
    beginMs: first === undefined ? 0 : number("time", first.at) - first.startMs,
    services: [...counts].toSorted((a, b) => b[1] - a[1]).map(([name]) => name),
    errors: spans.filter(({ isError }) => isError).length,
    properties: (at) => text("properties", at),
  };
}

/**
 * Whether a trace that was looked for in a range may have spans beyond it: it begins or ends in an outer quarter of the
 * range, or a span lacks its parent.
 */
export function mayReachBeyond(
  { spans, beginMs, durationMs }: Trace,
  range: { readonly beginMs: number; readonly endMs: number },
): boolean {
  const nearMs = (range.endMs - range.beginMs) / 4;
  return (
    beginMs < range.beginMs + nearMs ||
    beginMs + durationMs > range.endMs - nearMs ||
    spans.some(({ isOrphan }) => isOrphan)
  );
}

/** Parents and ends of subtrees, by depths in the order of the tree. */
export function shapeOf(depths: readonly number[]): { readonly parents: number[]; readonly ends: number[] } {
  const open: number[] = [];
  const ends = depths.map(() => depths.length);
  const parents = depths.map((depth, at) => {
    while (open.length > depth) {
      ends[open.pop() ?? 0] = at;
    }
    const parent = open.at(-1) ?? -1;
    open.push(at);
    return parent;
  });
  return { parents, ends };
}

/** The rows to show: all but those below a collapsed span. */
export function visibleSpans(spans: readonly Span[], collapsed: ReadonlySet<number>): readonly number[] {
  const shown: number[] = [];
  for (let at = 0; at < spans.length;) {
    shown.push(at);
    at = collapsed.has(at) ? (spans[at]?.end ?? at + 1) : at + 1;
  }
  return shown;
}

/** Where spans are now that had these places before. */
export function placesNow(
  places: ReadonlySet<number>,
  before: readonly Span[],
  now: readonly Span[],
): ReadonlySet<number> {
  const ids = new Set([...places].map((at) => before[at]?.spanId));
  return new Set(now.filter(({ spanId }) => ids.has(spanId)).map(({ at }) => at));
}

/** A stretch of time in which a span, and none of its children, held up the end of the trace. */
export interface Stretch {
  readonly beginMs: number;
  readonly endMs: number;
}

/**
 * The critical path: from the end of the first root backwards, always along the child that ended last.
 * @returns of each span on it its own stretches, the latest first.
 */
export function criticalPath(spans: readonly Span[]): ReadonlyMap<number, readonly Stretch[]> {
  const children = new Map<number, Span[]>();
  for (const span of spans) {
    const siblings = children.get(span.parent) ?? [];
    siblings.push(span);
    children.set(span.parent, siblings);
  }
  const found = new Map<number, Stretch[]>();
  const root = children.get(-1)?.[0];
  const waiting = root === undefined ? [] : [{ span: root, untilMs: root.startMs + root.durationMs }];
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    const { span, untilMs } = next;
    const own: Stretch[] = [];
    let cursor = untilMs;
    const byEnd = (children.get(span.at) ?? []).toSorted(
      (a, b) => b.startMs + b.durationMs - (a.startMs + a.durationMs),
    );
    for (const child of byEnd) {
      const endMs = child.startMs + child.durationMs;
      // What goes on after the cursor did not hold it up; what began before its parent is of another clock.
      if (endMs > cursor || child.startMs < span.startMs) {
        continue;
      }
      if (endMs < cursor) {
        own.push({ beginMs: endMs, endMs: cursor });
      }
      waiting.push({ span: child, untilMs: endMs });
      cursor = child.startMs;
    }
    if (cursor > span.startMs) {
      own.push({ beginMs: span.startMs, endMs: cursor });
    }
    found.set(span.at, own);
  }
  return found;
}

/** Spans whose name, service, message or attributes hold a text; upper case does not matter. */
export function matching(trace: Trace, text: string): readonly number[] {
  const wanted = text.trim().toLowerCase();
  return wanted === ""
    ? []
    : trace.spans
        .filter((span) =>
          [span.name, span.service, span.spanId, span.statusMessage, trace.properties(span.at)].some(
            (each) => each?.toLowerCase().includes(wanted) === true,
          ),
        )
        .map(({ at }) => at);
}

/** A box of the flame graph: all spans of one service and name below one such box. */
export interface Flame {
  readonly name: string;
  readonly service: string;
  readonly depth: number;
  /** Place and width, of the whole 0 to 1. */
  readonly left: number;
  readonly width: number;
  readonly count: number;
  readonly totalMs: number;
  readonly selfMs: number;
  readonly errors: number;
}

interface FlameNode {
  readonly name: string;
  readonly service: string;
  readonly depth: number;
  count: number;
  totalMs: number;
  selfMs: number;
  errors: number;
  readonly children: Map<string, FlameNode>;
}

/** Spans with the same ancestors by service and name become one box, as wide as its time and that of its children. */
export function flames(spans: readonly Span[]): readonly Flame[] {
  const newNode = (name: string, service: string, depth: number): FlameNode => ({
    name,
    service,
    depth,
    count: 0,
    totalMs: 0,
    selfMs: 0,
    errors: 0,
    children: new Map(),
  });
  const top = newNode("", "", -1);
  const nodes: FlameNode[] = [];
  for (const span of spans) {
    const parent = nodes[span.parent] ?? top;
    const key = `${span.service}\0${span.name}`;
    const node = parent.children.get(key) ?? newNode(span.name, span.service, parent.depth + 1);
    parent.children.set(key, node);
    node.count++;
    node.totalMs += span.durationMs;
    node.selfMs += span.selfMs;
    node.errors += span.isError ? 1 : 0;
    nodes.push(node);
  }
  // Children that ran at the same time take more than their parent did: width is self time and theirs.
  const widths = new Map<FlameNode, number>();
  const ordered: FlameNode[] = [];
  const stack = [...top.children.values()];
  for (let node = stack.pop(); node !== undefined; node = stack.pop()) {
    ordered.push(node);
    stack.push(...node.children.values());
  }
  const sum = (node: FlameNode): number =>
    [...node.children.values()].reduce((total, child) => total + (widths.get(child) ?? 0), 0);
  for (const node of ordered.toReversed()) {
    widths.set(node, Math.max(node.selfMs, 0) + sum(node) || 1e-6);
  }
  const whole = sum(top) || 1;
  const found: Flame[] = [];
  const place: { readonly node: FlameNode; readonly left: number }[] = [{ node: top, left: 0 }];
  for (let next = place.pop(); next !== undefined; next = place.pop()) {
    let left = next.left;
    for (const child of [...next.node.children.values()].toSorted((a, b) => b.totalMs - a.totalMs)) {
      const width = (widths.get(child) ?? 0) / whole;
      const { name, service, depth, count, totalMs, selfMs, errors } = child;
      found.push({ name, service, depth, left, width, count, totalMs, selfMs, errors });
      place.push({ node: child, left });
      left += width;
    }
  }
  return found;
}
