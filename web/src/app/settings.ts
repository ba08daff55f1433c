/** What a person chose for this browser: kept in its storage, and shared by its tabs. No secret is among it. */
import { useSyncExternalStore } from "react";

import { showTimesIn } from "../ui/format.js";

export type Theme = "system" | "light" | "dark";

interface Settings {
  readonly theme: Theme;
  /** An IANA name; null: that of the browser. */
  readonly timeZone: string | null;
  readonly navigation: "wide" | "narrow";
}

const key = "telemetry.settings";
const defaults: Settings = { theme: "system", timeZone: null, navigation: "wide" };
const listeners = new Set<() => void>();
let current = read();

apply();
window.addEventListener("storage", (event) => {
  if (event.key === key) {
    current = read();
    changed();
  }
});

/** The settings; the component renders again when they change. */
export function useSettings(): Settings {
  return useSyncExternalStore(subscribe, currentSettings);
}

/** The settings now. */
function currentSettings(): Settings {
  return current;
}

/** Calls `listener` after each change, until the returned function is called. */
export function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function changeSettings(changes: Partial<Settings>): void {
  current = { ...current, ...changes };
  try {
    localStorage.setItem(key, JSON.stringify(current));
  } catch {
    // A browser that keeps nothing: they hold until the page is left.
  }
  changed();
}

function changed(): void {
  apply();
  for (const listener of listeners) {
    listener();
  }
}

function apply(): void {
  showTimesIn(current.timeZone);
  if (current.theme === "system") {
    delete document.documentElement.dataset["theme"];
  } else {
    document.documentElement.dataset["theme"] = current.theme;
  }
}

/** What cannot be read counts as not there. */
function read(): Settings {
  const { theme, timeZone, navigation } = readObject();
  return {
    theme: theme === "light" || theme === "dark" ? theme : defaults.theme,
    timeZone: typeof timeZone === "string" && isTimeZone(timeZone) ? timeZone : null,
    navigation: navigation === "narrow" ? navigation : defaults.navigation,
  };
}

function readObject(): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(localStorage.getItem(key) ?? "{}");
    return typeof value === "object" && value !== null ? { ...value } : {};
  } catch {
    return {};
  }
}

/** Whether the browser knows a zone of that name. */
export function isTimeZone(name: string): boolean {
  try {
    return name !== "" && new Intl.DateTimeFormat("en", { timeZone: name }).format() !== "";
  } catch {
    return false;
  }
}
