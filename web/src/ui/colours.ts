/** Colours of the theme for canvases, which know no variables; and those of series and levels. */
import { useEffect, useState } from "react";
import { flushSync } from "react-dom";

import { subscribe } from "../app/settings.js";

const seriesCount = 10;

/** The variable of a series: the same name has one colour on every page. */
export function seriesColour(name: string): string {
  let hash = 2166136261; // FNV-1a
  for (let i = 0; i < name.length; i++) {
    hash = Math.imul(hash ^ name.charCodeAt(i), 16777619);
  }
  return `var(--series-${(hash >>> 0) % seriesCount})`;
}

/**
 * Variables for several names at once: each its own as long as there are enough, so that two series of one chart that
 * hash alike are still told apart.
 */
export function seriesColours(names: readonly string[]): readonly string[] {
  const taken = new Set<string>();
  return names.map((name) => {
    const own = Number(/\d/.exec(seriesColour(name))?.[0] ?? 0);
    for (let step = 0; step < seriesCount; step++) {
      const colour = `var(--series-${(own + step) % seriesCount})`;
      if (!taken.has(colour)) {
        taken.add(colour);
        return colour;
      }
    }
    return seriesColour(name);
  });
}

const filled: ReadonlySet<string> = new Set(["fatal", "error", "warn", "info"]);

/** The fill of a level, null for none. */
export function levelColour(level: string | null): string {
  return level !== null && filled.has(level) ? `var(--level-${level})` : "var(--level-debug)";
}

/** What a variable means in the theme of now: `rgb(…)`. */
export function resolvedColour(variable: string): string {
  const probe = document.createElement("span");
  probe.style.color = variable;
  probe.style.forcedColorAdjust = "none";
  document.body.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}

/** Grows when the theme changes, and for paper, which is light: what is drawn has to be drawn again. */
export function useThemeVersion(): number {
  const [version, setVersion] = useState(0);
  useEffect(() => {
    const change = (): void => setVersion((before) => before + 1);
    const system = window.matchMedia("(prefers-color-scheme: dark)");
    system.addEventListener("change", change);
    // The browser waits for nothing but this call before it prints.
    const paper = window.matchMedia("print");
    const changeNow = (): void => flushSync(change);
    paper.addEventListener("change", changeNow);
    const unsubscribe = subscribe(change);
    return () => {
      system.removeEventListener("change", change);
      paper.removeEventListener("change", changeNow);
      unsubscribe();
    };
  }, []);
  return version;
}
