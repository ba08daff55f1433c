/** How a list of the web application scrolls: frames, and what each costs the page's thread, by the browser's tracing. */
import type { Browser, Page } from "playwright-core";

import { type FigureRow, median, quantile, round } from "../figures.js";
import { idleMachine } from "../run/machine.js";

/** One event of a trace; times in microseconds, `tdur` of the processor. */
interface TraceEvent {
  readonly name: string;
  readonly ph: string;
  readonly pid: number;
  readonly tid: number;
  readonly dur?: number;
  readonly tdur?: number;
  readonly args?: { readonly name?: string };
}

/** What a frame is made of on the page's thread, in processor time. Some are within others. */
const parts = {
  scripts: ["FunctionCall", "EventDispatch", "FireAnimationFrame", "RunMicrotasks"],
  styles: ["UpdateLayoutTree"],
  layout: ["Layout"],
  paint: ["PrePaint", "Paint", "Layerize", "Commit"],
} as const;

/** Runs in the page: scrolls in every frame by three rows, and once in fifty by thousands; the times between frames. */
const scrollEachFrame = `(list, forMs) => new Promise((resolve) => {
  const frames = [];
  const startMs = performance.now();
  let last = startMs;
  const next = (now) => {
    frames.push(now - last);
    last = now;
    const end = list.scrollHeight - list.clientHeight;
    list.scrollTop = (list.scrollTop + (frames.length % 50 === 0 ? 40_000 : 84)) % end;
    now - startMs < forMs ? requestAnimationFrame(next) : resolve(frames.slice(2));
  };
  requestAnimationFrame(next);
})`;

/**
 * Scrolls a list in every frame for three times three seconds.
 * @returns frames a second, the median, their times, and milliseconds of the processor on the page's thread for each frame
 */
export async function scrollFigures(
  browser: Browser,
  page: Page,
  selector: string,
  name: string,
): Promise<readonly FigureRow[]> {
  // Frames wait for a core where what was sent is merged meanwhile.
  if (!(await idleMachine(90_000))) {
    process.stderr.write("the machine has other work: frames may come late\n");
  }
  const list = `document.querySelector(${JSON.stringify(selector)})`;
  const scroll = (forSeconds: number): Promise<readonly number[]> =>
    page.evaluate<readonly number[]>(`(${scrollEachFrame})(${list}, ${forSeconds * 1000})`);
  // The page before this one is taken down a second after it was closed, for which the browser stops.
  await scroll(3);
  await browser.startTracing(page, { categories: ["toplevel", "devtools.timeline", "__metadata"] });
  const rounds: (readonly number[])[] = [];
  for (let i = 0; i < 3; i++) {
    rounds.push(await scroll(3));
  }
  const frames = rounds.flat();
  const trace = await browser.stopTracing();
  const { traceEvents } = JSON.parse(trace.toString("utf8")) as { readonly traceEvents: readonly TraceEvent[] };
  const costs = mainThreadMs(traceEvents);
  const perFrame = (ms: number): number => round(ms / frames.length, 2);
  return [
    {
      figure: `${name}: frames a second`,
      value: round(median(rounds.map((of) => (of.length * 1000) / sum(of))), 1),
      unit: "1/s",
      target: "60",
    },
    { figure: `${name}: time of a frame, p95`, value: round(quantile(frames, 0.95), 1), unit: "ms", target: "" },
    {
      figure: `${name}: frames later than 25 ms`,
      value: round((frames.filter((ms) => ms > 25).length / frames.length) * 100, 1),
      unit: "%",
      target: "",
    },
    { figure: `${name}: longest frame`, value: round(Math.max(...frames), 1), unit: "ms", target: "" },
    { figure: `${name}: page's thread a frame`, value: perFrame(costs.allMs), unit: "ms cpu", target: "<= 16" },
    ...Object.entries(costs.parts).map(([part, ms]) => ({
      figure: `${name}: of which ${part}`,
      value: perFrame(ms),
      unit: "ms cpu",
      target: "",
    })),
  ];
}

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);

/** Processor time of the busiest page's thread, and of its parts. */
function mainThreadMs(events: readonly TraceEvent[]): {
  readonly allMs: number;
  readonly parts: Readonly<Record<string, number>>;
} {
  const threads = events.filter(({ name, args }) => name === "thread_name" && args?.name === "CrRendererMain");
  const found = threads.map(({ pid, tid }) => {
    const own = events.filter((event) => event.pid === pid && event.tid === tid && event.ph === "X");
    const spent = (names: readonly string[]): number =>
      sum(own.filter(({ name }) => names.includes(name)).map(({ tdur = 0 }) => tdur)) / 1000;
    return {
      allMs: spent(["RunTask", "ThreadControllerImpl::RunTask"]),
      parts: Object.fromEntries(Object.entries(parts).map(([part, names]) => [part, spent(names)])),
    };
  });
  return found.toSorted((a, b) => b.allMs - a.allMs)[0] ?? { allMs: Number.NaN, parts: {} };
}
