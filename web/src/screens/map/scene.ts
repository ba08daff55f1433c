/** The scene of a map, drawn with three.js when something changes. Imported only when there is one to show. */
import {
  Box3,
  Color,
  DirectionalLight,
  HemisphereLight,
  Matrix4,
  PerspectiveCamera,
  Scene,
  Sphere,
  Spherical,
  Vector3,
  WebGLRenderer,
} from "three";
import { OrbitControls } from "three/addons/controls/OrbitControls.js";

import { disposeModel, paintBare, readModel, SceneError } from "./map-model.js";
import { type MapPoints, pointAt } from "./map-points.js";
import { createPointCloud, type PointColours } from "./point-cloud.js";

/** Colours of the theme, as `rgb(…)`. */
export interface SceneColours extends PointColours {
  readonly background: string;
  /** Of surfaces to which the map gives no material. */
  readonly surface: string;
}

export interface MapScene {
  setPoints(points: MapPoints): void;
  setColours(colours: SceneColours): void;
  dispose(): void;
}

interface SceneOptions {
  /** Takes the canvas, and gives it its size. */
  readonly host: HTMLElement;
  /** A GLB that `mapFileProblem` has let through. */
  readonly file: ArrayBuffer;
  /** The point below the pointer, in the order of the points. */
  readonly onPoint: (point: number | null) => void;
  readonly onLost: () => void;
}

/** Pixels from a point at which the pointer is still on it. */
const reach = 8;
/** Of a turn, of the width of the view and of the distance, by one key. */
const keyTurn = Math.PI / 24;
const keyPan = 0.06;
const keyZoom = 1.15;

