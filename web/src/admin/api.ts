/** What the pages of the administration ask the server, and how they change something. */
import { useQuery, useQueryClient, type UseQueryResult } from "@tanstack/react-query";
import { useCallback, useEffect, useRef, useState } from "react";

import { call } from "../api/call.js";

/** What an answer holds at most, and how many answers a list is read in. */
const pageRows = 500;
const mostPages = 40;
/** What a list has at most; what comes after is not read. */
export const mostRows = pageRows * mostPages;

/** Every row of a list, in the order of the server. */
export async function listAll<T>(
  path: string,
  query: Readonly<Record<string, string | number | boolean>> = {},
  signal?: AbortSignal,
): Promise<readonly T[]> {
  const rows: T[] = [];
  for (let page = 0; page < mostPages; page++) {
    const part = await call<readonly T[]>(path, {
      query: { ...query, limit: pageRows, offset: page * pageRows },
      signal,
    });
    rows.push(...part);
    if (part.length < pageRows) {
      break;
    }
  }
  return rows;
}

/**
 * A list of the administration; see {@link useInvalidate}.
 * @param name of the list, and what narrows it.
 */
export function useList<T>(
  name: readonly string[],
  path: string,
  o: {
    readonly query?: Readonly<Record<string, string | number | boolean>>;
    readonly enabled?: boolean;
    /** Milliseconds until it is asked for again, as long as these rows change; false: they do not. */
    readonly every?: (rows: readonly T[]) => number | false;
  } = {},
): UseQueryResult<readonly T[]> {
  return useQuery({
    queryKey: ["admin", ...name],
    queryFn: ({ signal }) => listAll<T>(path, o.query, signal),
    enabled: o.enabled ?? true,
    refetchInterval: ({ state }) => o.every?.(state.data ?? []) ?? false,
  });
}

/** Asks anew, by their names, lists of the administration and what the rest of the application knows. */
export function useInvalidate(): (...names: readonly string[]) => Promise<void> {
  const queries = useQueryClient();
  return useCallback(
    async (...names) => {
      const named = {
        predicate: ({ queryKey: key }: { readonly queryKey: readonly unknown[] }): boolean =>
          names.includes(String(key[0] === "admin" ? key[1] : key[0])),
      };
      // A first answer under way may be of before the change, and would be taken for the one asked for now.
      await queries.cancelQueries(named);
      await queries.invalidateQueries(named);
    },
    [queries],
  );
}

/** What a task leaves to do on the page that it began on, for example to open what it made; nothing if that was left. */
export type Afterwards = (() => void) | void;

/** Something that a person has the server do. */
export interface Task<A extends readonly unknown[]> {
  readonly busy: boolean;
  /** Of the last time; null while it is under way and when it went well. */
  readonly error: unknown;
  readonly run: (...args: A) => void;
  readonly reset: () => void;
}

/**
 * Does one thing at a time. What it answers is nowhere but with the caller: unlike a mutation of TanStack Query, which
 * keeps answers for minutes, it may be a secret.
 */
export function useTask<A extends readonly unknown[]>(work: (...args: A) => Promise<Afterwards>): Task<A> {
  const [state, setState] = useState<{ readonly busy: boolean; readonly error: unknown }>({ busy: false, error: null });
  const latest = useRef(work);
  latest.current = work;
  const shown = useRef(true);
  const busy = useRef(false);
  useEffect(() => {
    shown.current = true;
    return () => {
      shown.current = false;
    };
  }, []);
  const set = (next: typeof state): void => {
    busy.current = next.busy;
    if (shown.current) {
      setState(next);
    }
  };
  const run = useCallback((...args: A) => {
    if (busy.current) {
      return;
    }
    set({ busy: true, error: null });
    const finish = async (): Promise<void> => {
      try {
        const afterwards = await latest.current(...args);
        set({ busy: false, error: null });
        if (shown.current) {
          afterwards?.();
        }
      } catch (error) {
        set({ busy: false, error });
      }
    };
    void finish();
  }, []);
  const reset = useCallback(() => set({ busy: false, error: null }), []);
  return { ...state, run, reset };
}
