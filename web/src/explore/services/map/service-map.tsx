/**
 * Who calls whom as a graph: services in columns, calls from left to right. A service leads to its page, a call to its
 * traces. Arrow keys walk along calls.
 */
import { Maximize, ZoomIn, ZoomOut } from "lucide-react";
import { type KeyboardEvent, type ReactElement, useCallback, useMemo, useRef, useState } from "react";

import { classes, IconButton, Select } from "../../../ui/controls.js";
import { formatMilliseconds } from "../../../ui/format.js";
import { severityOf } from "../error-share.js";
import { layoutGraph, type Layout, type Route } from "./layout.js";
import { box, Edge, Label, type Lit, Node } from "./map-parts.js";
import {
  type Direction,
  type MapEdge,
  type MapNode,
  type Place,
  placeKey,
  type ServiceGraph,
  step,
} from "./service-graph.js";
import css from "./service-map.module.css";
import { useViewport } from "./use-viewport.js";
import { fitted, movedBy, showing, zoomedAt } from "./viewport.js";

/** With more edges, only what failed and what is pointed at says what it is. */
const mostLabels = 30;
const dense = { ...box, gapX: 116, gapY: 16 };
/** There is room for labels. */
const wide = { ...box, gapX: 148, gapY: 42 };

export const mapColours = ["errors", "p95"] as const;
export type MapColour = (typeof mapColours)[number];

