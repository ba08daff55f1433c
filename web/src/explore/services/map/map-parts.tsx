/** What the service map draws: services, calls between them, and what calls say of themselves. */
import { Link } from "@tanstack/react-router";
import { Cylinder, Globe, ListOrdered } from "lucide-react";
import { memo, type ReactElement } from "react";

import { classes } from "../../../ui/controls/controls.js";
import { seriesColour } from "../../../ui/colours.js";
import { formatMilliseconds, formatPercent, formatRate } from "../../../ui/format.js";
import { callsAddress, serviceAddress } from "../../addresses.js";
import { severityOf } from "../error-share.js";
import type { Route } from "./layout.js";
import { edgeWords, factsOf, type MapEdge, type MapNode, nodeWords, type Place, placeKey } from "./service-graph.js";
import css from "./service-map.module.css";

/** Of a service. */
export const box = { width: 172, height: 46 };

/** A call as it is drawn. */
export interface DrawnEdge {
  readonly edge: MapEdge;
  readonly route: Route;
  /** A class. */
  readonly look: string | undefined;
  readonly width: number;
}

/** What is pointed at. */
export interface Lit {
  readonly place: Place;
  readonly words: string;
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

export const Node = memo(function Node({
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

export const Edge = memo(function Edge({ edge, route, look, width, ...o }: Pointed & DrawnEdge): ReactElement {
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
export const Label = memo(function Label({
  edge,
  route: { middle },
  look,
  width,
  isFull,
  isOn,
  seconds,
}: DrawnEdge & {
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
