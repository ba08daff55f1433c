/** What an address holds beside its path: the state of the page, as plain text. */
import { useNavigate, useSearch } from "@tanstack/react-router";
import { useCallback } from "react";

/** A parameter that is given once is a text, one that is given more often a list of texts. */
export type Search = Record<string, string | readonly string[] | undefined>;

/** The parameters of the address; each page reads its own, and takes nothing for granted. */
export function useSearchParameters(): Search {
  return useSearch({ strict: false });
}

/** A parameter as one text; null when it is not there. */
export function textOf(value: Search[string]): string | null {
  const text = typeof value === "object" ? value[0] : value;
  return text === undefined || text === "" ? null : text;
}

/** A parameter as a list. */
export function textsOf(value: Search[string]): readonly string[] {
  return value === undefined ? [] : typeof value === "object" ? value : [value];
}

/** What changes of parameters. A function is given what they are by then: a page may show what they were before that. */
type SearchChanges = Search | ((before: Search) => Search);

/**
 * Changes some parameters and leaves the others; undefined takes one away.
 * @returns `replace`: Back does not come back to what was before.
 */
export function useChangeSearch(): (changes: SearchChanges, o?: { readonly replace?: boolean }) => void {
  const navigate = useNavigate();
  return useCallback(
    (changes, o) => {
      const search = (before: Search): Search => ({
        ...before,
        ...(typeof changes === "function" ? changes(before) : changes),
      });
      void navigate({ to: ".", search, replace: o?.replace ?? false });
    },
    [navigate],
  );
}
