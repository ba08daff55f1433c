/** What was asked in this browser, in any of its tabs: the texts, never what was answered. */
import { useSyncExternalStore } from "react";

interface PastQuery {
  readonly sql: string;
  /** Milliseconds since the epoch. */
  readonly atMs: number;
  /** Null: it failed or was cancelled. */
  readonly rows: number | null;
  readonly milliseconds: number | null;
}

const mostKept = 100;
const longestKept = 20_000;
const listeners = new Set<() => void>();
const cache = new Map<string, readonly PastQuery[]>();
/** The browser keeps nothing, or no more: what is remembered is in `cache` alone. */
let isUnkept = false;

/** Everybody who logs in here has their own. */
const prefix = "telemetry.sql.history ";
const keyOf = (subject: string): string => `${prefix}${subject}`;

window.addEventListener("storage", ({ key }) => {
  if (key?.startsWith(prefix) === true) {
    cache.delete(key.slice(prefix.length));
    changed();
  }
});

/** Newest first. */
export function useHistory(subject: string): readonly PastQuery[] {
  return useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => read(subject),
  );
}

/** Remembers a query; the same text is there once. */
export function remember(subject: string, query: PastQuery): void {
  if (query.sql.length <= longestKept) {
    // Another tab may have remembered something, and the event that says so be still on its way.
    const past = isUnkept ? read(subject) : kept(subject);
    write(subject, [query, ...past.filter(({ sql }) => sql !== query.sql)].slice(0, mostKept));
  }
}

export function forgetAll(subject: string): void {
  write(subject, []);
}

function write(subject: string, queries: readonly PastQuery[]): void {
  cache.set(subject, queries);
  try {
    localStorage.setItem(keyOf(subject), JSON.stringify(queries));
    isUnkept = false;
  } catch {
    // Full, or not allowed: it is remembered for as long as the page is open.
    isUnkept = true;
  }
  changed();
}

function changed(): void {
  for (const listener of listeners) {
    listener();
  }
}

function read(subject: string): readonly PastQuery[] {
  let queries = cache.get(subject);
  if (queries === undefined) {
    queries = kept(subject);
    cache.set(subject, queries);
  }
  return queries;
}

/** What cannot be read counts as not there. */
function kept(subject: string): readonly PastQuery[] {
  try {
    const value: unknown = JSON.parse(localStorage.getItem(keyOf(subject)) ?? "[]");
    return Array.isArray(value) ? value.filter(isPastQuery) : [];
  } catch {
    return [];
  }
}

function isPastQuery(value: unknown): value is PastQuery {
  const { sql, atMs } = (value ?? {}) as Partial<PastQuery>;
  return typeof sql === "string" && typeof atMs === "number";
}
