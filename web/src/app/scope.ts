/** Whose data a page shows: the audience and the data source of the address. */
import { textOf, useChangeSearch, useSearchParameters } from "./search.js";

interface Scope {
  /** Null: all that the caller may read. */
  readonly audience: string | null;
  /** Null: the default one. */
  readonly source: string | null;
  readonly setAudience: (audience: string | null) => void;
  readonly setSource: (source: string | null) => void;
}

export function useScope(): Scope {
  const search = useSearchParameters();
  const change = useChangeSearch();
  return {
    audience: textOf(search["audience"]),
    source: textOf(search["source"]),
    setAudience: (audience) => change({ audience: audience ?? undefined }),
    setSource: (source) => change({ source: source ?? undefined }),
  };
}
