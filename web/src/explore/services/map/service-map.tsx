/**
 * Who calls whom as a graph: services in columns, calls from left to right. A service leads to its page, a call to its
 * traces. Arrow keys walk along calls.
 */
import { Maximize, ZoomIn, ZoomOut } from "lucide-react";
import { type ReactElement, useMemo, useRef, useState } from "react";

import { classes, IconButton, Select } from "../../../ui/controls/controls.js";
import { formatMilliseconds } from "../../../ui/format.js";
import { severityOf } from "../error-share.js";
import { layoutGraph, type Layout } from "./layout.js";
import { box, type DrawnEdge, Edge, Label, type Lit, Node } from "./map-parts.js";
import { type MapEdge, type MapNode, type Place, placeKey, type ServiceGraph } from "./service-graph.js";
import css from "./service-map.module.css";
import { useMapKeys } from "./use-map-keys.js";
import { useViewport, zoomStep } from "./use-viewport.js";

/** With more edges, only what failed and what is pointed at says what it is. */
const mostLabels = 30;
const dense = { ...box, gapX: 116, gapY: 16 };
/** There is room for labels. */
const wide = { ...box, gapX: 148, gapY: 42 };

export const mapColours = ["errors", "p95"] as const;
type MapColour = (typeof mapColours)[number];

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
  const view = useViewport(element, layout);
  const { entry, onFocus, onKey } = useMapKeys(element, graph, layout, view);
  const [lit, setLit] = useState<Lit | null>(null);
  const { drawn, fastest, slowest } = useMemo(() => drawEdges(graph, layout, colour), [graph, layout, colour]);
  const pointing = { seconds, onPoint: setLit, onFocus };

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
        {...view.handlers}
      >
        <div className={css.world} style={view.style}>
          <svg width={layout.width} height={layout.height} className={css.edges}>
            {drawn.map((call) => (
              <Edge
                key={placeKey(call.edge)}
                {...call}
                {...pointing}
                isLit={isLit(call.edge, lit)}
                isEntry={entry === placeKey(call.edge)}
              />
            ))}
            <g aria-hidden>
              {drawn.map((call) => (
                <Label
                  key={placeKey(call.edge)}
                  {...call}
                  isFull={!isDense || (lit !== null && placeKey(lit.place) === placeKey(call.edge))}
                  isOn={isLit(call.edge, lit)}
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
              {...pointing}
              isLit={lit !== null && isBeside(node, lit.place, graph)}
              isEntry={entry === placeKey({ node: node.name })}
            />
          ))}
        </div>
      </div>
      <div className={css.foot}>
        <Select
          label="Colour of calls"
          value={colour}
          options={mapColours.map((each) => ({ value: each, label: `Colour: ${each}` }))}
          onChange={(next) => onColour(mapColours.find((each) => each === next) ?? "errors")}
        />
        <div className={css.about}>
          {lit === null ? <Legend colour={colour} fastest={fastest} slowest={slowest} /> : <p>{lit.words}</p>}
        </div>
        <IconButton label="Zoom in" onClick={() => view.zoom(zoomStep)}>
          <ZoomIn />
        </IconButton>
        <IconButton label="Zoom out" onClick={() => view.zoom(1 / zoomStep)}>
          <ZoomOut />
        </IconButton>
        <IconButton label="Show all" onClick={view.showAll}>
          <Maximize />
        </IconButton>
      </div>
      <p id="service-map-keys" className="visually-hidden">
        Arrow keys walk along calls, Enter opens, plus and minus zoom, 0 shows all, Shift and the arrow keys move.
      </p>
    </div>
  );
}

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