export function ServiceMap({
  graph,
  seconds,
  colour,
  stale,
  onColour,
}: {
  readonly graph: ServiceGraph;
  /** Of the time range. */
  readonly seconds: number;
  readonly colour: MapColour;
  readonly stale: boolean;
  readonly onColour: (colour: MapColour) => void;
}): ReactElement {
  const element = useRef<HTMLDivElement | null>(null);
  const isDense = graph.edges.length > mostLabels;
  const layout = useMemo(
    () =>
      layoutGraph(
        graph.nodes.map(({ name }) => name),
        graph.edges,
        isDense ? dense : wide,
      ),
    [graph],
  );
  const { view, host, set, handlers } = useViewport(element, layout);
  const [focus, setFocus] = useState<Place | null>(null);
  const [lit, setLit] = useState<Lit | null>(null);
  const point = useCallback((next: Lit | null) => setLit(next), []);
  const hold = useCallback((place: Place) => setFocus(place), []);
  // One of all is reached with Tab; what is gone with the next result is not.
  const first = graph.nodes.toSorted(
    (a, b) => (layout.nodes.get(a.name)?.layer ?? 0) - (layout.nodes.get(b.name)?.layer ?? 0),
  )[0];
  const entry = focus !== null && isThere(focus, graph) ? placeKey(focus) : placeKey({ node: first?.name ?? "" });

  const go = (place: Place | null): void => {
    const around = place === null ? null : boxOf(place, graph, layout);
    if (place === null || around === null) {
      return;
    }
    set(showing(view, around, host));
    const found = [...(element.current?.querySelectorAll<HTMLElement>("[data-place]") ?? [])].find(
      ({ dataset }) => dataset["place"] === placeKey(place),
    );
    found?.focus({ preventScroll: true });
  };
  const middle = { x: host.width / 2, y: host.height / 2 };
  const onKey = (event: KeyboardEvent): void => {
    if (event.ctrlKey || event.metaKey || event.altKey) {
      return;
    }
    const direction = directions[event.key];
    if (direction !== undefined && event.shiftKey) {
      const [x, y] = moves[direction];
      set(movedBy(view, x, y));
    } else if (direction !== undefined) {
      const current = focus !== null && isThere(focus, graph) ? focus : { node: first?.name ?? "" };
      go(step(current, direction, graph, layout.nodes));
    } else if (event.key === "+" || event.key === "=" || event.key === "-") {
      set(zoomedAt(view, event.key === "-" ? 1 / 1.3 : 1.3, middle, host));
    } else if (event.key === "0") {
      set(fitted(layout, host, true));
    } else {
      return;
    }
    event.preventDefault();
  };

  const { drawn, fastest, slowest } = useMemo(() => drawEdges(graph, layout, colour), [graph, layout, colour]);
  return (
    <div className={classes(css.frame, stale && css.stale)} aria-busy={stale}>
      <div
        ref={element}
        className={css.host}
        role="group"
        aria-label="Service map"
        aria-describedby="service-map-keys"
        data-lit={lit !== null}
        data-dense={isDense}
        onKeyDown={onKey}
        onDragStart={(event) => event.preventDefault()}
        {...handlers}
      >
        <div
          className={css.world}
          style={{
            width: layout.width,
            height: layout.height,
            visibility: host.width === 0 ? "hidden" : undefined,
            transform: `translate(${middle.x - view.x * view.scale}px, ${middle.y - view.y * view.scale}px) scale(${view.scale})`,
          }}
        >
          <svg width={layout.width} height={layout.height} className={css.edges}>
            {drawn.map(({ edge, route, look, width }) => (
              <Edge
                key={placeKey(edge)}
                edge={edge}
                route={route}
                look={look}
                width={width}
                seconds={seconds}
                isLit={isLit(edge, lit)}
                isEntry={entry === placeKey(edge)}
                onPoint={point}
                onFocus={hold}
              />
            ))}
            <g aria-hidden>
              {drawn.map(({ edge, route, look, width }) => (
                <Label
                  key={placeKey(edge)}
                  edge={edge}
                  middle={route.middle}
                  look={look}
                  width={width}
                  isFull={!isDense || (lit !== null && placeKey(lit.place) === placeKey(edge))}
                  isOn={isLit(edge, lit)}
                  seconds={seconds}
                />
              ))}
            </g>
          </svg>
          {graph.nodes.map((node) => (
            <Node
              key={node.name}
              node={node}
              x={layout.nodes.get(node.name)?.x ?? 0}
              y={layout.nodes.get(node.name)?.y ?? 0}
              seconds={seconds}
              isLit={lit !== null && isBeside(node, lit.place, graph)}
              isEntry={entry === placeKey({ node: node.name })}
              onPoint={point}
              onFocus={hold}
            />
          ))}
        </div>
      </div>
      <div className={css.foot}>
        <Select
          label="Colour of calls"
          value={colour}
          options={[
            { value: "errors", label: "Colour: errors" },
            { value: "p95", label: "Colour: p95" },
          ]}
          onChange={(next) => onColour(mapColours.find((each) => each === next) ?? "errors")}
        />
        <div className={css.about}>
          {lit === null ? <Legend colour={colour} fastest={fastest} slowest={slowest} /> : <p>{lit.words}</p>}
        </div>
        <IconButton label="Zoom in" onClick={() => set(zoomedAt(view, 1.3, middle, host))}>
          <ZoomIn />
        </IconButton>
        <IconButton label="Zoom out" onClick={() => set(zoomedAt(view, 1 / 1.3, middle, host))}>
          <ZoomOut />
        </IconButton>
        <IconButton label="Show all" onClick={() => set(fitted(layout, host, true))}>
          <Maximize />
        </IconButton>
      </div>
      <p id="service-map-keys" className="visually-hidden">
        Arrow keys walk along calls, Enter opens, plus and minus zoom, 0 shows all, Shift and the arrow keys move.
      </p>
    </div>
  );
}

const directions: Readonly<Record<string, Direction>> = {
  ArrowLeft: "left",
  ArrowRight: "right",
  ArrowUp: "up",
  ArrowDown: "down",
};
const moves = { left: [80, 0], right: [-80, 0], up: [0, 80], down: [0, -80] } as const;

const isThere = (place: Place, { nodes, edges }: ServiceGraph): boolean =>
  "node" in place
    ? nodes.some(({ name }) => name === place.node)
    : edges.some(({ from, to }) => from === place.from && to === place.to);

