/** A map by keyboard: arrow keys walk along calls, plus, minus and 0 zoom, Shift and the arrow keys move. */
import { type KeyboardEvent, type RefObject, useState } from "react";

import type { Layout } from "./layout.js";
import { box } from "./map-parts.js";
import { type Direction, type Place, placeKey, type ServiceGraph, step } from "./service-graph.js";
import { type MapView, zoomStep } from "./use-viewport.js";
import type { Box } from "./viewport.js";

const directions: Readonly<Record<string, Direction>> = {
  ArrowLeft: "left",
  ArrowRight: "right",
  ArrowUp: "up",
  ArrowDown: "down",
};
/** In pixels. */
const moves: Readonly<Record<Direction, readonly [number, number]>> = {
  left: [80, 0],
  right: [-80, 0],
  up: [0, 80],
  down: [0, -80],
};

interface MapKeys {
  /** The {@link placeKey} of the one place that Tab leads to. */
  readonly entry: string;
  readonly onFocus: (place: Place) => void;
  readonly onKey: (event: KeyboardEvent) => void;
}

export function useMapKeys(
  element: RefObject<HTMLElement | null>,
  graph: ServiceGraph,
  layout: Layout,
  view: MapView,
): MapKeys {
  const [focus, onFocus] = useState<Place | null>(null);
  // What had the focus may be gone with the next result.
  const current = focus !== null && boxOf(focus, graph, layout) !== null ? focus : firstOf(graph, layout);

  const go = (place: Place): void => {
    const around = boxOf(place, graph, layout);
    if (around === null) {
      return;
    }
    view.show(around);
    const found = [...(element.current?.querySelectorAll<HTMLElement>("[data-place]") ?? [])].find(
      ({ dataset }) => dataset["place"] === placeKey(place),
    );
    found?.focus({ preventScroll: true });
  };
  const onKey = (event: KeyboardEvent): void => {
    if (event.ctrlKey || event.metaKey || event.altKey) {
      return;
    }
    const direction = directions[event.key];
    if (direction !== undefined && event.shiftKey) {
      view.move(...moves[direction]);
    } else if (direction !== undefined) {
      const next = step(current, direction, graph, layout.nodes);
      if (next !== null) {
        go(next);
      }
    } else if (event.key === "+" || event.key === "=") {
      view.zoom(zoomStep);
    } else if (event.key === "-") {
      view.zoom(1 / zoomStep);
    } else if (event.key === "0") {
      view.showAll();
    } else {
      return;
    }
    event.preventDefault();
  };
  return { entry: placeKey(current), onFocus, onKey };
}

/** The first service of the leftmost column. */
function firstOf({ nodes }: ServiceGraph, layout: Layout): Place {
  const layerOf = (name: string): number => layout.nodes.get(name)?.layer ?? 0;
  return { node: nodes.toSorted((a, b) => layerOf(a.name) - layerOf(b.name))[0]?.name ?? "" };
}

/** Null: the map does not have it. */
function boxOf(place: Place, { edges }: ServiceGraph, layout: Layout): Box | null {
  if ("node" in place) {
    const at = layout.nodes.get(place.node);
    return at === undefined ? null : { x: at.x, y: at.y, ...box };
  }
  const middle = layout.routes[edges.findIndex(({ from, to }) => from === place.from && to === place.to)]?.middle;
  return middle === undefined ? null : { x: middle.x - 60, y: middle.y - 10, width: 120, height: 20 };
}
