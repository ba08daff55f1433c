/** How a table looks, in the address: `sort=-duration`, `hide=a,b`, `widths=a:120,b:300`, `row=17`. */
import { useCallback, useMemo } from "react";

import { textOf, useChangeSearch, useSearchParameters } from "../../app/search.js";

interface Sort {
  readonly id: string;
  readonly descending: boolean;
}

export interface TableState {
  readonly sort: Sort | null;
  readonly hidden: readonly string[];
  /** Pixels of columns that were resized. */
  readonly widths: Readonly<Record<string, number>>;
}

export const noTableState: TableState = { sort: null, hidden: [], widths: {} };

/**
 * The state of a page's table, and how to change it.
 * @param prefix tells several tables of a page apart.
 */
export function useTableState(prefix = ""): readonly [TableState, (changes: Partial<TableState>) => void] {
  const search = useSearchParameters();
  const changeSearch = useChangeSearch();
  const sort = textOf(search[`${prefix}sort`]) ?? "";
  const hide = textOf(search[`${prefix}hide`]) ?? "";
  const widths = textOf(search[`${prefix}widths`]) ?? "";
  const state = useMemo(() => readTableState(sort, hide, widths), [sort, hide, widths]);
  const change = useCallback(
    (changes: Partial<TableState>) => {
      const written = Object.entries(writeTableState(changes)).map(
        ([name, value]) => [`${prefix}${name}`, value] as const,
      );
      changeSearch(Object.fromEntries(written), { replace: true });
    },
    [prefix, changeSearch],
  );
  return [state, change];
}

/** What makes no sense is passed over. */
export function readTableState(sort: string, hide: string, widths: string): TableState {
  return {
    sort: sort === "" ? null : { id: sort.replace(/^-/, ""), descending: sort.startsWith("-") },
    hidden: hide === "" ? [] : hide.split(",").map(decode),
    widths: Object.fromEntries(
      [...widths.matchAll(/(?:^|,)([^,:]+):(\d{2,4})(?=,|$)/g)].map(([, name = "", pixels]) => [
        decode(name),
        Number(pixels),
      ]),
    ),
  };
}

/** What is not among the changes stays as it is in the address, which may be newer than what the caller has seen. */
export function writeTableState({
  sort,
  hidden,
  widths,
}: Partial<TableState>): Partial<Record<"sort" | "hide" | "widths", string | undefined>> {
  const orNothing = (text: string): string | undefined => (text === "" ? undefined : text);
  return {
    ...(sort === undefined ? {} : { sort: sort === null ? undefined : `${sort.descending ? "-" : ""}${sort.id}` }),
    ...(hidden === undefined ? {} : { hide: orNothing(hidden.map(encode).join(",")) }),
    ...(widths === undefined ? {} : { widths: orNothing(widthTexts(widths).join(",")) }),
  };
}

const widthTexts = (widths: TableState["widths"]): string[] =>
  Object.entries(widths).map(([name, pixels]) => `${encode(name)}:${Math.round(pixels)}`);

const encode = (name: string): string => name.replaceAll(/[%,:]/g, encodeURIComponent);

function decode(name: string): string {
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}
