/**
 * Who calls whom as a graph: services in columns, calls from left to right. A service leads to its page, a call to its
 * traces. Arrow keys walk along calls.
 */
import { Link } from "@tanstack/react-router";
import { Cylinder, Globe, ListOrdered, Maximize, ZoomIn, ZoomOut } from "lucide-react";
import { type KeyboardEvent, memo, type ReactElement, useCallback, useMemo, useRef, useState } from "react";

import { classes, IconButton, Select } from "../../../ui/controls.js";
import { seriesColour } from "../../../ui/colours.js";
import { formatMilliseconds, formatPercent, formatRate } from "../../../ui/format.js";
import { callsAddress, serviceAddress } from "../../addresses.js";
import { severityOf } from "../error-share.js";
import { layoutGraph, type Layout, type Point, type Route } from "./layout.js";
import {
  type Direction,
  edgeWords,
  factsOf,
  type MapEdge,
  type MapNode,
  nodeWords,
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
const box = { width: 172, height: 46 };
const dense = { ...box, gapX: 116, gapY: 16 };
/** There is room for labels. */
const wide = { ...box, gapX: 148, gapY: 42 };

export const mapColours = ["errors", "p95"] as const;
export type MapColour = (typeof mapColours)[number];

interface Lit {
  readonly place: Place;
  readonly words: string;
}

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
  const layout = useMemo(
    () =>
      layoutGraph(
        graph.nodes.map(({ name }) => name),
        graph.edges,
        graph.edges.length > mostLabels ? dense : wide,
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

  const isDense = graph.edges.length > mostLabels;
  const busiest = graph.edges.reduce((most, { calls }) => Math.max(most, calls), 1);
  const slowest = graph.edges.reduce((most, { p95 }) => Math.max(most, p95), 0);
  const fastest = graph.edges.reduce((least, { p95 }) => Math.min(least, p95), slowest);
  const drawn = graph.edges.flatMap((edge, at) => {
    const route = layout.routes[at];
    const width = (isDense ? 1 : 1.5) + (isDense ? 3 : 4) * Math.sqrt(edge.calls / busiest);
    const look =
      colour === "errors"
        ? css[severityOf(edge.errors / edge.calls)]
        : css[`heat${heatOf(edge.p95, fastest, slowest)}`];
    return route === undefined ? [] : [{ edge, route, look, width }];
  });
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

/** Seven steps on a logarithmic scale, without the palest, which makes no line. */
function heatOf(p95: number, fastest: number, slowest: number): number {
  const share = fastest >= slowest || fastest <= 0 ? 1 : Math.log(p95 / fastest) / Math.log(slowest / fastest);
  return 1 + Math.round(Math.min(1, Math.max(0, share)) * 6);
}

interface Pointed {
  readonly seconds: number;
  readonly isLit: boolean;
  /** Tab leads to it. */
  readonly isEntry: boolean;
  readonly onPoint: (lit: Lit | null) => void;
  readonly onFocus: (place: Place) => void;
}

function pointing(place: Place, words: string, { isEntry, isLit: on, onPoint, onFocus }: Pointed) {
  return {
    "data-place": placeKey(place),
    "data-on": on,
    tabIndex: isEntry ? 0 : -1,
    onMouseEnter: () => onPoint({ place, words }),
    onMouseLeave: () => onPoint(null),
    onFocus: () => {
      onFocus(place);
      onPoint({ place, words });
    },
    onBlur: () => onPoint(null),
  };
}

const Node = memo(function Node({
  node,
  x,
  y,
  ...o
}: Pointed & { readonly node: MapNode; readonly x: number; readonly y: number }): ReactElement {
  const { name, type, service } = node;
  const Icon = icons[type];
  const share = service === null || service.requests === 0 ? 0 : service.errors / service.requests;
  // What has no page leads to who calls it.
  const address = type === "service" ? serviceAddress(name) : { to: "/services", search: { view: "calls", q: name } };
  return (
    <Link
      {...address}
      activeOptions={never}
      className={classes(css.node, css[`node-${severityOf(share)}`])}
      style={{ left: x, top: y, ...box }}
      {...pointing({ node: name }, nodeWords(node, o.seconds), o)}
    >
      {Icon === undefined ? (
        <span className={css.swatch} style={{ background: seriesColour(name) }} />
      ) : (
        <Icon aria-hidden className={css.icon} />
      )}
      <span className="visually-hidden">{nodeWords(node, o.seconds)}</span>
      <span className={css.name} aria-hidden>
        {name}
      </span>
      <span className={css.facts} aria-hidden>
        {service === null || service.requests === 0
          ? type
          : factsOf({ count: service.requests, errors: service.errors, p95: service.p95 }, o.seconds)}
      </span>
    </Link>
  );
});

const icons: Readonly<Record<string, typeof Globe>> = { database: Cylinder, queue: ListOrdered, external: Globe };
/** The page that a link leads away from is not its own. */
const never = { exact: true, includeSearch: true } as const;

const Edge = memo(function Edge({
  edge,
  route,
  look,
  width,
  ...o
}: Pointed & {
  readonly edge: MapEdge;
  readonly route: Route;
  readonly look: string | undefined;
  readonly width: number;
}): ReactElement {
  const { path, end, isForward } = route;
  const reach = 5 + width;
  const words = edgeWords(edge, o.seconds);
  return (
    <Link
      {...callsAddress(edge.from, edge.to)}
      activeOptions={never}
      aria-label={words}
      className={classes(css.edge, look)}
      {...pointing(edge, words, o)}
    >
      <path d={path} className={css.hit} />
      <path d={path} className={css.line} strokeWidth={width} />
      <path
        d={`M${end.x} ${end.y}l${isForward ? -reach : reach} ${-reach / 1.8}v${reach * 1.11}z`}
        className={css.head}
      />
    </Link>
  );
});

/** Above all edges: its rate, and below that how many fail and how long it takes; or how many fail alone. */
const Label = memo(function Label({
  edge,
  middle,
  look,
  width,
  isFull,
  isOn,
  seconds,
}: {
  readonly edge: MapEdge;
  readonly middle: Point;
  readonly look: string | undefined;
  readonly width: number;
  readonly isFull: boolean;
  readonly isOn: boolean;
  readonly seconds: number;
}): ReactElement | null {
  const share = edge.errors / edge.calls;
  if (!isFull && severityOf(share) === "good") {
    return null;
  }
  const apart = width / 2 + 8;
  return (
    <g className={classes(css.label, look)} data-on={isOn}>
      {isFull ? (
        <>
          <text x={middle.x} y={middle.y - apart}>
            {formatRate(edge.calls / seconds)}
          </text>
          <text x={middle.x} y={middle.y + apart}>
            {formatPercent(share)} · {formatMilliseconds(edge.p95)}
          </text>
        </>
      ) : (
        <text x={middle.x} y={middle.y}>
          {formatPercent(share)}
        </text>
      )}
    </g>
  );
});

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
