/** The points on a map, as three.js draws them. */
import { BufferAttribute, BufferGeometry, CanvasTexture, Color, Points, PointsMaterial } from "three";

import type { MapPoints } from "./map-points.js";

/** Colours of the theme, as `rgb(…)`. */
export interface PointColours {
  /** Of points with the smallest value. */
  readonly low: string;
  /** Of points with the largest value, and of all where there are no values. */
  readonly high: string;
  /** Of points without a value, where others have one. */
  readonly none: string;
}

interface PointCloud {
  /** For the scene. */
  readonly objects: readonly Points[];
  /** Puts points in place of those before; they have no colours yet. */
  place(points: MapPoints): void;
  paint(points: MapPoints, colours: PointColours): void;
  dispose(): void;
}

export function createPointCloud(): PointCloud {
  const disc = new CanvasTexture(discImage());
  const geometry = new BufferGeometry();
  const look = { map: disc, vertexColors: true, sizeAttenuation: false, transparent: true, alphaTest: 0.4 };
  // What is inside of something or behind it still shows, faintly.
  const hidden = new PointsMaterial({ ...look, opacity: 0.45, depthTest: false, depthWrite: false });
  const seen = new PointsMaterial(look);
  const objects = [new Points(geometry, hidden), new Points(geometry, seen)];
  objects.forEach((cloud, order) => {
    cloud.renderOrder = order + 1;
    cloud.frustumCulled = false;
  });
  return {
    objects,
    place({ positions, count }) {
      // The buffers of the points before it, too.
      geometry.dispose();
      geometry.setAttribute("position", new BufferAttribute(positions, 3));
      geometry.setDrawRange(0, count);
      hidden.size = count > 5000 ? 5 : 9;
      seen.size = hidden.size;
    },
    paint(points, colours) {
      geometry.setAttribute("color", new BufferAttribute(pointColours(points, colours), 3));
    },
    dispose() {
      geometry.dispose();
      hidden.dispose();
      seen.dispose();
      disc.dispose();
    },
  };
}

function pointColours({ count, shares }: MapPoints, colours: PointColours): Float32Array {
  const [low, high, none] = [new Color(colours.low), new Color(colours.high), new Color(colours.none)];
  const colour = new Color();
  const into = new Float32Array(count * 3);
  for (let i = 0; i < count; i++) {
    const share = shares?.[i] ?? 1;
    (Number.isNaN(share) ? colour.copy(none) : colour.lerpColors(low, high, share)).toArray(into, i * 3);
  }
  return into;
}

/** A mask: what is opaque takes the colour of the point. */
function discImage(): HTMLCanvasElement {
  const canvas = document.createElement("canvas");
  canvas.width = 32;
  canvas.height = 32;
  const paint = canvas.getContext("2d");
  if (paint !== null) {
    paint.fillStyle = "white";
    paint.arc(16, 16, 15, 0, 2 * Math.PI);
    paint.fill();
  }
  return canvas;
}
