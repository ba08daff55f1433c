/** The filters of a page, in its address: `filter=service_name=shop&filter=http.route~cart`. */
import { useCallback, useMemo } from "react";

import { textsOf, useChangeSearch, useSearchParameters } from "../app/search.js";
import { type Filter, formatFilter, parseFilters } from "../ui/filters.js";

interface PageFilters {
  readonly filters: readonly Filter[];
  readonly setFilters: (filters: readonly Filter[]) => void;
  /** Adds a filter, or takes it away where it is; what it contradicts goes. Null: rows without the key. */
  readonly toggle: (key: string, value: string | null, exclude: boolean) => void;
}

export function useFilters(): PageFilters {
  const search = useSearchParameters();
  const change = useChangeSearch();
  const texts = textsOf(search["filter"]);
  const key = JSON.stringify(texts);
  const filters = useMemo(() => parseFilters(texts), [key]);
  const setFilters = useCallback(
    (next: readonly Filter[]) => change({ filter: next.length === 0 ? undefined : next.map(formatFilter) }),
    [change],
  );
  const toggle = useCallback(
    (name: string, value: string | null, exclude: boolean) => setFilters(toggled(filters, name, value, exclude)),
    [filters, setFilters],
  );
  return { filters, setFilters, toggle };
}

/** See {@link PageFilters.toggle}. */
function toggled(filters: readonly Filter[], key: string, value: string | null, exclude: boolean): readonly Filter[] {
  const wanted = filterFor(key, value, exclude);
  const text = formatFilter(wanted);
  const opposite = formatFilter(filterFor(key, value, !exclude));
  const others = filters.filter((each) => formatFilter(each) !== text && formatFilter(each) !== opposite);
  return filters.some((each) => formatFilter(each) === text) ? others : [...others, wanted];
}

function filterFor(key: string, value: string | null, exclude: boolean): Filter {
  return value === null
    ? { key, operator: exclude ? "exists" : "missing", value: "" }
    : { key, operator: exclude ? "!=" : "=", value };
}

/** A list of names in the address, joined by commas: of columns, of facets. */
export function useNames(
  name: string,
  defaults: readonly string[],
): readonly [readonly string[], (names: readonly string[]) => void] {
  const search = useSearchParameters();
  const change = useChangeSearch();
  const texts = textsOf(search[name]);
  const key = JSON.stringify(texts);
  const names = useMemo(
    () => (texts.length === 0 ? defaults : texts.filter((each) => each !== "").slice(0, mostNames)),
    [key, defaults],
  );
  const set = useCallback(
    (next: readonly string[]) => {
      const same = next.length === defaults.length && next.every((each, at) => each === defaults[at]);
      change({ [name]: same ? undefined : next.length === 0 ? [""] : next }, { replace: true });
    },
    [change, name, defaults],
  );
  return [names, set];
}

const mostNames = 12;
