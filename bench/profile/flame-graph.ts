/**
 * A flame graph as SVG: callers above, callees below them, widths by time. It needs neither scripts nor fonts of its own;
 * the pointer over a box shows its whole name.
 */
import type { Frame } from "./cpu-profile.js";

const widthPixels = 1600;
const rowPixels = 17;
const headPixels = 52;
const marginPixels = 8;
/** Of the monospaced text in boxes, at 11 pixels. */
const characterPixels = 6.7;
/** Narrower boxes are left out: they would make up most of the file, and nobody could see them. */
const leastPixels = 0.4;

const kinds = [
  { name: "the project", fill: "#f4a259", of: (module: string) => /^(?:src|bench|scripts|client)\//u.test(module) },
  { name: "Node.js", fill: "#9bc1e0", of: (module: string) => module.startsWith("node:") },
  { name: "native code", fill: "#c3bdd9", of: (module: string) => module === "program" || module.startsWith("native") },
  { name: "garbage collector", fill: "#e58b88", of: (module: string) => module === "gc" },
  { name: "threads", fill: "#d9d9d9", of: (module: string) => module === "" },
  { name: "packages", fill: "#a8cf9a", of: () => true },
] as const;

/** Draws it, `title` above it. */
export function flameGraph(root: Frame, title: string): string {
  const boxes: string[] = [];
  const inner = widthPixels - 2 * marginPixels;
  const scale = root.micros === 0 ? 0 : inner / root.micros;
  let deepest = 0;
  const draw = (frame: Frame, x: number, depth: number): void => {
    const width = frame.micros * scale;
    if (width < leastPixels) {
      return;
    }
    deepest = Math.max(deepest, depth);
    boxes.push(boxOf(frame, { x, y: headPixels + depth * rowPixels, width }, root.micros));
    let left = x;
    for (const callee of [...frame.callees.values()].toSorted((a, b) => b.micros - a.micros)) {
      draw(callee, left, depth + 1);
      left += callee.micros * scale;
    }
  };
  draw(root, marginPixels, 0);
  const height = headPixels + (deepest + 1) * rowPixels + marginPixels;
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${widthPixels} ${height}" width="${widthPixels}" height="${height}">`,
    "<style>text{font:11px ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;fill:#1c1c1c}" +
      "text.title{font-size:14px}g.box:hover rect{stroke:#1c1c1c}</style>",
    `<rect width="${widthPixels}" height="${height}" fill="#ffffff"/>`,
    `<text class="title" x="${marginPixels}" y="20">${escaped(title)}</text>`,
    legend(),
    ...boxes,
    "</svg>",
    "",
  ].join("\n");
}

function legend(): string {
  let x = marginPixels;
  return kinds
    .map(({ name, fill }) => {
      const part = `<rect x="${x}" y="30" width="12" height="12" fill="${fill}"/><text x="${x + 17}" y="40">${name}</text>`;
      x += 17 + name.length * characterPixels + 24;
      return part;
    })
    .join("");
}

function boxOf(frame: Frame, at: { x: number; y: number; width: number }, allMicros: number): string {
  const { name, module, micros } = frame;
  const fill = kinds.find(({ of }) => of(module))?.fill ?? "";
  const percent = ((micros / allMicros) * 100).toFixed(2);
  const whole = `${module === "" ? name : `${name} (${module})`}: ${(micros / 1000).toFixed(1)} ms, ${percent}%`;
  const file = module.slice(module.lastIndexOf("/") + 1);
  const text = shortened(name === "(anonymous)" ? `(${file})` : name, Math.floor((at.width - 6) / characterPixels));
  const [x, width] = [at.x.toFixed(2), at.width.toFixed(2)];
  return (
    `<g class="box"><title>${escaped(whole)}</title>` +
    `<rect x="${x}" y="${at.y}" width="${width}" height="${rowPixels - 1}" rx="1" fill="${fill}"/>` +
    (text === "" ? "" : `<text x="${(at.x + 3).toFixed(2)}" y="${at.y + 12}">${escaped(text)}</text>`) +
    "</g>"
  );
}

function shortened(text: string, characters: number): string {
  if (characters < 3) {
    return "";
  }
  return text.length <= characters ? text : `${text.slice(0, characters - 2)}..`;
}

/** XML takes no control characters, not even as references. */
const escaped = (text: string): string =>
  text
    .replaceAll(/\p{Cc}/gu, " ")
    .replaceAll("&", "&amp;")
    .replaceAll("<", "&lt;")
    .replaceAll(">", "&gt;")
    .replaceAll('"', "&quot;");
