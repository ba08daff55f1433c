/** Labels of time for charts that are drawn by hand. */
import { formatTime } from "../format.js";
import type { ResolvedRange } from "../time-range.js";

/** Milliseconds between labels. */
const steps = [
  1, 10, 100, 1000, 5000, 15_000, 60_000, 300_000, 600_000, 900_000, 1_800_000, 3_600_000, 10_800_000, 21_600_000,
  43_200_000, 86_400_000, 172_800_000, 604_800_000,
];

/** Round times of a range, each with as much of it as the range needs. @param most about as many, at least two. */
export function timeTicks(
  { beginMs, endMs }: ResolvedRange,
  most: number,
): readonly { readonly ms: number; readonly text: string }[] {
  const spanMs = endMs - beginMs;
  const count = Math.max(2, most);
  const stepMs = steps.find((step) => spanMs / step <= count) ?? spanMs / count;
  const found: { readonly ms: number; readonly text: string }[] = [];
  for (let ms = Math.ceil(beginMs / stepMs) * stepMs; ms < endMs; ms += stepMs) {
    const text = formatTime(ms, { digits: spanMs < 10_000 ? 3 : 0 });
    const shown = spanMs > 86_400_000 ? text.slice(5, 16) : spanMs > 600_000 ? text.slice(11, 16) : text.slice(11);
    found.push({ ms, text: shown });
  }
  return found;
}