/** @throws SceneError without WebGL 2, and for a file that cannot be read. */
export async function createScene(o: SceneOptions): Promise<MapScene> {
  const model = await readModel(o.file);
  const canvas = document.createElement("canvas");
  const context = canvas.getContext("webgl2", { antialias: true, alpha: true, powerPreference: "low-power" });
  if (context === null) {
    disposeModel(model);
    throw new SceneError("This browser draws no scenes: WebGL 2 is missing or turned off.");
  }
  const renderer = new WebGLRenderer({ canvas, context });
  renderer.setPixelRatio(Math.min(window.devicePixelRatio, 2));
  const scene = new Scene();
  const camera = new PerspectiveCamera(45, 1, 0.1, 1000);
  const sky = new HemisphereLight(undefined, undefined, 1.4);
  const lamp = new DirectionalLight(undefined, 1.6);
  lamp.position.set(1, 2, 3);
  camera.add(lamp);
  scene.add(model, sky, camera);

  canvas.tabIndex = 0;
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", "Scene with points, which are in the table, too");
  o.host.append(canvas);
  const controls = new OrbitControls(camera, canvas);
  // A wheel or a finger that scrolls the page goes on doing so, until somebody goes into the map.
  controls.enableZoom = false;
  canvas.style.touchAction = "pan-y";

  const stop = new AbortController();
  const { signal } = stop;
  let frame = 0;
  const draw = (): void => {
    if (frame === 0) {
      frame = requestAnimationFrame(() => {
        frame = 0;
        renderer.render(scene, camera);
      });
    }
  };
  controls.addEventListener("change", draw);

  const cloud = createPointCloud();
  scene.add(...cloud.objects);
  let points: MapPoints | null = null;
  let colours: SceneColours | null = null;

  const fit = (): void => {
    const box = new Box3().setFromObject(model);
    if (box.isEmpty() && points !== null) {
      box.setFromArray(points.positions);
    }
    if (box.isEmpty()) {
      box.set(new Vector3(-1, -1, -1), new Vector3(1, 1, 1));
    }
    const { center, radius } = box.getBoundingSphere(new Sphere());
    const size = Math.max(radius, 1e-3);
    const half = (camera.fov * Math.PI) / 360;
    const distance = size / Math.sin(Math.min(half, Math.atan(Math.tan(half) * camera.aspect)));
    camera.near = size / 200;
    camera.far = size * 200;
    camera.updateProjectionMatrix();
    controls.minDistance = size / 50;
    controls.maxDistance = size * 50;
    controls.target.copy(center);
    camera.position.set(0.6, 0.65, 1).normalize().multiplyScalar(distance).add(center);
    controls.update();
    draw();
  };

  const paint = (): void => {
    if (colours === null) {
      return;
    }
    renderer.setClearColor(new Color(colours.background), 1);
    sky.groundColor.set(colours.background);
    paintBare(model, new Color(colours.surface));
    if (points !== null) {
      cloud.paint(points, colours);
    }
    draw();
  };

  const resize = new ResizeObserver(() => {
    const { clientWidth, clientHeight } = o.host;
    if (clientWidth > 0 && clientHeight > 0) {
      renderer.setSize(clientWidth, clientHeight, false);
      camera.aspect = clientWidth / clientHeight;
      camera.updateProjectionMatrix();
      draw();
    }
  });
  renderer.setSize(Math.max(o.host.clientWidth, 1), Math.max(o.host.clientHeight, 1), false);
  camera.aspect = Math.max(o.host.clientWidth, 1) / Math.max(o.host.clientHeight, 1);
  fit();
  resize.observe(o.host);

  canvas.addEventListener("focus", () => (controls.enableZoom = true), { signal });
  canvas.addEventListener("blur", () => (controls.enableZoom = false), { signal });
  canvas.addEventListener("pointerdown", () => canvas.focus({ preventScroll: true }), { signal });
  canvas.addEventListener("webglcontextlost", o.onLost, { signal });
  canvas.addEventListener("pointerleave", () => o.onPoint(null), { signal });
  canvas.addEventListener(
    "pointermove",
    ({ offsetX, offsetY, buttons }) => {
      if (buttons === 0 && points !== null) {
        const { clientWidth: width, clientHeight: height } = canvas;
        const matrix = new Matrix4().multiplyMatrices(camera.projectionMatrix, camera.matrixWorldInverse);
        o.onPoint(pointAt(points.positions, matrix.elements, { x: offsetX, y: offsetY, width, height }, reach));
      }
    },
    { signal },
  );
  canvas.addEventListener(
    "keydown",
    (event) => {
      if (event.ctrlKey || event.altKey || event.metaKey) {
        return;
      }
      if (event.key === "Home") {
        fit();
      } else if (!moveByKey(camera, controls.target, event)) {
        return;
      }
      event.preventDefault();
      controls.update();
    },
    { signal },
  );

  return {
    setPoints(next) {
      const isFirst = points === null;
      points = next;
      cloud.place(next);
      paint();
      if (isFirst) {
        fit();
      }
    },
    setColours(next) {
      colours = next;
      paint();
    },
    dispose() {
      stop.abort();
      cancelAnimationFrame(frame);
      resize.disconnect();
      controls.dispose();
      disposeModel(model);
      cloud.dispose();
      renderer.dispose();
      renderer.forceContextLoss();
      canvas.remove();
    },
  };
}

/** Arrows turn, with Shift they move, + and - come nearer and go away. False: the key means nothing here. */
function moveByKey(camera: PerspectiveCamera, target: Vector3, { key, shiftKey }: KeyboardEvent): boolean {
  const offset = camera.position.clone().sub(target);
  const dx = Number(key === "ArrowRight") - Number(key === "ArrowLeft");
  const dy = Number(key === "ArrowUp") - Number(key === "ArrowDown");
  if (key === "+" || key === "=") {
    offset.divideScalar(keyZoom);
  } else if (key === "-") {
    offset.multiplyScalar(keyZoom);
  } else if (dx === 0 && dy === 0) {
    return false;
  } else if (shiftKey) {
    const step = offset.length() * keyPan;
    const right = new Vector3().setFromMatrixColumn(camera.matrix, 0).multiplyScalar(dx * step);
    target.add(right).addScaledVector(new Vector3().setFromMatrixColumn(camera.matrix, 1), dy * step);
  } else {
    const turn = new Spherical().setFromVector3(offset);
    turn.theta += dx * keyTurn;
    turn.phi -= dy * keyTurn;
    offset.setFromSpherical(turn.makeSafe());
  }
  camera.position.copy(target).add(offset);
  return true;
}