function isLit(edge: MapEdge, lit: Lit | null): boolean {
  return (
    lit !== null &&
    ("node" in lit.place
      ? edge.from === lit.place.node || edge.to === lit.place.node
      : edge.from === lit.place.from && edge.to === lit.place.to)
  );
}

/** Whether a node is pointed at, or at an end of what is. */
function isBeside({ name }: MapNode, place: Place, { edges }: ServiceGraph): boolean {
  return "node" in place
    ? place.node === name ||
        edges.some(({ from, to }) => (from === name && to === place.node) || (to === name && from === place.node))
    : place.from === name || place.to === name;
}

function boxOf(
  place: Place,
  { edges }: ServiceGraph,
  layout: Layout,
): { readonly x: number; readonly y: number; readonly width: number; readonly height: number } | null {
  if ("node" in place) {
    const at = layout.nodes.get(place.node);
    return at === undefined ? null : { x: at.x, y: at.y, ...box };
  }
  const middle = layout.routes[edges.findIndex(({ from, to }) => from === place.from && to === place.to)]?.middle;
  return middle === undefined ? null : { x: middle.x - 60, y: middle.y - 10, width: 120, height: 20 };
}

interface DrawnEdge {
  readonly edge: MapEdge;
  readonly route: Route;
  /** A class. */
  readonly look: string | undefined;
  readonly width: number;
}

/** How wide and in which colour calls are drawn, and the least and the greatest p95 of all. */
function drawEdges(
  { edges }: ServiceGraph,
  layout: Layout,
  colour: MapColour,
): { readonly drawn: readonly DrawnEdge[]; readonly fastest: number; readonly slowest: number } {
  const [least, more] = edges.length > mostLabels ? [1, 3] : [1.5, 4];
  const busiest = edges.reduce((most, { calls }) => Math.max(most, calls), 1);
  const slowest = edges.reduce((most, { p95 }) => Math.max(most, p95), 0);
  const fastest = edges.reduce((lowest, { p95 }) => Math.min(lowest, p95), slowest);
  const drawn = edges.flatMap((edge, at) => {
    const route = layout.routes[at];
    const width = least + more * Math.sqrt(edge.calls / busiest);
    const look =
      colour === "errors"
        ? css[severityOf(edge.errors / edge.calls)]
        : css[`heat${heatOf(edge.p95, fastest, slowest)}`];
    return route === undefined ? [] : [{ edge, route, look, width }];
  });
  return { drawn, fastest, slowest };
}

/** Seven steps on a logarithmic scale, without the palest, which makes no line. */
function heatOf(p95: number, fastest: number, slowest: number): number {
  const share = fastest >= slowest || fastest <= 0 ? 1 : Math.log(p95 / fastest) / Math.log(slowest / fastest);
  return 1 + Math.round(Math.min(1, Math.max(0, share)) * 6);
}

function Legend({
  colour,
  fastest,
  slowest,
}: {
  readonly colour: MapColour;
  readonly fastest: number;
  readonly slowest: number;
}): ReactElement {
  return (
    <ul className={css.legend}>
      <li>Wide: many calls</li>
      {colour === "errors" ? (
        <>
          <li className={css.good}>
            <span className={css.key} /> up to 1% fail
          </li>
          <li className={css.warn}>
            <span className={css.key} /> from 1%
          </li>
          <li className={css.error}>
            <span className={css.key} /> from 5%
          </li>
        </>
      ) : (
        <li>
          p95 {formatMilliseconds(fastest)}
          <span className={css.ramp} aria-hidden>
            {[1, 2, 3, 4, 5, 6, 7].map((at) => (
              <span key={at} className={css[`heat${at}`]} />
            ))}
          </span>
          {formatMilliseconds(slowest)}
        </li>
      )}
    </ul>
  );
}
