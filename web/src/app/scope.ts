/** Whose data a page shows: the audience and the data source of the address. */
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useCallback } from "react";

export interface Scope {
  /** Null: all that the caller may read. */
  readonly audience: string | null;
  /** Null: the default one. */
  readonly source: string | null;
  readonly setAudience: (audience: string | null) => void;
  readonly setSource: (source: string | null) => void;
}

export function useScope(): Scope {
  const search = useSearch({ strict: false }) as Readonly<Record<string, unknown>>;
  const navigate = useNavigate();
  const set = useCallback(
    (name: string, value: string | null) =>
      void navigate({
        to: ".",
        search: (before: Record<string, unknown>) => ({ ...before, [name]: value ?? undefined }),
      }),
    [navigate],
  );
  const textOf = (value: unknown): string | null => (typeof value === "string" && value !== "" ? value : null);
  return {
    audience: textOf(search["audience"]),
    source: textOf(search["source"]),
    setAudience: (audience) => set("audience", audience),
    setSource: (source) => set("source", source),
  };
}
