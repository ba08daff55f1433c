/** How a table looks, in the address: `sort=-duration`, `hide=a,b`, `widths=a:120,b:300`, `row=17`. */
import { useCallback, useMemo } from "react";

import { type Search, textOf, useChangeSearch, useSearchParameters } from "../../app/search.js";

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

/** What changes of it. A function is given what it is by then: a table may show what it was before that. */
export type TableStateChanges = Partial<TableState> | ((before: TableState) => Partial<TableState>);

export const noTableState: TableState = { sort: null, hidden: [], widths: {} };

/**
 * The state of a page's table, and how to change it.
 * @param prefix tells several tables of a page apart.
 */
export function useTableState(prefix = ""): readonly [TableState, (changes: TableStateChanges) => void] {
  const changeSearch = useChangeSearch();
  const texts = textsOf(useSearchParameters(), prefix);
  const state = useMemo(() => readTableState(...texts), texts);
  const change = useCallback(
    (changes: TableStateChanges) => {
      changeSearch(
        (before) => {
          const changed = changesOf(changes, () => readTableState(...textsOf(before, prefix)));
          const written = Object.entries(writeTableState(changed));
          return Object.fromEntries(written.map(([name, value]) => [`${prefix}${name}`, value]));
        },
        { replace: true },
      );
    },
    [prefix, changeSearch],
  );
  return [state, change];
}

/** What `changes` are to the state that there is by now. */
export function changesOf(changes: TableStateChanges, state: () => TableState): Partial<TableState> {
  return typeof changes === "function" ? changes(state()) : changes;
}

const textsOf = (search: Search, prefix: string): [sort: string, hide: string, widths: string] => [
  textOf(search[`${prefix}sort`]) ?? "",
  textOf(search[`${prefix}hide`]) ?? "",
  textOf(search[`${prefix}widths`]) ?? "",
];

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
