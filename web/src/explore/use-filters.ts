/** The filters of a page, in its address: `filter=service_name=shop&filter=http.route~cart`. */
import { useCallback, useMemo } from "react";

import { textsOf, useChangeSearch, useSearchParameters } from "../app/search.js";
import { type Filter, formatFilter, parseFilters } from "../ui/filters/filters.js";

/** A list in the address from what it is by then, which the page may not show yet. */
export type ListChange<T> = (before: readonly T[]) => readonly T[];

interface PageFilters {
  readonly filters: readonly Filter[];
  readonly changeFilters: (change: ListChange<Filter>) => void;
  /** Adds a filter, or takes it away where it is; what it contradicts goes. Null: rows without the key. */
  readonly toggle: (key: string, value: string | null, exclude: boolean) => void;
}

export function useFilters(): PageFilters {
  const search = useSearchParameters();
  const change = useChangeSearch();
  const texts = textsOf(search["filter"]);
  const key = JSON.stringify(texts);
  const filters = useMemo(() => parseFilters(texts), [key]);
  const changeFilters = useCallback(
    (next: ListChange<Filter>) =>
      change(({ filter }) => {
        const list = next(parseFilters(textsOf(filter)));
        return { filter: list.length === 0 ? undefined : list.map(formatFilter) };
      }),
    [change],
  );
  const toggle = useCallback(
    (name: string, value: string | null, exclude: boolean) =>
      changeFilters((before) => toggled(before, name, value, exclude)),
    [changeFilters],
  );
  return { filters, changeFilters, toggle };
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
): readonly [readonly string[], (change: ListChange<string>) => void] {
  const search = useSearchParameters();
  const change = useChangeSearch();
  const texts = textsOf(search[name]);
  const key = JSON.stringify(texts);
  const names = useMemo(() => namesOf(texts, defaults), [key, defaults]);
  const changeNames = useCallback(
    (next: ListChange<string>) =>
      change(
        (before) => {
          const list = next(namesOf(textsOf(before[name]), defaults));
          const same = list.length === defaults.length && list.every((each, at) => each === defaults[at]);
          return { [name]: same ? undefined : list.length === 0 ? [""] : list };
        },
        { replace: true },
      ),
    [change, name, defaults],
  );
  return [names, changeNames];
}

const mostNames = 12;

function namesOf(texts: readonly string[], defaults: readonly string[]): readonly string[] {
  return texts.length === 0 ? defaults : texts.filter((each) => each !== "").slice(0, mostNames);
}
