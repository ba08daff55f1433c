/** What was asked in this browser: the texts, never what was answered. */
import { useSyncExternalStore } from "react";

export interface PastQuery {
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

/** Everybody who logs in here has their own. */
const keyOf = (subject: string): string => `telemetry.sql.history ${subject}`;

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
    write(subject, [query, ...read(subject).filter(({ sql }) => sql !== query.sql)].slice(0, mostKept));
  }
}

export function forgetAll(subject: string): void {
  write(subject, []);
}

function write(subject: string, queries: readonly PastQuery[]): void {
  cache.set(subject, queries);
  try {
    localStorage.setItem(keyOf(subject), JSON.stringify(queries));
  } catch {
    // Full, or not allowed: it is remembered for as long as the page is open.
  }
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
