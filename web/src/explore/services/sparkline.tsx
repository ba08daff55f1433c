/** A line as high as a row, without axes: how something went, beside the number that says how much. */
import type { ReactElement } from "react";

import css from "./sparkline.module.css";

const width = 96;
const height = 20;

/** @param values evenly spaced; NaN: a gap. The line begins at zero. */
export function Sparkline({
  values,
  colour,
}: {
  readonly values: Float64Array;
  readonly colour: string;
}): ReactElement {
  return (
    <svg className={css.line} viewBox={`0 0 ${width} ${height}`} preserveAspectRatio="none" aria-hidden>
      <path d={sparkPath(values)} stroke={colour} fill="none" vectorEffect="non-scaling-stroke" />
    </svg>
  );
}

/** A path in a box of 96 by 20; a value between two gaps is a point. */
function sparkPath(values: Float64Array): string {
  const max = values.reduce((most, value) => (value > most ? value : most), 0);
  const step = values.length > 1 ? width / (values.length - 1) : 0;
  let path = "";
  let isDrawing = false;
  values.forEach((value, at) => {
    if (Number.isNaN(value)) {
      isDrawing = false;
      return;
    }
    const y = height - 1 - (max === 0 ? 0 : (Math.max(0, value) / max) * (height - 3));
    path += `${isDrawing ? "L" : "M"}${(at * step).toFixed(1)} ${y.toFixed(1)}`;
    if (!isDrawing && (at + 1 >= values.length || Number.isNaN(values[at + 1]))) {
      path += "h1";
    }
    isDrawing = true;
  });
  return path;
}
